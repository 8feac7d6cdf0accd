package rehearse

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"weir/internal/lab"
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
	for range 20 {
		for _, on := range []bool{false, true} {
			if err := b.ISPs[wan].Carrier(on); err != nil {
				return failAll(drills, about, "a blink", err.Error(), "the lab")
			}
			pause(ctx, time.Duration(50+chance.IntN(450))*time.Millisecond)
		}
	}
	over := time.Now()
	_ = t.flows[lab.Datagrams].Close() // it may have moved
	delete(t.flows, lab.Datagrams)
	kept := pass(drills[0], about, secs("the longest silence of a sending connection", t.flows[lab.Sending].Silence(t.since)), packets("conversations lost", 0))
	if wrong := t.goesOn(ctx, wan, over); wrong != "" {
		kept = fail(drills[0], about, "no TCP connection over the line ends, and all go on", wrong, look())
	}
	took := lines()
	moves := pass(drills[1], about, packets("moves", len(took)-1))
	if _, wrong := t.newGoes(ctx, t.v6); wrong != "" {
		moves = fail(drills[1], about, "new connections go on", "a new one afterwards: "+wrong, look())
	} else if len(took) == 0 || len(took) > 2 {
		moves = fail(drills[1], about, "new connections go on, and move to another line once", "they went by: "+strings.Join(took, ", "), look())
	}
	return []Result{kept, moves}
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
