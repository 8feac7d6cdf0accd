package rehearse

import (
	"testing"
	"time"
)

func TestBlinkMoves(t *testing.T) {
	for hold, want := range map[time.Duration]int{
		30 * time.Second:       1, // away, and that is all
		500 * time.Millisecond: 1,
		400 * time.Millisecond: 3,
		50 * time.Millisecond:  9,  // back after 50, 100, 200 and 400 ms
		0:                      41, // each of the twenty, there and back
	} {
		if got := blinkMoves(hold); got != want {
			t.Errorf("hold_down %v: %d moves, want %d", hold, got, want)
		}
	}
}
