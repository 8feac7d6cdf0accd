package rehearse_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/rehearse"
)

// Saboteurs work with what weir does not own and so leaves alone (an nft table of
// their own, a foreign ip rule), or stop a process. red are all drills that one
// turns red, and no other: those that share a lab are told apart by their drills.
//
// only is what of a file's rehearsal a lab makes: a run, or a part. The file is
// the reference gateway's, or testdata/three-lans.hcl for policy.
var sabotage = []struct {
	only string
	by   []saboteur
}{
	{"policy", []saboteur{
		{"the guests are let in", at(rehearse.Up, open("eth1", "eth0")), []string{"policy/guest/home"}},
		{"the guests are let to the things", at(rehearse.Up, open("eth1", "eth2")), []string{"policy/guest/things"}},
		{"the things are let out", at(rehearse.Up, open("eth2", "eth0"), open("eth2", "eth1")), []string{"policy/things/home", "policy/things/guest"}},
		{"the gateway is shut to the home", at(rehearse.Up, refuse("input", `iifname eth0 tcp dport 22 drop`)), []string{"policy/home/self"}},
		{"the gateway is open to all", at(rehearse.Up, freeze, onGateway("nft", "insert", "rule", "inet", "weir", "here", "iifname", "{ eth1, eth2 }", "accept")), []string{"policy/guest/self", "policy/things/self"}},
		{"the home is shut in", at(rehearse.Up, refuse("forward", `iifname eth0 oifname { eth1, eth2 } tcp dport 7 drop`)), []string{"policy/home/guest", "policy/home/things"}},
	}},
	{"out/things", []saboteur{
		{"the things are let out", at(rehearse.Up, open("eth2", "cable")), []string{"out/things/IPv4", "out/things/IPv6"}},
	}},
	{"steady", []saboteur{
		{"leases are not answered", at(rehearse.Up, freezeWorker("dhcpd")),
			[]string{"lease/home/new", "lease/home/nas", "lease/home/example"}},
		{"no router advertisement leaves", at(rehearse.Up, refuse("output", `oifname eth0 icmpv6 type nd-router-advert drop`)),
			[]string{"advertise/home"}},
		{"no resolver is asked", at(rehearse.Up, refuse("output", `oifname { fiber, lte } meta l4proto { 6, 17 } th dport 53 drop`)),
			[]string{"name/home/rebinding", "name/home/world"}},
		{"out by the wrong line", at(rehearse.Up, wrongLine),
			[]string{"out/home/IPv4"}},
		{"ports that refuse", at(rehearse.Up, refuse("forward", `iifname fiber meta nfproto 2 tcp dport 9 reject with tcp reset`, `iifname lte meta nfproto 10 tcp dport 65535 reject with tcp reset`)),
			[]string{"closed/fiber/IPv4", "closed/lte/IPv6"}},
		{"a UDP port that refuses", at(rehearse.Up, refuseOn("fiber", `meta nfproto 2 udp dport 9 reject`), refuseOn("lte", `meta nfproto 10 udp dport 9 reject`)),
			[]string{"closed/fiber/IPv4/UDP", "closed/lte/IPv6/UDP"}},
		{"inside addresses on the lines", at(rehearse.Up, leak),
			[]string{"leak/fiber/steady", "leak/lte/steady"}},
	}},
	{"steady", []saboteur{
		{"the server of leases does not come back", at(rehearse.Ended, freezeNext("dhcpd")),
			[]string{"restart/KILL/lease", "restart/TERM/lease"}},
		{"names are not answered", at(rehearse.Up, refuse("input", `iifname eth0 udp dport 53 drop`)),
			[]string{"name/home/house", "name/home/rebinding", "name/home/world"}},
		{"no way out by IPv6", at(rehearse.Up, refuse("forward", `iifname eth0 ip6 daddr 2001:db8:80::80 tcp dport 7 drop`)),
			[]string{"out/home/IPv6"}},
		{"a forward shut on one line", at(rehearse.Up, refuse("prerouting", `iifname lte meta nfproto 2 tcp dport 443 drop`)),
			[]string{"closed/lte/IPv4", "forward/web/lte/IPv4"}},
		{"a forward shut in one family", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 10 tcp dport 80 drop`)),
			[]string{"closed/fiber/IPv6", "forward/web/fiber/IPv6"}},
		{"a UDP port that refuses", at(rehearse.Up, refuseOn("fiber", `meta nfproto 10 udp dport 9 reject`), refuseOn("lte", `meta nfproto 2 udp dport 9 reject`)),
			[]string{"closed/fiber/IPv6/UDP", "closed/lte/IPv4/UDP"}},
		{"the gateway is shut to the home", at(rehearse.Up, refuse("input", `iifname eth0 tcp dport 22 drop`)), []string{"policy/home/self"}},
		{"no hairpin to one address", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip daddr 198.51.100.10 drop`)),
			[]string{"hairpin/web/home/fiber/IPv4"}},
		{"no hairpin to another", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip6 daddr 2001:db8:2::/48 drop`)),
			[]string{"hairpin/web/home/lte/IPv6"}},
	}},
	{"steady", []saboteur{
		{"forwards shut", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 2 tcp dport 443 drop`, `iifname lte meta nfproto 10 tcp dport 80 drop`)),
			[]string{"closed/fiber/IPv4", "closed/lte/IPv6", "forward/web/fiber/IPv4", "forward/web/lte/IPv6"}},
		{"no hairpin", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip6 daddr 2001:db8:1::/48 drop`, `iifname eth0 ip daddr 203.0.113.10 drop`)),
			[]string{"hairpin/web/home/fiber/IPv6", "hairpin/web/home/lte/IPv4"}},
		{"the end of the daemon takes the way along", at(rehearse.Ended, blip),
			[]string{"restart/KILL/loss", "restart/TERM/loss"}},
	}},

	{"dark-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("dark", "gap/IPv4", "gap/IPv6", "new", "sending", "receiving", "idle", "datagrams", "back", "calm")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/dark-fiber", "leak/lte/dark-fiber"}},
	}},
	{"dark-fiber", []saboteur{
		{"nobody goes back", at(rehearse.Restored, freeze), lost("dark", "back", "inbound")},
		{"no reset is told", at(rehearse.Cut, refuse("postrouting", `oifname eth0 tcp flags & rst != 0 drop`)), lost("dark", "sending", "receiving", "idle")},
		{"who came in by the other line is cut", at(rehearse.Cut, refuse("forward", `oifname lte tcp sport 80 drop`)), lost("dark", "others")},
	}},
	{"dark-fiber", []saboteur{
		{"nothing new by the other line", at(rehearse.Cut, refuse("forward", `oifname lte tcp flags & (syn|ack) == syn drop`)), lost("dark", "new")},
		{"no datagram by the other line", at(rehearse.Cut, refuse("forward", `oifname lte udp dport 7 drop`)), lost("dark", "datagrams", "calm")},
		{"no echo by the other line", at(rehearse.Cut, refuse("forward", `oifname lte icmp type echo-request drop`)), lost("dark", "gap/IPv4", "calm")},
	}},
	{"dark-fiber", []saboteur{
		{"who only waits is not told", at(rehearse.Cut, refuse("output", `oifname eth0 tcp sport 7 tcp flags & (syn|ack|rst) == ack drop`)), lost("dark", "receiving", "idle")},
		// A reset of ours would be led to the line that its flow is pinned to.
		{"no grace", at(rehearse.Cut, refuse("forward", `oifname fiber tcp dport 7 tcp flags & psh != 0 ct mark set 0 reject with tcp reset`)), lost("dark", "sending")},
	}},
	{"carrier-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("carrier", "gap/IPv4", "gap/IPv6", "new", "sending", "receiving", "idle", "datagrams", "back", "calm")},
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname fiber tcp dport 80 drop`)), lost("carrier", "inbound")},
		{"who came in by the other line is cut", at(rehearse.Cut, refuse("forward", `oifname lte tcp sport 80 drop`)), lost("carrier", "others")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/carrier-fiber", "leak/lte/carrier-fiber"}},
	}},

	{"deaf-fiber", []saboteur{
		{"nobody acts on the lease's end", at(rehearse.Cut, freeze), []string{"deaf/fiber/gap", "deaf/fiber/quiet"}},
		{"a blip", at(rehearse.Cut, blip), []string{"deaf/fiber/held"}},
		{"nobody asks again", at(rehearse.Restored, freezeWorker("dhcp4", "fiber")), []string{"deaf/fiber/back"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/deaf-fiber", "leak/lte/deaf-fiber"}},
	}},
	{"nak-fiber", []saboteur{
		{"no lease after the NAK, and a long silence", at(rehearse.Cut, afterNAK("fiber")), []string{"nak/fiber/again", "nak/fiber/gap", "renumber/fiber/IPv4"}},
		{"nobody sees the new prefix", at(rehearse.Restored, freeze), []string{"renumber/fiber/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/nak-fiber", "leak/lte/nak-fiber"}},
	}},
	{"isp-lte", []saboteur{
		{"no lease after the NAK", at(rehearse.Cut, afterNAK("lte")), []string{"nak/lte/again", "nak/lte/gap", "renumber/lte/IPv4", "deaf/lte/back", "deaf/lte/held", "deaf/lte/quiet"}},
		{"nobody sees the new prefix", at(rehearse.Restored, freeze), []string{"renumber/lte/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/isp-lte", "leak/lte/isp-lte"}},
	}},
	{"deaf/lte", []saboteur{
		{"nobody acts on the lease's end", at(rehearse.Cut, freeze), []string{"deaf/lte/quiet"}},
		{"a blip", at(rehearse.Cut, blip), []string{"deaf/lte/held"}},
		{"nobody asks again", at(rehearse.Restored, freezeWorker("dhcp4", "lte")), []string{"deaf/lte/back"}},
	}},

	{"reserve", []saboteur{
		{"a blip with the outage", at(rehearse.Cut, blip), []string{"dark/lte/undisturbed", "carrier/lte/undisturbed"}},
		{"nobody is told", at(rehearse.Up, refuse("postrouting", `oifname eth0 icmp type destination-unreachable drop`, `oifname eth0 tcp flags & rst != 0 drop`)), []string{"dark/all/told"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/reserve", "leak/lte/reserve"}},
	}},
	{"reserve", []saboteur{
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname lte tcp dport 80 drop`)), []string{
			"dark/lte/inbound", "carrier/lte/inbound", "carrier/lte/blinks",
			"carrier/lte/undisturbed"}}, // who comes in is part of the traffic that it watches
	}},
	{"dark/all", []saboteur{
		{"nobody sees that a line is back", at(rehearse.Restored, freeze), []string{"dark/all/back"}},
	}},

	{"same", []saboteur{
		{"forwards shut by IPv4, and nothing goes out", at(rehearse.Up, refuse("prerouting", `meta nfproto 2 tcp dport 80 drop`, `iifname eth0 meta nfproto 2 tcp dport 7 drop`)), []string{
			"same/out/home/IPv4", "same/forward/web/fiber/IPv4", "same/forward/web/lte/IPv4", "same/hairpin/web/home/fiber/IPv4", "same/hairpin/web/home/lte/IPv4", "same/takeover/lte"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/same", "leak/lte/same"}},
	}},
	{"same", []saboteur{
		{"forwards shut by IPv6", at(rehearse.Up, refuse("prerouting", `meta nfproto 10 tcp dport 80 drop`)), []string{
			"same/forward/web/fiber/IPv6", "same/forward/web/lte/IPv6", "same/hairpin/web/home/fiber/IPv6", "same/hairpin/web/home/lte/IPv6"}},
		{"nobody fails over", at(rehearse.Cut, freeze), []string{"same/takeover/lte"}},
	}},
	{"overlap", []saboteur{
		{"forwards shut by IPv6", at(rehearse.Up, refuse("prerouting", `meta nfproto 10 tcp dport 80 drop`)), []string{
			"overlap/forward/web/fiber/IPv6", "overlap/hairpin/web/home/fiber/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/overlap", "leak/lte/overlap"}},
	}},
	{"overlap", []saboteur{
		{"out by the wrong line", at(rehearse.Up, wrongLine), []string{"overlap/out/home/IPv4"}},
		{"a forward shut", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 2 tcp dport 80 drop`)), []string{"overlap/forward/web/fiber/IPv4"}},
	}},
}

