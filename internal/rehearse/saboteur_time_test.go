package rehearse_test

import (
	"net/netip"
	"slices"
	"testing"

	"weir/internal/chrony"
	"weir/internal/lab"
	"weir/internal/netns/netnstest"
	"weir/internal/rehearse"
)

// timeFile names its servers, in every way but nts://.
const timeFile = "testdata/time.hcl"

func needChrony(t *testing.T) {
	t.Helper()
	needLab(t)
	if _, err := chrony.Find(); err != nil {
		netnstest.Missing(t, "chronyd", err)
	}
}

// timeSaboteurs turn the drill of the time red each, and no other: nobody may ask;
// none of the servers is reached; most of them lie.
func timeSaboteurs() rehearse.Saboteurs {
	return rehearse.Saboteurs{
		"time not served":  at(rehearse.Up, refuse("input", `iifname eth0 udp dport 123 drop`)),
		"time not reached": at(rehearse.Up, freshChrony, refuse("output", `oifname fiber udp dport 123 drop`)),
		"time of liars":    at(rehearse.Up, lies, freshChrony),
	}
}

// freshChrony ends chronyd: the next one knows nothing.
func freshChrony(b *rehearse.Bench) error {
	_, err := b.Lab.Gateway().Run(bg, "pkill", "-KILL", "-f", "^/usr/sbin/chronyd -d ")
	return err
}

func lies(b *rehearse.Bench) error {
	for _, server := range []string{"192.0.2.123", "198.18.123.1", "198.18.123.2", "198.18.123.3"} {
		b.Lab.Clock.Lie(netip.MustParseAddr(server), -2*lab.TimeAhead)
	}
	return nil
}

// TestTime: a file has the time by addresses and by names; DHCP tells of it.
func TestTime(t *testing.T) {
	t.Parallel()
	needChrony(t)
	r := try(t, rehearse.Options{Only: []string{"time", "lease/home/new"}}, timeFile)
	if len(r.Drills) != 2 || len(red(r)) > 0 {
		t.Errorf("drills: %+v", r.Drills)
	}
}

func TestTimeSaboteurs(t *testing.T) {
	t.Parallel()
	needChrony(t)
	for saboteur := range timeSaboteurs() {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			r := expect(t, rehearse.Options{Only: []string{"time"}, Sabotage: []string{saboteur}}, timeFile, []string{"time/home"})
			if got := red(r); !slices.Equal(got, []string{"time/home"}) {
				t.Errorf("red: %q", got)
			}
		})
	}
}
