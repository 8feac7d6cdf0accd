package fastpath_test

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"github.com/vishvananda/netlink"

	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

// ports are the LAN's port and the cable's end in main.
func (l *lab) ports() (out []fastpath.Port) {
	l.Helper()
	var far string
	for _, k := range l.links() {
		if k.Name == "lan" {
			far = k.MAC
		}
	}
	l.must(netns.Do("", func() error {
		for _, p := range []fastpath.Port{{Link: fastpath.Link{Name: "eth0"}}, {Link: fastpath.Link{Name: "fiber"}, Line: 1, Far: far}} {
			k, err := netlink.LinkByName(p.Name)
			if err != nil {
				return err
			}
			a := k.Attrs()
			p.Link = fastpath.Link{Name: a.Name, Index: a.Index, MTU: a.MTU, MAC: a.HardwareAddr.String()}
			out = append(out, p)
		}
		return nil
	}))
	return out
}

func linksOf(ports []fastpath.Port) (out []fastpath.Link) {
	for _, p := range ports {
		out = append(out, p.Link)
	}
	return out
}

// keep has the flows between the ports kept, until the test ends or stop is called.
func (l *lab) keep() (f *fastpath.Flows, k *fastpath.Keeper, stop func()) {
	l.Helper()
	ports := l.ports()
	links := linksOf(ports)
	open := func() (f *fastpath.Flows) {
		l.must(netns.Do("", func() (err error) {
			f, err = fastpath.Open(links)
			return err
		}))
		return f
	}
	l.must(netns.Do("", func() error { return fastpath.PutFlows(links, links) }))
	f = open()
	k, err := fastpath.NewKeeper(open(), slog.New(slog.NewTextHandler(l.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	l.must(err)
	l.must(k.Resume(ports))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx)
		k.Close()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	l.Cleanup(func() {
		stop()
		f.Close()
	})
	return f, k, stop
}

// entries are those of the flows.
func (l *lab) entries(f *fastpath.Flows) (out []fastpath.Entry) {
	l.Helper()
	for e, err := range f.All() {
		l.must(err)
		out = append(out, e)
	}
	return out
}

// soon waits until something holds.
func (l *lab) soon(what string, within time.Duration, holds func() bool) {
	l.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("%s: not within %s", what, within)
		}
	}
}

// A connection that lives is carried with nobody's help but the keeper's, and when it is
// closed neither conntrack nor the program has anything left of it.
func TestKeeperCarriesWhatLives(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, k, _ := l.keep()
		const size = 64 << 20
		var had fastpath.Reasons
		l.transfer(t, size, func() {}, func() {
			// Who is busy may hear of it late.
			l.soon("it is carried", 10*time.Second, func() bool { return len(l.entries(f)) == 2 })
			var err error
			had, err = f.Why()
			l.must(err)
		})
		r, err := f.Why()
		l.must(err)
		t.Logf("%d MB: %+v, half way %+v", size>>20, r, had)
		fast, slow := r.Fast-had.Fast, r.Unknown+r.Stale+r.Odd-had.Unknown-had.Stale-had.Odd
		if fast < 100 || fast < 9*slow {
			t.Errorf("of the second half %d packets were carried and %d not, want nine of ten", fast, slow)
		}
		came, err := k.Came(1, false)
		l.must(err)
		if came == 0 {
			t.Error("nothing is counted of what came back by the line")
		}
		l.soon("conntrack sees that it is closed", 5*time.Second, func() bool { s := l.tcpState(8080); return s == 0 || s == timeWait })
		l.soon("the program has no entry left", 5*time.Second, func() bool { return len(l.entries(f)) == 0 })
	})
}

// converse makes a conversation of UDP, and has it carried.
func (l *lab) converse(f *fastpath.Flows) (out, in packet) {
	l.Helper()
	out, in = packet{src: pc, dst: peer, sport: 5000, dport: 443}, packet{src: peer, dst: own, sport: 443, dport: 5000}
	l.soon("the conversation is carried", 20*time.Second, func() bool {
		l.must(l.inside.send(out.frame(l.inside)))
		l.must(l.outside.send(in.frame(l.outside)))
		return len(l.entries(f)) == 2
	})
	return out, in
}

// conntrack does something with main's.
func (l *lab) conntrack(do func(*conntrack.Conn) error) {
	l.Helper()
	l.must(netns.Do("", func() error {
		ct, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer ct.Close()
		return do(ct)
	}))
}

// tracked are conntrack's entries.
func (l *lab) tracked() (all []conntrack.Flow) {
	l.Helper()
	l.conntrack(func(ct *conntrack.Conn) (err error) { all, err = ct.Dump(nil); return err })
	return all
}

// entry is conntrack's of the conversation.
func (l *lab) entry() (c conntrack.Flow, there bool) {
	l.Helper()
	for _, x := range l.tracked() {
		if x.TupleOrig.IP.SourceAddress == netip.MustParseAddr(pc) && x.TupleOrig.Proto.SourcePort == 5000 {
			c, there = x, true
		}
	}
	return c, there
}