// saboteur is one of the table: its name, what it does, and the drills it turns
// red.
type saboteur struct {
	name string
	by   rehearse.Saboteur
	red  []string
}

// lost are the drills of a line in use lost in a way.
func lost(way string, drills ...string) []string {
	for i, d := range drills {
		drills[i] = way + "/fiber/" + d
	}
	return drills
}

func at(m rehearse.Moment, fs ...func(*rehearse.Bench) error) rehearse.Saboteur {
	return rehearse.Saboteur{m: func(b *rehearse.Bench) error {
		for _, f := range fs {
			if err := f(b); err != nil {
				return err
			}
		}
		return nil
	}}
}

// open lets through what comes by one link and leaves by another, before weir's
// own rules have their say, with the daemon stopped: it would mend it.
func open(in, out string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		if err := freeze(b); err != nil {
			return err
		}
		_, err := b.Lab.Gateway().Run(bg, "nft", "insert", "rule", "inet", "weir", "through", "iifname", in, "oifname", out, "accept")
		return err
	}
}

// saboteurs is what a lab's process looks them up in.
var saboteurs = func() rehearse.Saboteurs {
	out := rehearse.Saboteurs{}
	for i, l := range stages() {
		for _, s := range l.by {
			out[key(i, s)] = s.by
		}
	}
	maps.Copy(out, nameSaboteurs())
	maps.Copy(out, timeSaboteurs())
	for saboteur, s := range delegatedSaboteurs {
		out[saboteur] = s.by
	}
	for saboteur, s := range lease6Saboteurs {
		out[saboteur] = s.by
	}
	for saboteur, s := range leaseWordsSaboteurs {
		out[saboteur] = s.by
	}
	return out
}()

