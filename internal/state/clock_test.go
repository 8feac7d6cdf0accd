package state

import (
	"testing"
	"time"
)

func TestRemaining(t *testing.T) {
	granted := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	l := Lease{Granted: granted, Duration: 12 * time.Hour, Boot: "one", Up: time.Hour}
	for _, tt := range []struct {
		name string
		c    Clock
		want time.Duration
	}{
		{"same boot", Clock{granted.Add(time.Hour), "one", 2 * time.Hour}, 11 * time.Hour},
		{"same boot, the clock was stepped by 56 years", Clock{granted.AddDate(56, 0, 0), "one", 2 * time.Hour}, 11 * time.Hour},
		{"same boot, ended", Clock{granted, "one", 14 * time.Hour}, -time.Hour},
		{"another boot", Clock{granted.Add(2 * time.Hour), "two", time.Minute}, 10 * time.Hour},
		{"another boot, ended", Clock{granted.Add(13 * time.Hour), "two", time.Minute}, -time.Hour},
		{"another boot, in 1970", Clock{time.Unix(30, 0), "two", 30 * time.Second}, 12 * time.Hour},
	} {
		if got := l.Remaining(tt.c); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name  string
		c     Clock
		holds bool
	}{
		{"same boot", Clock{granted.Add(time.Hour), "one", 2 * time.Hour}, true},
		{"same boot, the clock was stepped by 56 years", Clock{granted.AddDate(56, 0, 0), "one", 2 * time.Hour}, true},
		{"same boot, the clock went back", Clock{granted.AddDate(0, 0, -1), "one", 2 * time.Hour}, true},
		{"same boot, ended, the clock went back", Clock{granted.AddDate(0, 0, -1), "one", 13 * time.Hour}, false},
		{"another boot", Clock{granted.Add(2 * time.Hour), "two", time.Minute}, true},
		{"another boot, ended", Clock{granted.Add(12 * time.Hour), "two", time.Minute}, false},
		{"another boot, in 1970", Clock{time.Unix(30, 0), "two", 30 * time.Second}, false},
		{"no boot known, in 1970", Clock{time.Unix(30, 0), "", 0}, false},
	} {
		w := Lease4{Obtained: granted, Duration: 12 * time.Hour, Boot: "one", Up: time.Hour}
		if got := w.Holds(tt.c); got != tt.holds {
			t.Errorf("a line's lease, %s: holds %v, want %v", tt.name, got, tt.holds)
		}
		if w.Duration = 0; !w.Holds(tt.c) {
			t.Errorf("a line's lease without end, %s: does not hold", tt.name)
		}
	}
	l.Duration = 0
	if got := l.Remaining(Clock{granted, "one", time.Hour}); got != 0 {
		t.Errorf("released: %v", got)
	}
}
