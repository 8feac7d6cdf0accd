package cases

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/state"
)

// stored is all files that the daemon keeps.
func (h *house) stored() (files []string) {
	h.Helper()
	h.must(filepath.WalkDir(h.dir+"/state", func(p string, e fs.DirEntry, err error) error {
		if st, err := os.Stat(p); err == nil && e.Type().IsRegular() && st.Size() > 0 {
			files = append(files, p)
		}
		return err
	}))
	return files
}

// Any stored file of a house is bent at any byte, or cut at any length, while the daemon is
// dead: the next one is a gateway all the same and serves, says what it can't read, once,
// and knows all else. Then its disk is filled under it, and has room again.
func TestAnyDamageToWhatIsStored(t *testing.T) {
	rounds := 6
	if inFull() {
		rounds = 100
	}
	in(t, func(h *house) {
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // what is damaged
		h.connect(fiberLine())
		h.connect(lteLine())
		h.must(os.Mkdir(h.dir+"/state", 0o700))
		h.sh(h.gw, "mount -t tmpfs -o size=1m none "+h.dir+"/state")
		pc := h.join("pc", "", "172.31.0.50/24")
		crowd := h.join("crowd", "", "172.31.0.51/24")
		h.start(base)
		serves := func(when string, n int) (a netip.Addr) {
			h.Helper()
			h.untilOutBy(pc, "fiber", 20*time.Second)
			h.until(fmt.Sprintf("%s: device %d has an address (seed %d)", when, n, seed), 20*time.Second, func() (ok bool) {
				a, ok = h.take(crowd, n, 2*time.Second)
				return ok
			})
			return a
		}
		edit := func() (string, error) {
			h.write(base + fmt.Sprintf("# %d\n", rnd.Uint32()))
			return h.tell("apply", h.file, "--yes")
		}
		serves("at first", 0)
		_, err := edit()
		h.must(err)
		tried := map[string]int{}
		for round := range rounds {
			h.end(syscall.SIGKILL)
			before, _, err := state.Read(h.dir + "/state")
			h.must(err)
			files := h.stored()
			file := files[rnd.IntN(len(files))]
			if round%2 == 0 { // what matters most
				file = h.dir + "/state/state.log"
			}
			b, err := os.ReadFile(file)
			h.must(err)
			at, how := rnd.IntN(len(b)), "cut"
			if rnd.IntN(3) > 0 {
				how = "bent"
				b[at] ^= byte(1 + rnd.IntN(255))
			} else {
				b = b[:at]
			}
			h.must(os.WriteFile(file, b, 0o600))
			when := fmt.Sprintf("%s %s at %d", file, how, at)
			tried[strings.TrimPrefix(filepath.Dir(file), h.dir)]++
			after, _, err := state.Read(h.dir + "/state")
			h.must(err)
			heard := func(from int) bool { return len(lines(h.log()[from:], "level=ERROR", "stored state", "damaged")) > 0 }
			past := strings.HasPrefix(file, h.dir+"/state/history/") && strings.HasSuffix(file, ".json")
			from := len(h.log())
			h.again()
			serves(when, round+1)
			if lost := past || !reflect.DeepEqual(before, after) && how == "bent"; lost && !heard(from) {
				h.Errorf("%s: nothing is said of it; seed %d", when, seed)
			}
			if out, err := edit(); err != nil {
				h.Errorf("%s: and then no file can be put in force: %s", when, out)
			}
			h.end(syscall.SIGTERM)
			from = len(h.log())
			h.again()
			serves(when+", and started again", round+1)
			if heard(from) {
				h.Errorf("%s: it is said again at the next start; seed %d", when, seed)
			}
		}

		unstored := func() bool { return h.status().Unstored != "" }
		fill := h.dir + "/state/fill"
		h.sh(h.gw, "dd if=/dev/zero of="+fill+" bs=1k 2>/dev/null || test -s "+fill)
		if out, err := edit(); err == nil || !strings.Contains(out, "will not survive a restart") {
			h.Errorf("the disk is full, and of an apply it is said: %s", out)
		}
		given := serves("with a full disk", rounds+1)
		h.until("the alarm is raised", 20*time.Second, unstored)
		h.must(os.Remove(fill))
		h.until("all is stored again", 20*time.Second, func() bool { return !unstored() })
		h.end(syscall.SIGKILL)
		h.again()
		// A server that knows of no lease says nothing (RFC 2131, 4.3.2).
		h.until("the address that was given out with a full disk is known after a kill", 20*time.Second, func() bool {
			return h.reboot(crowd, rounds+1, given) == dhcpv4.MessageTypeAck
		})
		h.Logf("%d damages, by folder: %v; seed %d", rounds, tried, seed)
	})
}
