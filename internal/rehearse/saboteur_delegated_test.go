package rehearse_test

import (
	"slices"
	"testing"

	"weir/internal/rehearse"
)

// The files of TestDelegated: on the second line what has the first one's prefix is
// translated, or refused.
const delegatedFile, delegatedNone = "testdata/delegated.hcl", "testdata/delegated-none.hcl"

// delegatedSaboteurs are what is done, to which file's house, and all drills that it
// turns red.
var delegatedSaboteurs = map[string]struct {
	file string
	by   rehearse.Saboteur
	red  []string
}{
	"inside addresses on the lines that delegate": {delegatedFile, at(rehearse.Up, leak),
		[]string{"leak/fiber/delegated", "leak/lte/delegated"}},
	"delegated, but not advertised": {delegatedFile, at(rehearse.Up, refuse("output", `oifname eth3 icmpv6 type nd-router-advert drop`), forgetful("guest")),
		[]string{"delegated/guest/address", "delegated/guest/out"}},
	"delegated, but not advertised at home": {delegatedFile, at(rehearse.Up, refuse("output", `oifname eth0 icmpv6 type nd-router-advert drop`), forgetful("home")),
		[]string{"delegated/fiber/lost", "delegated/fiber/renumber", "delegated/home/address", "delegated/home/out"}},
	"delegated, but translated": {delegatedFile, at(rehearse.Up, onGateway("nft", "add table inet saboteur; add chain inet saboteur post { type nat hook postrouting priority 50; }; "+
		"add rule inet saboteur post iifname eth0 oifname fiber meta nfproto 10 udp dport 7 masquerade")),
		[]string{"delegated/home/out"}},
	"delegated, and never renewed": {delegatedFile, at(rehearse.Cut, freezeWorker("dhcp6", "fiber")),
		[]string{"delegated/fiber/lost", "delegated/fiber/renumber"}},
	"delegated, and not translated elsewhere": {delegatedFile, at(rehearse.Restored, refuse("forward", `oifname lte meta nfproto 10 udp dport 7 drop`)),
		[]string{"delegated/fiber/lost"}},
	"delegated, and dropped in silence": {delegatedNone, at(rehearse.Restored, refuse("forward", `iifname eth0 meta nfproto 10 udp dport 7 drop`)),
		[]string{"delegated/fiber/lost"}},
	"delegated, and translated in spite of the file": {delegatedNone, at(rehearse.Restored, freeze, onGateway("nft", "insert", "rule", "inet", "weir", "through", "iifname", "eth0", "accept")),
		[]string{"delegated/fiber/lost"}},
}

// forgetful has a LAN's client lose the addresses that it has.
func forgetful(lan string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		_, err := b.Clients[lan].Run(bg, "ip", "-6", "addr", "flush", "dev", "e0", "scope", "global")
		return err
	}
}

// TestDelegated: ISPs delegate prefixes, and the LANs use them.
func TestDelegated(t *testing.T) {
	t.Parallel()
	want := []string{"delegated/fiber/lost", "delegated/fiber/renumber", "delegated/guest/address", "delegated/guest/out", "delegated/home/address", "delegated/home/out"}
	for _, file := range []string{delegatedFile, delegatedNone} {
		r := try(t, rehearse.Options{Only: []string{"delegated"}}, file)
		var got []string
		for _, d := range r.Drills {
			if got = append(got, d.Drill); !d.OK {
				t.Errorf("%s: %s: expected %s, seen %s; look at %s", file, d.Drill, d.Expected, d.Seen, d.Look)
			}
		}
		slices.Sort(got)
		if got = slices.DeleteFunc(got, func(d string) bool { return d[:4] == "leak" }); !slices.Equal(got, want) {
			t.Errorf("%s: drills %q, want %q", file, got, want)
		}
	}
}

func TestDelegatedSaboteurs(t *testing.T) {
	t.Parallel()
	needLab(t)
	for saboteur, s := range delegatedSaboteurs {
		t.Run(saboteur, func(t *testing.T) {
			t.Parallel()
			r := expect(t, rehearse.Options{Only: []string{"delegated"}, Sabotage: []string{saboteur}}, s.file, s.red)
			if got := red(r); !slices.Equal(got, s.red) {
				t.Errorf("red: %q, want %q", got, s.red)
			}
		})
	}
}
