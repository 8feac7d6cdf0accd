package refused

import (
	"testing"
	"time"
)

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