// key names a saboteur in all of the table.
func key(i int, s saboteur) string { return fmt.Sprintf("%d %s", i, s.name) }

const (
	reference = "../../examples/gateway.hcl"
	lans      = "testdata/three-lans.hcl"
)

// stage is a lab with its saboteurs.
type stage struct {
	file, only string
	by         []saboteur
}

// stages are all labs of the tables.
func stages() []stage {
	var out []stage
	for _, l := range sabotage {
		file := reference
		if l.only == "policy" || l.only == "out/things" {
			file = lans
		}
		out = append(out, stage{file, l.only, l.by})
	}
	return slices.Concat(out, alone, routed, rough, slow, long)
}

var onlyStage = flag.String("stage", "", "only the saboteurs whose file and part hold this text")

// surplus says that all that should be red is, and more.
func surplus(red, want []string) bool {
	return len(red) > len(want) && !slices.ContainsFunc(want, func(d string) bool { return !slices.Contains(red, d) })
}

// seconds is about how long a part takes, if that is long.
func seconds(part string) int {
	for begin, s := range map[string]int{"steady": 90, "isp-": 75, "nak-": 75, "deaf": 70, "blackout-": 65, "renumber": 60, "dark-": 50, "carrier-": 45} {
		if strings.HasPrefix(part, begin) {
			return s
		}
	}
	return 30
}

