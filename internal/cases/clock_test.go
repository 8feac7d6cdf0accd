package cases

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
	"weir/internal/netns/netnstest"
)

// emulated is by how much an emulated machine may exceed a time (architecture.md, 4).
const emulated = 30

// TestClockOf1970: a machine without a clock chip, on which it is 1970, has the
// first validated answer within seconds, though the signatures of the internet are
// of a time that the program did not know when it was made. No client loses its
// lease by the clock being set (B16): not by the years that it is set forward, nor
// by a day that it is set back while the daemon is down.
//
// It sets the machine's clock, which weir must find its own: it is for a virtual
// machine, in the first network namespace there, and nowhere else.
func TestClockOf1970(t *testing.T) {
	if os.Getenv("WEIR_CLOCK") == "" {
		netnstest.Missing(t, "clock", errors.New("no test sets the clock here: see test/vm-run"))
	}
	set := func(to time.Time) {
		t.Helper()
		ts := unix.NsecToTimespec(to.UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
			t.Fatal(err)
		}
	}
	made, err := os.Stat("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	set(time.Unix(100, 0))
	l, err := lab.New(t.Context(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	l.Clock.Set(made.ModTime().Add(200 * 24 * time.Hour))

	h := &house{T: t, Lab: l, gw: l.Gateway(), dir: "/run/case"}
	h.must(os.MkdirAll(h.dir+"/state", 0o755))
	h.file = filepath.Join(h.dir, "gateway.hcl")
	h.home, err = l.Switch("home")
	h.must(err)
	h.must(h.home.Plug(lab.Plug{Host: h.gw, Dev: "eth0"}))
	defer h.tellLog()
	h.need("nft", "named", "chronyd")
	h.must(os.WriteFile("/etc/nsswitch.conf", []byte("hosts: files dns\n"), 0o644))
	h.must(os.WriteFile(h.dir+"/state/root-anchors", []byte(l.RootAnchors()), 0o600))
	h.connect(fiberLine())
	pc := h.join("pc", "", "172.31.0.50/24")
	tv := h.join("tv", "02:00:00:00:00:77")

	begin := time.Now()
	h.start(unsaidDNS + `dns { engine = "bind" }`)
	defer func() {
		if !h.gone() {
			h.end(syscall.SIGTERM)
		}
	}()
	var leased string
	h.until("a device has a lease while it is 1970 or so", 2*time.Minute, func() bool {
		ack, err := tv.Lease(h.Context())
		if err == nil {
			leased = ack.YourIPAddr.String()
		}
		return err == nil
	})
	h.until("an answer is validated", 5*time.Second*emulated, func() bool {
		m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), "signed.example.com", dns.TypeA, time.Second)
		return err == nil && m.AuthenticatedData && len(m.Answer) > 0
	})
	took := time.Since(begin)
	t.Logf("the first validated answer came %v after the start (wanted: 5 s; %d times that where the machine is emulated)", took.Round(10*time.Millisecond), emulated)
	if off := time.Since(l.Clock.Now()).Abs(); off > time.Second {
		t.Errorf("the clock is off by %v", off)
	}
	holds := func(when string) {
		t.Helper()
		h.until("the lease is there "+when, time.Minute, func() bool {
			out, err := h.tell("leases")
			return err == nil && strings.Contains(out, leased+" ") && strings.Contains(out, "02:00:00:00:00:77")
		})
		if ack, err := tv.Lease(h.Context()); err != nil || ack.YourIPAddr.String() != leased {
			t.Errorf("%s the device is given another address: %v, %v", when, ack, err)
		}
	}
	holds("after the clock was set forward")
	h.end(syscall.SIGKILL)
	set(l.Clock.Now().Add(-24 * time.Hour))
	h.again()
	holds("after a day back, without a daemon")
	// The stored time is later than that: the clock is not left a day behind.
	h.until("the clock is right again", time.Minute, func() bool { return time.Until(l.Clock.Now()) < 2*time.Hour })
}
