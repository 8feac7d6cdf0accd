package named

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	weirdns "weir/internal/dns"
	"weir/internal/netns/netnstest"
	"weir/internal/worker"
)

// silent is told of no question.
var silent = weirdns.NewRecorder(func([]weirdns.Asked) {})

// trial is a named under the worker's hands, in a namespace of its own.
type trial struct {
	*testing.T
	c       Config
	orders  chan worker.Order[Config]
	reports chan Report
	done    chan error // how it ended
	end     func() error
}

func alone(t *testing.T, f func(*trial)) {
	p := bind(t)
	netnstest.Alone(t, func(t *testing.T) {
		c := reference()
		c.Program = p
		// named goes through it; the test's own directories are shut to it.
		if err := os.MkdirAll("/run/state", 0o700); err != nil {
			t.Fatal(err)
		}
		c.Dir = "/run/state/named"
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.LANs[0].Addrs {
			a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
			if err := netlink.AddrAdd(lo, a); err != nil {
				t.Fatal(err)
			}
		}
		tr := &trial{T: t, c: c}
		t.Cleanup(func() {
			if tr.end != nil {
				_ = tr.end()
			}
		})
		f(tr)
	})
}

// start starts the worker's loop and has it take the configuration.
func (tr *trial) start() Report {
	tr.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tr.orders, tr.reports = make(chan worker.Order[Config]), make(chan Report, 16)
	tr.done = make(chan error, 1)
	done := tr.done
	var log strings.Builder
	go func() {
		done <- serve(ctx, tr.orders, func(r Report) { tr.reports <- r }, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	tr.end = func() error {
		cancel()
		err := <-done
		tr.end = nil
		if tr.Failed() {
			tr.Log(log.String())
		}
		return err
	}
	return tr.take()
}

// take has it take the configuration as it is now.
func (tr *trial) take() Report {
	tr.Helper()
	tr.orders <- worker.Order[Config]{Value: tr.c}
	select {
	case r := <-tr.reports:
		if r.Err != "" {
			tr.Error(r.Err)
		}
		return r
	case <-time.After(40 * time.Second):
		tr.Fatal("no report")
	}
	return Report{}
}

// send has the worker take a configuration, without waiting for it.
func (tr *trial) send(c Config) { tr.orders <- worker.Order[Config]{Value: c} }

// ask asks named.
func (tr *trial) ask(name string, rrtype uint16) *dns.Msg {
	tr.Helper()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), rrtype)
	m.SetEdns0(1232, true)
	c := &dns.Client{Net: "tcp", Timeout: 5 * time.Second}
	r, _, err := c.Exchange(m, "172.31.0.1:53")
	if err != nil {
		tr.Fatalf("%s: %v", name, err)
	}
	return r
}

