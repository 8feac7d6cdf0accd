package rehearse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"weir/internal/lab"
)

const (
	blinkCount    = 20
	shortestBlink = 50 * time.Millisecond
	longestBlink  = 500 * time.Millisecond
)

// blinks has the carrier of the line in use go and come back twenty times in a
// row. A TCP connection pays by repeating itself. New connections take another
// line, once, and stay there while the line has to prove itself.
func (b *Bench) blinks(ctx context.Context, drills []string, wan, about string) []Result {
	look := func() string {
		return "the line's verdict, its hold-down and its flows; weir's log: " + b.Daemon.Log(8)
	}
	t, err := b.traffic(ctx)
	if err != nil {
		return failAll(drills, about, "a house in order", err.Error(), look())
	}
	defer t.stop()
	lines := t.followNew(ctx)
	defer lines()
	if err := b.happens(Cut); err != nil {
		return failAll(drills, about, "blinks", err.Error(), "the lab")
	}
	// Lengths and pauses are the same each time the drill is made.
	chance := rand.New(rand.NewPCG(20, 50))
	for range blinkCount {
		for _, on := range []bool{false, true} {
			if err := b.ISPs[wan].Carrier(on); err != nil {
				return failAll(drills, about, "a blink", err.Error(), "the lab")
			}
			pause(ctx, shortestBlink+time.Duration(chance.IntN(int((longestBlink-shortestBlink)/time.Millisecond)))*time.Millisecond)
		}
	}
	over := time.Now()
	_ = t.flows[lab.Datagrams].Close() // it may have moved
	delete(t.flows, lab.Datagrams)
	kept := pass(drills[0], about, secs("the longest silence of a sending connection", t.flows[lab.Sending].Silence(t.since)), packets("conversations lost", 0))
	if wrong := t.goesOn(ctx, wan, over, repeats); wrong != "" {
		kept = fail(drills[0], about, "no TCP connection over the line ends, and all go on", wrong, look())
	}
	took := lines()
	moves := pass(drills[1], about, packets("moves", len(took)-1))
	if _, wrong := t.newGoes(ctx, t.v6); wrong != "" {
		moves = fail(drills[1], about, "new connections go on", "a new one afterwards: "+wrong, look())
	} else if most := blinkMoves(b.Config.Failover.HoldDown); len(took) == 0 || len(took)-1 > most {
		moves = fail(drills[1], about, fmt.Sprintf("new connections go on, and move %d times at most with the file's hold_down", most), "they went by: "+strings.Join(took, ", "), look())
	}
	return []Result{kept, moves}
}

// blinkMoves is how often a house may move for them: away; and back and away once
// more for each time that the hold-down, which doubles, is served between two. One
// of 0 is served each time.
func blinkMoves(hold time.Duration) int {
	n := 1
	for ; hold < longestBlink && n < 2*blinkCount; hold *= 2 {
		n += 2
	}
	return n
}

// followNew has the house begin new connections until the lines are asked for: by
// which they went, in order, each named when it was another than before.
func (t *traffic) followNew(ctx context.Context) (lines func() []string) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	var took []string
	// One that is lost by an outage is none that was moved.
	look := func() {
		if wan, wrong := t.newGoes(ctx, t.v6); wrong == "" && (len(took) == 0 || took[len(took)-1] != wan) {
			took = append(took, wan)
		}
	}
	look()
	ended.Go(func() {
		for pause(ctx, 100*time.Millisecond) {
			look()
		}
	})
	return func() []string { cancel(); ended.Wait(); return took }
}
