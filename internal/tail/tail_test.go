package tail

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func items(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestLogKeepsTheLast(t *testing.T) {
	for i, want := range map[int]string{3: "0", 5: "0", 7: "2", 23: "18"} {
		l := New[string](5)
		l.Add(items(0, i), i)
		got, lost := l.Last()
		if len(got) != min(i, 5) || got[0] != want || got[len(got)-1] != fmt.Sprint(i-1) || lost != i {
			t.Errorf("after %d: %v, %d lost", i, got, lost)
		}
	}
}

// A follower sees what is kept and then every item once, also while others come.
func TestFollow(t *testing.T) {
	l := New[string](100)
	l.Add(items(0, 10), 0)
	var adding sync.WaitGroup
	adding.Go(func() {
		for i := 10; i < 60; i++ {
			l.Add(items(i, i+1), 0)
		}
	})
	kept, more, stop := l.Follow()
	next := 0
	see := func(p string) {
		if p != fmt.Sprint(next) {
			t.Fatalf("got %s, want %d", p, next)
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
			t.Fatalf("no item %d", next)
		}
	}
	adding.Wait()
	stop()
	l.Add(items(0, 1), 0)
	select {
	case p := <-more:
		t.Errorf("after stop: %v", p)
	default:
	}
}

// A follower that does not read holds up nobody.
func TestLaggingFollower(t *testing.T) {
	l := New[string](10)
	_, more, stop := l.Follow()
	defer stop()
	l.Add(items(0, 10*followerBuffer), 0)
	if len(more) != followerBuffer {
		t.Errorf("%d items wait", len(more))
	}
}