func (l *lab) forget(c conntrack.Flow) {
	l.Helper()
	l.conntrack(func(ct *conntrack.Conn) error { return ct.Delete(c) })
}

// Conntrack's timer is refreshed by what the program carries, and an entry that is
// deleted ends what was carried.
func TestConntrackAndProgramAgree(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, _, _ := l.keep()
		out, _ := l.converse(f)
		had, there := l.entry()
		if !there {
			t.Fatal("carried, and not in conntrack")
		}
		if had.Status&conntrack.StatusAssured == 0 {
			t.Error("a full table would make room by an entry that is carried")
		}
		lowest := had.Timeout
		l.soon("the timer is set again", 30*time.Second, func() bool {
			l.must(l.inside.send(out.frame(l.inside)))
			c, there := l.entry()
			if !there {
				t.Fatal("conntrack's entry is gone under the flow")
			}
			lowest = min(lowest, c.Timeout)
			return c.Timeout > lowest+3
		})
		r, err := f.Why()
		l.must(err)
		l.forget(had)
		l.soon("the program forgets it too", 20*time.Second, func() bool { return len(l.entries(f)) == 0 })
		l.must(l.inside.send(out.frame(l.inside)))
		l.soon("its packets go by main", 5*time.Second, func() bool {
			now, err := f.Why()
			l.must(err)
			return now.Unknown > r.Unknown
		})
	})
}

// Under a pause nothing is carried; after it everything is judged anew, and who is not
// allowed any more is not carried again.
func TestPauseAndResume(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, k, _ := l.keep()
		out, in := l.converse(f)
		step := func(fast bool) {
			t.Helper()
			before, err := f.Why()
			l.must(err)
			l.must(l.inside.send(out.frame(l.inside)))
			l.soon("a packet passes", 5*time.Second, func() bool {
				now, err := f.Why()
				l.must(err)
				if now == before {
					return false
				}
				if carried := now.Fast > before.Fast; carried != fast {
					t.Errorf("carried: %v, want %v (%+v, before %+v)", carried, fast, now, before)
				}
				return true
			})
		}
		step(true)
		l.must(k.Pause())
		step(false)
		l.must(k.Resume(l.ports()))
		step(false) // it is another generation
		l.soon("it is carried again", 20*time.Second, func() bool {
			l.must(l.inside.send(out.frame(l.inside)))
			l.must(l.outside.send(in.frame(l.outside)))
			es := l.entries(f)
			return len(es) == 2 && es[0].Generation == 2
		})
		step(true)
		l.must(k.Resume(l.ports()[1:])) // the LAN is none of ours any more
		for range 100 {
			step(false)
		}
		l.soon("its entries are gone", 20*time.Second, func() bool { return len(l.entries(f)) == 0 })
	})
}

// Who finds the program attached has what it carries; damage is named and mended.
func TestFlowsAreFoundAgain(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		l := newLab(t, true)
		f, _, stop := l.keep()
		l.converse(f)
		stop()
		links := linksOf(l.ports())
		on := func(at ...string) string {
			t.Helper()
			var names []string
			var wrong string
			l.must(netns.Do("", func() (err error) {
				names, wrong, err = fastpath.OnLinks(links)
				return err
			}))
			if slices.Sort(names); !slices.Equal(names, at) {
				t.Errorf("it is on %q, want %q", names, at)
			}
			return wrong
		}
		put := func(at []fastpath.Link) {
			t.Helper()
			l.must(netns.Do("", func() error { return fastpath.PutFlows(links, at) }))
		}
		if w := on("eth0", "fiber"); w != "" {
			t.Error(w)
		}
		if n := len(l.entries(f)); n != 2 {
			t.Errorf("%d entries are left when the keeper has gone, want 2", n)
		}
		put(links)
		if n := len(l.entries(f)); n != 2 {
			t.Errorf("%d entries are left when it is put again, want 2", n)
		}
		l.must(netns.Do("", func() error { return f.Detach(links[1]) }))
		if w := on("eth0"); w != "" {
			t.Error(w)
		}
		other, err := fastpath.NewFlows(1024)
		l.must(err)
		defer other.Close()
		l.must(netns.Do("", func() error { return other.Attach(links[1]) }))
		if w := on("eth0", "fiber"); w != "the programs don't belong together" {
			t.Errorf("wrong is %q", w)
		}
		put(links)
		if w := on("eth0", "fiber"); w != "" {
			t.Errorf("after it was mended: %s", w)
		}
		put(links[:1])
		if w := on("eth0"); w != "" {
			t.Error(w)
		}
		l.must(netns.Do("", func() error { return fastpath.RemoveFlows(links) }))
		if w := on(); w != "" {
			t.Error(w)
		}
	})
}
