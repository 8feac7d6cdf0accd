package cases

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/lab"
	"weir/internal/state"
)

// stormHouse is a house with room for 1,024 devices, and a host that the file
// names anew each time.
const stormHouse = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/16", "fd00::1/64"]
  dhcp { pool = "172.31.16.0-172.31.19.255" }
  host "h%[1]d" {
    mac     = "02:00:00:00:77:01"
    address = "172.31.0.%[2]d"
  }
}
dns { engine = "bind" }
`

// storm is a crowd of devices, and what it was told.
type storm struct {
	*house
	crowd *lab.Crowd
	rnd   *rand.Rand

	mu     sync.Mutex
	held   map[uint32]netip.Addr // by client: acknowledged, and not given back
	holder map[netip.Addr]uint32
	turn   map[uint32]int // how often that changed
	busy   map[uint32]bool
	acks   int
}

// next is what a device wants next: mostly what it can have.
func (s *storm) next(until int) func() (lab.Exchange, bool) {
	return func() (lab.Exchange, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.acks >= until {
			return lab.Exchange{}, false
		}
		e := lab.Exchange{Client: 1 + s.rnd.Uint32N(800), Wish: lab.ToLease}
		for s.busy[e.Client] {
			e.Client = 1 + s.rnd.Uint32N(800)
		}
		s.busy[e.Client] = true
		if a, ok := s.held[e.Client]; ok {
			e.Addr, e.Wish = a, []lab.Wish{lab.ToRenew, lab.ToRenew, lab.ToReboot, lab.ToRelease}[s.rnd.IntN(4)]
		}
		if e.Wish == lab.ToRelease {
			s.drop(e.Client) // from now on another may have it
		}
		return e, true
	}
}

func (s *storm) drop(client uint32) {
	s.turn[client]++
	delete(s.holder, s.held[client])
	delete(s.held, client)
}

// done takes in what a device was told.
func (s *storm) done(e lab.Exchange) {
	if wrong := s.told(e); wrong != "" {
		s.Error(wrong)
	}
}

// told takes in what a device was told; wrong says what must not be.
func (s *storm) told(e lab.Exchange) (wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, e.Client)
	switch {
	case e.Wish == lab.ToRelease:
		return ""
	case !e.OK && e.NAKs > 0:
		s.drop(e.Client)
		return fmt.Sprintf("device %d asks for %s, which it was given, and is refused", e.Client, e.Addr)
	case !e.OK:
		return fmt.Sprintf("device %d is not answered (%d, it had %s)", e.Client, e.Wish, s.held[e.Client])
	}
	s.acks++
	if other, ok := s.holder[e.Addr]; ok && other != e.Client {
		wrong = fmt.Sprintf("%s is given to device %d, and device %d has it", e.Addr, e.Client, other)
	}
	if old, ok := s.held[e.Client]; !ok || old != e.Addr {
		s.drop(e.Client) // one address each
		s.held[e.Client], s.holder[e.Addr] = e.Addr, e.Client
	}
	return wrong
}

// stored compares what is on disk with what devices had been told before it was
// read; kill is done between.
func (s *storm) stored(when string, kill func()) {
	s.Helper()
	s.mu.Lock()
	told, turn := map[uint32]netip.Addr{}, map[uint32]int{}
	for n, a := range s.held {
		told[n], turn[n] = a, s.turn[n]
	}
	s.mu.Unlock()
	kill()
	kept, damage, err := state.Read(s.dir + "/state")
	s.must(err)
	if len(damage) > 1 || len(damage) == 1 && when != "after a kill" { // half a record may be the last
		s.Errorf("%s: the stored state: %q", when, damage)
	}
	on := map[netip.Addr]string{}
	for _, l := range kept.Leases {
		if l.Duration > 0 {
			on[l.Addr] = l.MAC
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, a := range told {
		if s.turn[n] == turn[n] && on[a] != s.crowd.Card(n).String() {
			s.Errorf("%s: device %d was given %s, and the disk has %q there", when, n, a, on[a])
		}
	}
}

// TestKilledInAStorm: the daemon is killed, and its file changed, while hundreds
// of devices come, renew and go. No address is ever two devices', whoever was told
// that an address is its own finds it so, and the names of all are there each time.
func TestKilledInAStorm(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "named")
		rounds, events := 2, 300
		if inFull() {
			rounds, events = 100, 1000
		}
		h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/16")
		front := h.join("crowd", "", "172.31.0.51/16")
		crowd, err := front.Crowd("e0")
		h.must(err)
		crowd.Named, crowd.Again = true, 300*time.Millisecond
		s := &storm{
			house: h, crowd: crowd, rnd: rand.New(rand.NewPCG(1, 2)),
			held: map[uint32]netip.Addr{}, holder: map[netip.Addr]uint32{}, turn: map[uint32]int{}, busy: map[uint32]bool{},
		}
		h.start(fmt.Sprintf(stormHouse, 0, 60))
		h.until("the daemon is up", 30*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
		began := time.Now()
		for round := 1; round <= rounds; round++ {
			s.mu.Lock()
			from := s.acks
			s.mu.Unlock()
			blown := make(chan error, 1)
			go func() { blown <- crowd.Do(h.Context(), 40, 30*time.Second, s.next(from+events), s.done) }()
			reach := func(share float64) {
				h.until("the storm goes on", 60*time.Second, func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.acks-from >= int(share*float64(events))
				})
			}
			// Another file each time, and the kill at another point of its application.
			reach(s.rnd.Float64() / 2)
			h.write(fmt.Sprintf(stormHouse, round, 60+round%100))
			apply := h.weir("apply", "--yes", h.file)
			h.must(h.gw.Start(apply))
			time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond) // not waited for: it is killed at any moment
			s.stored("after a kill", func() { h.end(syscall.SIGKILL) })
			_ = apply.Wait() // its daemon is gone, as a rule
			h.again()
			reach(0.9)
			h.until("the file is applied", 30*time.Second, func() bool { _, err := h.tell("apply", "--yes", h.file); return err == nil })
			h.must(<-blown)
			s.stored("after a round", func() {})

			// All of it is in the zone, which loads each time.
			name := fmt.Sprintf("h%d.local", round)
			h.until(name+" is known", time.Minute, func() bool { return h.known(pc, name) == fmt.Sprintf("172.31.0.%d", 60+round%100) })
			n := 0
			for client, a := range s.held {
				if n++; n > 20 || round%5 != 2 { // named takes a hundred a second in
					break
				}
				name := fmt.Sprintf("c%d.local", client)
				h.until(name+" is "+a.String(), time.Minute, func() bool { return h.known(pc, name) == a.String() })
			}
			if bad, _ := filepath.Glob(h.dir + "/state/named/work/*.bad"); len(bad) > 0 {
				h.Errorf("round %d: zones that did not load: %q", round, bad)
			}
			if h.Failed() {
				return
			}
		}
		// Everybody that was told so still has it.
		var all []uint32
		for n := range s.held {
			all = append(all, n)
		}
		h.must(crowd.Do(h.Context(), 40, 10*time.Second, func() (e lab.Exchange, ok bool) {
			if len(all) == 0 {
				return e, false
			}
			e = lab.Exchange{Client: all[0], Wish: lab.ToReboot, Addr: s.held[all[0]]}
			all = all[1:]
			return e, true
		}, s.done))
		h.Logf("%d rounds, %d exchanges, %d leases held at the end, in %v", rounds, s.acks, len(s.held), time.Since(began).Round(time.Second))

		// What this is to find is found.
		for client, a := range s.held {
			if s.told(lab.Exchange{Client: client + 1000, Wish: lab.ToLease, Addr: a, OK: true}) == "" {
				h.Error("nobody complains of an address that is given to two")
			}
			break
		}
	})
}

// known is the address of a name, as a device asks for it.
func (h *house) known(pc *lab.Client, name string) string {
	m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), name, dns.TypeA, time.Second)
	if err != nil || len(m.Answer) != 1 {
		return ""
	}
	a, ok := m.Answer[0].(*dns.A)
	if !ok {
		return ""
	}
	return a.A.String()
}
