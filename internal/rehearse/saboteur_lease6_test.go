package rehearse_test

import (
	"slices"
	"testing"

	"weir/internal/rehearse"
)

const lease6File = "testdata/dhcp6.hcl"

// lease6Saboteurs are what is done, and all drills of DHCPv6 that it turns red.
var lease6Saboteurs = map[string]struct {
	by  rehearse.Saboteur
	red []string
}{
	"DHCPv6 not answered":              {at(rehearse.Up, freezeWorker("dhcpd6")), []string{"lease6/home/new", "lease6/home/prefix"}},
	"DHCPv6 without names":             {at(rehearse.Up, refuse("input", `iifname eth0 udp dport 53 drop`)), []string{"lease6/home/new"}},
	"DHCPv6, and no way to the router": {at(rehearse.Up, refuse("forward", `oifname eth0 ip6 daddr fd57:e1:a:8000::/49 drop`)), []string{"lease6/home/prefix"}},
}

// TestLease6: what a file gives by DHCPv6 is had, and a drill of it sees when it is not.
func TestLease6(t *testing.T) {
	t.Parallel()
	needLab(t)
	r := try(t, rehearse.Options{Only: []string{"lease6"}}, lease6File)
	if len(r.Drills) != 2 || len(red(r)) > 0 {
		t.Errorf("drills: %+v", r.Drills)
	}
	for saboteur, s := range lease6Saboteurs {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			r := expect(t, rehearse.Options{Only: []string{"lease6"}, Sabotage: []string{saboteur}}, lease6File, s.red)
			if got := red(r); !slices.Equal(got, s.red) {
				t.Errorf("red: %q, want %q", got, s.red)
			}
		})
	}
}
