package ruleset_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/netns/netnstest"
)

// TestRoutedFlows: what becomes of running flows of routes as lines fall and return.
func TestRoutedFlows(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		r := bringUpRoutes(t)
		cases := map[string]routeCase{}
		for _, c := range routeCases() {
			cases[c.name] = c
		}
		open := func(ns, network, to, want string) net.Conn {
			t.Helper()
			c, err := dial(ns, network, "", to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if got, err := say(c, "hello"); err != nil || !strings.HasPrefix(got, want) {
				t.Fatalf("%q, %v, want %q", got, err, want)
			}
			return c
		}
		goesOn := func(what string, c net.Conn, want string) {
			t.Helper()
			if got, err := say(c, what); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, %v, want %q", what, got, err, want)
			}
		}
		ends := func(what string, c net.Conn) {
			t.Helper()
			got, err := say(c, what)
			if err == nil || errors.Is(err, unix.ETIMEDOUT) {
				t.Errorf("%s: %q, %v, want it refused", what, got, err)
			}
			if who := r.who(what); who != "" {
				t.Errorf("%s: %s heard it", what, who)
			}
		}
		tablet, tablet6 := open("tablet", "tcp", inet4+":7000", "inet:7000 for 198.51.100.10"), open("tablet", "udp", "["+inet6+"]:7000", "inet:7000 for 2001:db8:1::10")
		nas := open("nas", "udp", inet4+":7000", "inet:7000 for 198.51.100.10")
		call := open("guest", "udp", inet4+":5060", "inet:5060 for 203.0.113.10")
		bank := open("pc", "tcp", bank4+":7000", "inet:7000 for 203.0.113.10")
		own := open("", "tcp", bank4+":7000", "inet:7000 for 203.0.113.10")

		// Each keeps its line as the choice changes, while it works.
		r.set(cases["lte in use, fiber works"], nil)
		goesOn("tablet, lte in use", tablet, "inet:7000 for 198.51.100.10")
		goesOn("nas, lte in use", nas, "inet:7000 for 198.51.100.10")
		goesOn("a call, lte in use", call, "inet:5060 for 203.0.113.10")

		r.set(cases["fiber fell"], nil)
		ends("tablet without fiber", tablet)
		ends("tablet without fiber, datagrams over IPv6", tablet6)
		ends("nas without fiber", nas)
		goesOn("the bank without fiber", bank, "inet:7000 for 203.0.113.10")
		goesOn("the gateway's bank without fiber", own, "inet:7000 for 203.0.113.10")

		r.set(cases["lte fell"], nil)
		ends("the bank without lte", bank)
		ends("the gateway's bank without lte", own)
		goesOn("a call goes over", call, "inet:5060 for 198.51.100.10")
		goesOn("nas, fiber back", nas, "inet:7000 for 198.51.100.10")
		goesOn("tablet, fiber back, datagrams over IPv6", tablet6, "inet:7000 for 2001:db8:1::10")

		r.set(cases["both work"], nil)
		goesOn("a call stays where it went", call, "inet:5060 for 198.51.100.10")
		open("guest", "udp", inet4+":5060", "inet:5060 for 203.0.113.10")
	})
}

// routedFlow is an open connection, and what it takes to open another one like it.
type routedFlow struct {
	from, network, to string
	net.Conn
}

// between brings the kernel between two states: the ip rules of the line with
// index k are gone, and the other line is in use. It says what was heard
// outside then, or was not refused, of flows that were opened before, and of
// first packets like theirs.
func (r *routed) between(round string, k int, from []string, to4, to6 string) (heard []string) {
	r.tb.Helper()
	other := map[int]string{1: "172.31.255.3 dev lte,fd00:ff::3 dev lte", 2: "172.31.255.1 dev fiber,fd00:ff::1 dev fiber"}[k]
	by4, by6, _ := strings.Cut(other, ",")
	var flows []routedFlow
	for _, network := range []string{"tcp", "udp"} {
		for _, to := range []string{to4, to6} {
			for _, ns := range from {
				c, err := dial(ns, network, "", net.JoinHostPort(to, "7000"))
				if err != nil {
					r.tb.Fatal(err)
				}
				defer c.Close()
				if got, err := say(c, "hello"); err != nil || !strings.HasPrefix(got, "inet:7000 for ") {
					r.tb.Fatal(ns, network, to, got, err)
				}
				flows = append(flows, routedFlow{ns, network, to, c})
			}
		}
	}
	mustRun(r.tb, "", fmt.Sprintf(`for f in -4 -6; do ip $f rule | grep 'fwmark %#x/0x3ff' | cut -d: -f1 | while read p; do ip $f rule del pref $p; done; done
ip route replace default via %s src 172.31.0.1 proto 87; ip -6 route replace default via %s src fd00::1 proto 87`, k, by4, by6))
	var mu sync.Mutex
	var wg sync.WaitGroup
	hear := func(what, got string) {
		mu.Lock()
		defer mu.Unlock()
		// The gateway's own are dropped: nobody has to be told within an instant.
		if who := r.who(what); who != "" || got != "refused" && from[0] != "" {
			heard = append(heard, fmt.Sprintf("%s: %q, heard by %q", what, got, who))
		}
	}
	for _, f := range flows {
		wg.Go(func() {
			what := fmt.Sprint(round, " running ", f.from, " ", f.network, " ", f.to)
			got, err := say(f.Conn, what)
			if err != nil {
				got = verdict(err)
			}
			hear(what, got)
		})
		wg.Go(func() {
			what := fmt.Sprint(round, " first ", f.from, " ", f.network, " ", f.to)
			got, err := ask(f.from, "", f.network, f.to, 7000, what)
			if err != nil {
				got = err.Error()
			}
			hear(what, got)
		})
	}
	wg.Wait()
	return heard
}

// TestHeldBetweenTwoStates: while the ip rules are not yet, or no more, as the
// ruleset is, nothing of an only or never passes to another cable: neither of
// a flow that runs nor a first packet.
func TestHeldBetweenTwoStates(t *testing.T) {
	netnstest.Alone(t, func(t *testing.T) {
		r := bringUpRoutes(t)
		for _, side := range []struct {
			k        int
			from     []string
			to4, to6 string
			rules    []string
		}{
			{1, []string{"tablet", "nas"}, inet4, inet6, []string{"held"}},
			{2, []string{""}, bank4, bank6, []string{"held.last", "held_last.dropped"}},
		} {
			r.set(routeCases()[0], nil)
			if heard := r.between("held", side.k, side.from, side.to4, side.to6); len(heard) > 0 {
				t.Error(strings.Join(heard, "\n"))
			}
			for _, rule := range side.rules {
				r.set(routeCases()[0], func(n *desired.Namespace) { dropRule(n, rule) })
				if heard := r.between("without "+rule, side.k, side.from, side.to4, side.to6); len(heard) < 4*len(side.from) {
					t.Errorf("without the rule %q %d were heard: this test shows nothing: %s", rule, len(heard), heard)
				}
			}
		}
	})
}

// dropRule takes a rule out of a ruleset, by its name.
func dropRule(n *desired.Namespace, name string) bool {
	var kept []string
	for _, line := range strings.SplitAfter(n.Table.Text, "\n") {
		if !strings.HasSuffix(line, fmt.Sprintf(" comment %q\n", name)) {
			kept = append(kept, line)
		}
	}
	text := strings.Join(kept, "")
	found := len(text) < len(n.Table.Text)
	n.Table.Text = text
	return found
}
