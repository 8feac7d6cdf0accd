package cases

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/state"
)

// slowNft puts a program in nft's place that makes the file waits, waits as many seconds
// as the file slow says, and then fails if the text is about what the file fail says.
func (h *house) slowNft() {
	h.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		nft = "/usr/sbin/nft"
	}
	h.must(os.Mkdir(h.dir+"/bin", 0o755))
	h.must(os.WriteFile(h.dir+"/bin/nft", []byte(`#!/bin/sh
[ -e `+h.dir+`/slow ] && : > `+h.dir+`/waits && sleep $(cat `+h.dir+`/slow)
text=$(cat)
[ -e `+h.dir+`/fail ] && case "$text" in *"$(cat `+h.dir+`/fail)"*) echo "made to fail" >&2; exit 1;; esac
echo "$text" | `+nft+` "$@"
`), 0o755)) //nolint:gosec // it is run
	h.env = append(h.env, "PATH="+h.dir+"/bin:"+os.Getenv("PATH"))
}

// busy has the loop be in nft for a while: somebody's rule is found, and taken out.
func (h *house) busy(seconds string) {
	h.Helper()
	h.must(os.WriteFile(h.dir+"/slow", []byte(seconds), 0o600))
	h.sh(h.gw, "nft add rule inet weir through counter")
}

const withoutLTE = `
gateway "gw" { domain = "local" }
dns { engine = "forward" }
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
}
`

// A trial that fails half way is taken back at once, and leaves no timer; one is
// confirmed by who comes in its last tenth of a second, though the loop is busy; and
// a stuck loop starves the service manager's watchdog, which its work feeds.
func TestTrialAndWatchdog(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		h.slowNft()
		heard := h.watchdog(900 * time.Millisecond)
		h.start(withoutLTE)
		h.until("the daemon answers", 20*time.Second, func() bool { _, err := h.tell("status"); return err == nil })

		// The new line's own filter is loaded after main's, and fails.
		with := h.dir + "/with.hcl"
		h.must(os.WriteFile(with, []byte(base), 0o600))
		h.must(os.WriteFile(h.dir+"/fail", []byte(`oifname "eth2"`), 0o600))
		if out, err := h.tell("apply", with, "--yes", "--confirm", "3s"); err == nil || !strings.Contains(out, "made to fail") || !strings.Contains(out, "were undone") {
			t.Fatalf("it did not fail half way: %v", err)
		}
		h.must(os.Remove(h.dir + "/fail"))
		if s := h.status(); !s.File.ConfirmBy.IsZero() || s.File.From != h.file {
			t.Errorf("after the failure this is in force: %+v", s.File)
		}
		if out, err := h.tell("confirm"); err == nil || !strings.Contains(out, "no file waits to be confirmed") {
			t.Errorf("a timer is left: %s", out)
		}
		h.sh(h.gw, "test ! -e /run/netns/wan-lte")

		// At the last moment, in the middle of a turn that outlasts the trial.
		trial := func(within string) time.Duration {
			out, err := h.tell("apply", with, "--yes", "--confirm", within)
			if err != nil {
				t.Fatal(out)
			}
			now, err := state.Uptime()
			h.must(err)
			k, _, err := state.Read(h.dir + "/state")
			h.must(err)
			return k.Force.Trial.Until - now
		}
		left := trial("4s")
		time.AfterFunc(left-time.Second, func() { h.busy("2") })
		time.Sleep(left - 90*time.Millisecond)
		if out, err := h.tell("confirm"); err != nil {
			t.Errorf("confirmed in the last tenth of a second: %s", out)
		}
		if s := h.status(); s.File.From != with || !s.File.ConfirmBy.IsZero() {
			t.Errorf("confirmed at the last moment, and this is in force: %+v", s.File)
		}
		h.must(os.Remove(h.dir + "/slow"))

		// Too late, while the loop has not noticed yet: the file before is in force.
		if out, err := h.tell("rollback", "--yes"); err != nil {
			t.Fatal(out)
		}
		left = trial("3s")
		time.AfterFunc(left-time.Second, func() { h.busy("2") })
		time.Sleep(left + 50*time.Millisecond)
		if out, err := h.tell("confirm"); err == nil {
			t.Errorf("confirmed too late: %s", out)
		}
		h.must(os.Remove(h.dir + "/slow"))
		if s := h.status(); s.File.From != h.file || s.File.By != "unconfirmed" {
			t.Errorf("not confirmed, and this is in force: %+v", s.File)
		}

		// The watchdog: fed while the loop works, and not while it is stuck.
		time.Sleep(2 * time.Second)
		if gap := heard.longest(time.Now().Add(-1500 * time.Millisecond)); gap > 900*time.Millisecond {
			t.Errorf("the loop works, and was silent for %v", gap)
		}
		h.busy("3")
		begin := time.Now()
		time.Sleep(2800 * time.Millisecond)
		if gap := heard.longest(begin); gap < 1500*time.Millisecond {
			t.Errorf("the loop is stuck for 3 s, and the longest silence is %v", gap)
		}
		h.must(os.Remove(h.dir + "/slow"))
		h.until("the watchdog is fed again", 10*time.Second, func() bool { return time.Since(heard.last()) < 300*time.Millisecond })
		h.end(syscall.SIGTERM)
	})
}

// feeding is when the service manager heard WATCHDOG=1.
type feeding struct {
	mu sync.Mutex
	at []time.Time
}

func (f *feeding) last() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.at) == 0 {
		return time.Time{}
	}
	return f.at[len(f.at)-1]
}

// longest is the longest silence since a moment.
func (f *feeding) longest(since time.Time) (gap time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range append(f.at[:len(f.at):len(f.at)], time.Now()) {
		if at.After(since) {
			gap = max(gap, at.Sub(since))
			since = at
		}
	}
	return gap
}

// watchdog is the service manager, which wants to hear of the daemon so often.
func (h *house) watchdog(every time.Duration) *feeding {
	h.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: h.dir + "/notify", Net: "unixgram"})
	h.must(err)
	h.Cleanup(func() { c.Close() })
	h.env = append(h.env, "NOTIFY_SOCKET="+h.dir+"/notify", fmt.Sprintf("WATCHDOG_USEC=%d", every.Microseconds()))
	f := &feeding{}
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			if string(b[:n]) == "WATCHDOG=1" {
				f.mu.Lock()
				f.at = append(f.at, time.Now())
				f.mu.Unlock()
			}
		}
	}()
	return f
}