// has fails the test unless a name has exactly these data.
func (tr *trial) has(name string, rrtype uint16, want ...string) {
	tr.Helper()
	var got []string
	for _, rr := range tr.ask(name, rrtype).Answer {
		got = append(got, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		tr.Errorf("%s %s: %q, want %q", name, dns.TypeToString[rrtype], got, want)
	}
}

func (tr *trial) serial(zone string) uint32 {
	tr.Helper()
	for _, rr := range tr.ask(zone, dns.TypeSOA).Answer {
		if s, ok := rr.(*dns.SOA); ok {
			return s.Serial
		}
	}
	tr.Fatalf("%s has no SOA", zone)
	return 0
}

func TestServe(t *testing.T) {
	alone(t, func(tr *trial) {
		r := tr.start()
		if !r.Ready || r.PID == 0 {
			tr.Fatalf("%+v", r)
		}
		// The reference's records, from the configuration alone.
		tr.has("local", dns.TypeA, "172.31.0.1")
		tr.has("gw.local", dns.TypeAAAA, "fd00::1")
		tr.has("gw-in.local", dns.TypeA, "172.31.1.0", "172.31.1.2")
		tr.has("gw-out.local", dns.TypeA, "172.31.1.1", "172.31.1.3")
		tr.has("nas.local", dns.TypeAAAA, "fd00::211:32ff:fede:ad71")
		tr.has("files.local", dns.TypeCNAME, "nas.local.")
		tr.has("1.0.31.172.in-addr.arpa", dns.TypePTR, "gw.local.")
		tr.has("1.1.31.172.in-addr.arpa", dns.TypePTR, "gw-fiber-out.local.")
		tr.has("localhost", dns.TypeA, "127.0.0.1")
		for name, want := range map[string]int{
			"nothing.local": dns.RcodeNameError, "x.onion": dns.RcodeNameError, "5.4.3.10.in-addr.arpa": dns.RcodeNameError,
		} {
			if got := tr.ask(name, dns.TypePTR); got.Rcode != want || len(got.Ns) == 0 {
				tr.Errorf("%s: %v", name, got)
			}
		}
		if got := tr.ask("version.bind", dns.TypeTXT); len(got.Answer) > 0 {
			tr.Errorf("the version shows: %v", got)
		}
		if st, err := os.Stat("/run/state"); err != nil || tr.c.Program.UID != 0 && st.Mode().Perm()&0o066 != 0 {
			tr.Errorf("the state directory is open: %v %v", st.Mode(), err)
		}
		if tr.c.Program.UID != 0 {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID))
			if err != nil || !strings.Contains(string(b), fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", tr.c.Program.UID)) ||
				!strings.Contains(string(b), "\nCapPrm:\t0000000000000400\n") {
				tr.Errorf("named may do more than it needs: %v\n%s", err, b)
			}
		}

		// Changes reach it without a restart; what went from the file goes from the zone.
		serial := tr.serial("local")
		tr.c.Hosts = append(tr.c.Hosts[:1:1], Host{Name: "tv", Addrs: []netip.Addr{addr("172.31.0.60")}})
		tr.c.Zones = []Zone{{Name: "example.org", Records: []Record{{Name: "*", Texts: []string{"any"}}}}}
		if r2 := tr.take(); r2.PID != r.PID {
			tr.Errorf("named was started again: %d, %d", r.PID, r2.PID)
		}
		tr.has("tv.local", dns.TypeA, "172.31.0.60")
		tr.has("60.0.31.172.in-addr.arpa", dns.TypePTR, "tv.local.")
		tr.has("example.local", dns.TypeA)
		tr.has("123.0.31.172.in-addr.arpa", dns.TypePTR)
		tr.has("x.example.org", dns.TypeTXT, `"any"`)
		if now := tr.serial("local"); now-serial > 10 || now == serial {
			tr.Errorf("the serial went from %d to %d", serial, now)
		}
		tr.c.Zones[0].SOA = SOA{1, 2, 3, 4}
		tr.take()
		tr.has("example.org", dns.TypeSOA, fmt.Sprintf("gw.local. hostmaster.local. %d 1 2 3 4", tr.serial("example.org")))

		// A zone that can't be: the files stay, named goes on.
		good := tr.c
		tr.c.Keys = []Key{{Name: "k", Algorithm: "hmac-sha256", Zones: []string{"local"}, Types: []string{"NOTATYPE"}}}
		tr.orders <- worker.Order[Config]{Value: tr.c}
		if r := <-tr.reports; r.Err == "" {
			tr.Error("a type that there is not was taken")
		}
		tr.c = good
		tr.take()
		tr.has("tv.local", dns.TypeA, "172.31.0.60")
		if err := tr.end(); err == nil {
			tr.Error("it ended by itself")
		}
	})
}

// What keeps named from starting is told, with what to do.
func TestCannotStart(t *testing.T) {
	alone(t, func(tr *trial) {
		if tr.c.Program.UID != 0 {
			if err := os.Chmod("/run", 0o700); err != nil {
				tr.Fatal(err)
			}
			if _, err := open(tr.Context(), tr.c, silent, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "chmod o+x /run") {
				tr.Errorf("a way that is shut: %v", err)
			}
			if err := os.Chmod("/run", 0o755); err != nil {
				tr.Fatal(err)
			}
		}
		if _, err := write(tr.c, time.Now()); err != nil {
			tr.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tr.c.Dir, confFile), []byte("options { nonsense; };\n"), 0o644); err != nil {
			tr.Fatal(err)
		}
		p, err := start(tr.c, silent, slog.New(slog.DiscardHandler))
		if err != nil {
			tr.Fatal(err)
		}
		if err := p.ready(tr.Context()); err == nil || !strings.Contains(err.Error(), "loading configuration") {
			tr.Errorf("a file that can't be read: %v", err)
		}
	})
}

