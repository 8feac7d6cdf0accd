package refused

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func packets(from, to int) (out []Packet) {
	for i := from; i < to; i++ {
		out = append(out, Packet{Rule: fmt.Sprint(i)})
	}
	return out
}

func TestLogKeepsTheLast(t *testing.T) {
	for i, want := range map[int]string{3: "0", 5: "0", 7: "2", 23: "18"} {
		l := NewLog(5)
		l.Add(Report{Packets: packets(0, i), Lost: i})
		got, lost := l.Last()
		if len(got) != min(i, 5) || got[0].Rule != want || got[len(got)-1].Rule != fmt.Sprint(i-1) || lost != i {
			t.Errorf("after %d: %v, %d lost", i, got, lost)
		}
	}
}

// A follower sees what is kept and then every packet once, also while others come.
func TestFollow(t *testing.T) {
	l := NewLog(100)
	l.Add(Report{Packets: packets(0, 10)})
	var adding sync.WaitGroup
	adding.Go(func() {
		for i := 10; i < 60; i++ {
			l.Add(Report{Packets: packets(i, i+1)})
		}
	})
	kept, more, stop := l.Follow()
	next := 0
	see := func(p Packet) {
		if p.Rule != fmt.Sprint(next) {
			t.Fatalf("got %s, want %d", p.Rule, next)
		}
		next++
	}
	for _, p := range kept {
		see(p)
	}
	for next < 60 {
		select {
		case p := <-more:
			see(p)
		case <-time.After(10 * time.Second):
			t.Fatalf("no packet %d", next)
		}
	}
	adding.Wait()
	stop()
	l.Add(Report{Packets: packets(0, 1)})
	select {
	case p := <-more:
		t.Errorf("after stop: %v", p)
	default:
	}
}

// A follower that does not read holds up nobody.
func TestLaggingFollower(t *testing.T) {
	l := NewLog(10)
	_, more, stop := l.Follow()
	defer stop()
	l.Add(Report{Packets: packets(0, 10*followerBuffer)})
	if len(more) != followerBuffer {
		t.Errorf("%d packets wait", len(more))
	}
}

func TestBucket(t *testing.T) {
	b := bucket{tokens: burst}
	now := time.Unix(0, 0)
	count := func() (n int) {
		for range 1000 {
			if b.take(now) {
				n++
			}
		}
		return n
	}
	if n := count(); n != burst {
		t.Errorf("%d at once, want %d", n, burst)
	}
	now = now.Add(time.Second)
	if n := count(); n != perSecond {
		t.Errorf("%d after a second, want %d", n, perSecond)
	}
}
