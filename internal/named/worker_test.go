package named

import (
	"context"
	"testing"

	"weir/internal/worker"
)

// However long the last configuration takes, what comes meanwhile is received, and
// the newest of it is next.
func TestNewest(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orders := make(chan worker.Order[Config])
	out := newest(ctx, orders)
	for round := range 3 {
		for n := range 5 {
			orders <- worker.Order[Config]{Value: Config{Gateway: string(rune('a' + 5*round + n))}} // nobody takes out
		}
		if o := <-out; o.Value.Gateway != string(rune('a'+5*round+4)) {
			t.Errorf("round %d: %q is next", round, o.Value.Gateway)
		}
		select {
		case o := <-out:
			t.Errorf("round %d: %q comes again", round, o.Value.Gateway)
		default:
		}
	}
}