// An ended named ends the worker, for the parent to start both again; and what
// was put in before a kill -9, by us and by others, is there after it.
func TestKilled(t *testing.T) {
	alone(t, func(tr *trial) {
		tr.c.Keys = []Key{{Name: "tool", Algorithm: "hmac-sha256", Zones: []string{"local"}}}
		r := tr.start()
		k, _, err := secret(tr.c.Dir, tr.c.Keys[0])
		if err != nil {
			tr.Fatal(err)
		}
		tool := client{addr: "172.31.0.1:53", key: k}
		put := func(rr string) int {
			m := new(dns.Msg)
			m.SetUpdate("local.")
			x, err := dns.NewRR(rr)
			if err != nil {
				tr.Fatal(err)
			}
			m.Insert([]dns.RR{x})
			rcode, err := tool.update(tr.Context(), m)
			if err != nil {
				tr.Fatal(err)
			}
			return rcode
		}
		if rcode := put("printer.local. 60 IN A 172.31.0.77"); rcode != dns.RcodeSuccess {
			tr.Errorf("with a key: %s", dns.RcodeToString[rcode])
		}
		if rcode := put("gw.local. 60 IN A 172.31.0.66"); rcode != dns.RcodeRefused {
			tr.Errorf("the router's own name: %s", dns.RcodeToString[rcode])
		}
		for _, own := range []string{"local", "gw-in.local", "gw-home.local", "nas.local", "files.local"} {
			if rcode := put(own + ". 60 IN TXT x"); rcode != dns.RcodeRefused {
				tr.Errorf("%s, which the file has: %s", own, dns.RcodeToString[rcode])
			}
		}
		serial := tr.serial("local")
		if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
			tr.Fatal(err)
		}
		if err := <-tr.done; err == nil || !strings.Contains(err.Error(), "killed") {
			tr.Errorf("it ended: %v", err)
		}
		tr.c.Hosts = tr.c.Hosts[:1] // edited meanwhile
		tr.start()
		tr.has("printer.local", dns.TypeA, "172.31.0.77")
		tr.has("gw.local", dns.TypeA, "172.31.0.1")
		tr.has("example.local", dns.TypeA)
		if now := tr.serial("local"); now == serial || now-serial > 100 {
			tr.Errorf("the serial went from %d to %d", serial, now)
		}

		// A zone that a disk made nonsense of is made anew.
		_ = tr.end()
		path := filepath.Join(tr.c.Dir, workDir, "local.zone")
		if err := os.WriteFile(path, []byte("\x00\x00\x00nonsense"), 0o640); err != nil {
			tr.Fatal(err)
		}
		_ = os.Remove(path + ".jnl")
		tr.start()
		tr.has("nas.local", dns.TypeA, "172.31.0.23")
		if _, err := os.Stat(path + ".bad"); err != nil {
			tr.Error(err)
		}
	})
}

// A LAN's own domains have its devices, the file's and those that have leases; an
// address is called by the first, and a domain within another is no zone.
func TestDomains(t *testing.T) {
	alone(t, func(tr *trial) {
		domains := []string{"corp.example", "lab.corp.example"}
		tr.c.LANs[0].Domains = domains
		tr.c.Hosts = []Host{{Name: "pi", Addrs: []netip.Addr{addr("172.31.0.77")}, Domains: domains}}
		tr.c.Leases = []Lease{{Name: "phone", Addr: addr("172.31.0.100"), Client: "01aa", MAC: "02:00:00:00:00:aa", Domains: domains}}
		tr.start()
		for _, d := range domains {
			tr.has("pi."+d, dns.TypeA, "172.31.0.77")
			tr.has("phone."+d, dns.TypeA, "172.31.0.100")
			tr.has(tr.c.Gateway+"."+d, dns.TypeA, "172.31.0.1")
		}
		tr.has("pi."+tr.c.Domain, dns.TypeA)
		tr.has("corp.example", dns.TypeNS, tr.c.Gateway+"."+tr.c.Domain+".")
		tr.has("lab.corp.example", dns.TypeNS)
		tr.has("100.0.31.172.in-addr.arpa", dns.TypePTR, "phone.corp.example.")
		tr.has("77.0.31.172.in-addr.arpa", dns.TypePTR, "pi.corp.example.")

		// The lease ends: both names go, and the address's.
		tr.c.Leases = nil
		tr.take()
		for _, d := range domains {
			tr.has("phone."+d, dns.TypeA)
		}
		tr.has("100.0.31.172.in-addr.arpa", dns.TypePTR)
	})
}