// TestSaboteur turns drills red, exactly those that a saboteur concerns; and no
// drill of the reference gateway is left without one.
func TestSaboteur(t *testing.T) {
	needLab(t)
	never := map[string]bool{}
	for _, d := range rehearse.Names(t, reference) {
		never[d] = true
	}
	for _, d := range rehearse.Names(t, lans) {
		if strings.HasPrefix(d, "policy/") || strings.HasPrefix(d, "rule/") || strings.HasPrefix(d, "out/things/") {
			never[d] = true
		}
	}
	for _, d := range rehearse.Names(t, oneLine) {
		if !usual(d) {
			never[d] = true
		}
	}
	for _, d := range rehearse.Names(t, routes) {
		if strings.HasPrefix(d, "route/") {
			never[d] = true
		}
	}
	stages := stages()
	type job struct {
		takes int
		run   func()
	}
	var todo []job
	reports := make([]chan func(*testing.T), len(stages))
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, l := range stages {
		if !strings.Contains(l.file+" "+l.only, *onlyStage) {
			continue
		}
		reports[i] = make(chan func(*testing.T), 1)
		o := rehearse.Options{Only: []string{l.only}, Long: &brief}
		var want []string
		for _, s := range l.by {
			o.Sabotage = append(o.Sabotage, key(i, s))
			for _, d := range s.red {
				delete(never, d)
				want = append(want, d)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		o.Red = want
		todo = append(todo, job{seconds(l.only), func() {
			began := time.Now()
			r, err := rehearsed(t.Context(), o, l.file)
			took := time.Since(began).Round(time.Second)
			reports[i] <- func(t *testing.T) {
				t.Logf("%v for %s of %s", took, l.only, l.file)
				if err == nil && surplus(red(r), want) {
					// So many labs at once are more than a machine with two
					// processors may have time for: a loss or a time that no
					// saboteur explains has to come again with one.
					wg.Wait()
					t.Logf("taken again, alone: %s", cmp.Diff(want, red(r)))
					r, err = rehearsed(t.Context(), o, l.file)
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := red(r); !slices.Equal(got, want) {
					t.Errorf("%s", cmp.Diff(want, got))
					for _, d := range r.Drills {
						if !d.OK && !slices.Contains(want, d.Drill) {
							t.Logf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
						}
					}
				}
			}
		}})
	}
	// Labs mostly wait: more of them at once than go test's -parallel would have.
	// What takes longest begins, and is not waited for when all others have ended.
	slices.SortStableFunc(todo, func(a, b job) int { return b.takes - a.takes })
	queue := make(chan func(), len(todo))
	for _, j := range todo {
		queue <- j.run
	}
	close(queue)
	for range 7 {
		wg.Go(func() {
			for run := range queue {
				run()
			}
		})
	}
	t.Parallel() // they go on already, beside all other tests
	for i, l := range stages {
		if reports[i] != nil {
			t.Run(fmt.Sprintf("%d %s", i, l.only), func(t *testing.T) { (<-reports[i])(t) })
		}
	}
	if *onlyStage != "" {
		return
	}
	for _, s := range delegatedSaboteurs { // in tests of their own
		for _, d := range s.red {
			delete(never, d)
		}
	}
	delete(never, "time/home")
	for d := range never {
		t.Errorf("no saboteur turns %s red", d)
	}
}
