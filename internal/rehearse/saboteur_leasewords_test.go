package rehearse_test

import (
	"slices"
	"testing"

	"weir/internal/rehearse"
)

const leaseWordsFile = "testdata/dhcp.hcl"

// sent changes what leaves by a port of the gateway, behind everything of weir's, its
// packet sockets too.
func sent(port, rule string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		_, err := b.Lab.Gateway().Run(bg, "nft", "add table netdev saboteur; add chain netdev saboteur out { type filter hook egress device "+port+" priority 0; }; add rule netdev saboteur out "+rule)
		return err
	}
}

// leaseWordsSaboteurs are what is done, and all drills of leases that it turns red.
var leaseWordsSaboteurs = map[string]struct {
	by  rehearse.Saboteur
	red []string
}{
	"relays not answered":         {at(rehearse.Up, sent("eth0", "udp dport 67 drop")), []string{"lease/home/subnet-shed", "lease/home/subnet-upstairs"}},
	"next_server of another make": {at(rehearse.Up, sent("eth0", "udp dport 68 @th,224,32 set 0x01020304")), []string{"lease/home/class-menu", "lease/home/class-uefi"}},
}

// TestLeaseWords: a device of each class and behind each relay is given what the file
// says, and a drill of it sees when it is not.
func TestLeaseWords(t *testing.T) {
	t.Parallel()
	needLab(t)
	r := try(t, rehearse.Options{Only: []string{"lease/home"}}, leaseWordsFile)
	if len(r.Drills) != 5 || len(red(r)) > 0 {
		t.Errorf("drills: %+v", r.Drills)
	}
	for saboteur, s := range leaseWordsSaboteurs {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			r := expect(t, rehearse.Options{Only: []string{"lease/home"}, Sabotage: []string{saboteur}}, leaseWordsFile, s.red)
			if got := red(r); !slices.Equal(got, s.red) {
				t.Errorf("red: %q, want %q", got, s.red)
			}
		})
	}
}