// Leases become names, and cease to be; each names a device once.
func TestLeases(t *testing.T) {
	alone(t, func(tr *trial) {
		lease := func(name, a string) Lease {
			mac := fmt.Sprintf("02:00:00:00:01:%02x", addr(a).As4()[3])
			return Lease{Name: name, Addr: addr(a), Client: "mac:" + mac, MAC: mac}
		}
		tr.start()
		tr.c.Leases = []Lease{lease("Anna's Phone", "172.31.0.100"), lease("nas", "172.31.0.101"), lease("wpad", "172.31.0.102"), lease("gw", "172.31.0.103")}
		begin := time.Now()
		r := tr.take()
		took := time.Since(begin)
		tr.has("annas-phone.local", dns.TypeA, "172.31.0.100")
		tr.has("100.0.31.172.in-addr.arpa", dns.TypePTR, "annas-phone.local.")
		if len(tr.ask("annas-phone.local", dns.TypeDHCID).Answer) != 1 {
			tr.Error("no DHCID")
		}
		tr.has("nas.local", dns.TypeA, "172.31.0.23")
		tr.has("gw.local", dns.TypeA, "172.31.0.1")
		for _, not := range []string{"wpad.local", "isatap.local"} {
			if got := tr.ask(not, dns.TypeA); got.Rcode != dns.RcodeNameError {
				tr.Errorf("%s: %v", not, got)
			}
		}
		if len(r.Notes) != 2 {
			tr.Errorf("what is told: %q", r.Notes)
		}
		t.Logf("a lease's name after %v", took)

		// Two of one name: the first keeps it, whatever the order they come in now.
		tr.c.Leases = []Lease{lease("annas-phone", "172.31.0.110"), lease("Anna's Phone", "172.31.0.100")}
		if r := tr.take(); len(r.Notes) != 1 {
			tr.Errorf("what is told: %q", r.Notes)
		}
		tr.has("annas-phone.local", dns.TypeA, "172.31.0.100")
		tr.has("110.0.31.172.in-addr.arpa", dns.TypePTR)
		// A name that somebody put in with a key is theirs.
		own := tr.client()
		m := new(dns.Msg)
		m.SetUpdate("local.")
		x, _ := dns.NewRR("cam.local. 60 IN A 172.31.0.9")
		m.Insert([]dns.RR{x})
		if rcode, err := own.update(tr.Context(), m); err != nil || rcode != 0 {
			tr.Fatal(rcode, err)
		}
		tr.c.Leases = append(tr.c.Leases, lease("cam", "172.31.0.111"))
		tr.take()
		tr.has("cam.local", dns.TypeA, "172.31.0.9")

		// The holder leaves, in a moment when nobody looks; another has its address moved.
		_ = tr.end()
		tr.c.Leases = []Lease{lease("annas-phone", "172.31.0.110")}
		tr.start()
		tr.has("annas-phone.local", dns.TypeA, "172.31.0.110")
		tr.has("100.0.31.172.in-addr.arpa", dns.TypePTR)
		tr.has("110.0.31.172.in-addr.arpa", dns.TypePTR, "annas-phone.local.")
		moved := tr.c.Leases[0]
		moved.Addr = addr("172.31.0.112")
		tr.c.Leases = []Lease{moved}
		tr.take()
		tr.has("annas-phone.local", dns.TypeA, "172.31.0.112")
		tr.has("110.0.31.172.in-addr.arpa", dns.TypePTR)
		// A dual-stack host keeps its other address.
		m = new(dns.Msg)
		m.SetUpdate("local.")
		x, _ = dns.NewRR("annas-phone.local. 60 IN AAAA fd00::112")
		m.Insert([]dns.RR{x})
		if rcode, err := own.update(tr.Context(), m); err != nil || rcode != 0 {
			tr.Fatal(rcode, err)
		}
		tr.c.Leases = nil
		tr.take()
		tr.has("annas-phone.local", dns.TypeA)
		tr.has("annas-phone.local", dns.TypeAAAA, "fd00::112")
		tr.has("112.0.31.172.in-addr.arpa", dns.TypePTR)
		tr.has("cam.local", dns.TypeA, "172.31.0.9")
	})
}

// client is our own, with our own key.
func (tr *trial) client() client {
	tr.Helper()
	k, _, err := secret(tr.c.Dir, Key{Name: ownKey, Algorithm: "hmac-sha256"})
	if err != nil {
		tr.Fatal(err)
	}
	return client{addr: "127.0.0.1:53", key: k}
}
