package kernel_test

import (
	"testing"

	"weir/internal/netns/netnstest"
)

func TestFirstTurn(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		b := newBench(t)
		p := b.turn()
		t.Logf("\n%s", p)
		b.open()
		if p := b.plan(); !p.Empty() {
			t.Errorf("opened again, the plan is not empty:\n%s", p)
		}
		t.Log(b.run("", "ip a; ip r; ip rule; ip route show table 87001; nft list ruleset"))
		t.Log(b.run("wan-fiber", "ip a; ip r; ip rule; nft list ruleset"))
	})
}
