package named

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestReloadLosesNothing: an edit that adds a host, a zone and a network costs no
// client an answer.
func TestReloadLosesNothing(t *testing.T) {
	alone(t, func(tr *trial) {
		pid := tr.start().PID
		var asked, lost atomic.Int64
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				c, err := dns.Dial("udp", "172.31.0.1:53")
				if err != nil {
					lost.Add(1)
					return
				}
				defer c.Close()
				for range time.Tick(4 * time.Millisecond) {
					select {
					case <-stop:
						return
					default:
					}
					m := new(dns.Msg)
					m.SetQuestion("nas.local.", dns.TypeA)
					_ = c.SetDeadline(time.Now().Add(3 * time.Second))
					asked.Add(1)
					if err := c.WriteMsg(m); err != nil {
						lost.Add(1)
						continue
					}
					if r, err := c.ReadMsg(); err != nil || len(r.Answer) != 1 {
						lost.Add(1)
					}
				}
			})
		}
		for i := range 3 {
			tr.c.Hosts = append(tr.c.Hosts, Host{Name: fmt.Sprintf("host%d", i), Addrs: []netip.Addr{addr(fmt.Sprintf("172.31.0.%d", 60+i))}})
			tr.c.Zones = append(tr.c.Zones, Zone{Name: fmt.Sprintf("zone%d.example", i), Records: []Record{{Name: "@", Texts: []string{"x"}}}})
			tr.c.LANs = append(tr.c.LANs, LAN{Name: fmt.Sprintf("lan%d", i), Addrs: []netip.Prefix{pfx(fmt.Sprintf("10.0.%d.1/24", i))}})
			if r := tr.take(); r.PID != pid {
				tr.Errorf("named was started again")
			}
			tr.has(fmt.Sprintf("host%d.local", i), dns.TypeA, fmt.Sprintf("172.31.0.%d", 60+i))
			tr.has(fmt.Sprintf("zone%d.example", i), dns.TypeTXT, `"x"`)
		}
		for asked.Load() < 200 { // it was quick
			tr.has("host0.local", dns.TypeA, "172.31.0.60")
		}
		close(stop)
		wg.Wait()
		tr.Logf("%d asked, %d lost", asked.Load(), lost.Load())
		if lost.Load() > 0 {
			tr.Errorf("%d of %d questions were lost", lost.Load(), asked.Load())
		}
	})
}

// TestKilledAgainAndAgain: named is killed in the middle of leases' updates and of
// edits. Each time the zones load, what was reported as done is there, and what
// should not be is not.
func TestKilledAgainAndAgain(t *testing.T) {
	alone(t, func(tr *trial) {
		rounds := 20
		switch {
		case testing.Short():
			rounds = 3
		case os.Getenv("WEIR_LONG") != "":
			rounds = 100
		}
		serial, extra := uint32(0), uint32(0)
		for round := range rounds {
			// Other leases each time, and another host.
			tr.c.Leases = nil
			for i := range 30 {
				mac := fmt.Sprintf("02:00:00:00:%02x:%02x", round, i)
				tr.c.Leases = append(tr.c.Leases, Lease{Name: fmt.Sprintf("r%d-c%d", round, i), Addr: addr(fmt.Sprintf("172.31.0.%d", 130+i)), Client: "mac:" + mac, MAC: mac})
			}
			tr.c.Hosts = []Host{{Name: fmt.Sprintf("host%d", round), Addrs: []netip.Addr{addr("172.31.0.60")}}}
			// A zone that comes and goes, edited each time.
			if tr.c.Zones = nil; round%2 == 0 {
				tr.c.Zones = []Zone{{Name: "example.org", Records: []Record{{Name: "www", Texts: []string{fmt.Sprint(round)}}}}}
			}
			r := tr.start()
			check := func() {
				for i := range 30 {
					tr.has(fmt.Sprintf("r%d-c%d.local", round, i), dns.TypeA, fmt.Sprintf("172.31.0.%d", 130+i))
				}
				tr.has(fmt.Sprintf("host%d.local", round), dns.TypeA, "172.31.0.60")
				tr.has("60.0.31.172.in-addr.arpa", dns.TypePTR, fmt.Sprintf("host%d.local.", round))
				tr.has("130.0.31.172.in-addr.arpa", dns.TypePTR, fmt.Sprintf("r%d-c0.local.", round))
				if round > 0 {
					tr.has(fmt.Sprintf("r%d-c0.local", round-1), dns.TypeA)
					tr.has(fmt.Sprintf("host%d.local", round-1), dns.TypeA)
				}
			}
			check()
			if round%2 == 0 {
				tr.has("www.example.org", dns.TypeTXT, fmt.Sprintf("%q", fmt.Sprint(round)))
				if now := tr.serial("example.org"); round > 0 && int32(now-extra) <= 0 {
					tr.Errorf("the serial of the zone that came again went from %d to %d", extra, now)
				} else {
					extra = now
				}
			}
			if made, _ := filepath.Glob(filepath.Join(tr.c.Dir, workDir, "*.bad")); len(made) > 0 {
				tr.Errorf("a zone did not load: %q", made)
			}
			if now := tr.serial("local"); round > 0 && int32(now-serial) <= 0 {
				tr.Errorf("the serial went from %d to %d", serial, now)
			} else {
				serial = now
			}
			// In the middle of the next ones: it does not get to report.
			half := tr.c
			half.Leases = half.Leases[:3*round%30]
			tr.send(half)
			time.Sleep(time.Duration(2*round%60) * time.Millisecond) // not waited for: the kill comes at another point each time
			if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
				tr.Fatal(err)
			}
			if err := <-tr.done; err == nil {
				tr.Error("it goes on without named")
			}
			tr.end = nil
		}
	})
}
