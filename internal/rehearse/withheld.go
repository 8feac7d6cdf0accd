package rehearse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"weir/internal/blocklist"
	"weir/internal/config"
	"weir/internal/lab"
)

// withheldAct asks the gateway for what it is to withhold: names of the world that
// point into the house, and those of the file's lists.
func withheldAct(s *Site, l *LAN) Act {
	drills := []string{name("name", l.Name, "rebinding")}
	lists := s.Config.DNS.BlockLists
	if len(lists) > 0 {
		drills = append(drills, name("name", l.Name, "blocked"))
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		out := []Result{b.rebinding(ctx, l, drills[0])}
		if len(lists) > 0 {
			out = append(out, b.blocked(ctx, l, lists, drills[1]))
		}
		return out
	}}
}

// asked is what a client is told of a name's IPv4 addresses.
func (b *Bench) asked(ctx context.Context, l *LAN, of string) (seen string, m *dns.Msg) {
	m, err := b.Clients[l.Name].Resolve(ctx, b.resolver(l), of, dns.TypeA, 6*time.Second)
	if err != nil {
		return err.Error(), nil
	}
	return fmt.Sprintf("%s %v", dns.RcodeToString[m.Rcode], m.Answer), m
}

// listLimit is within which a list of the file is in force: of two million names,
// on a small machine.
const listLimit = 20 * time.Second

// rebinding asks for names of somebody who has them point wherever he likes.
func (b *Bench) rebinding(ctx context.Context, l *LAN, drill string) Result {
	const about = "names of the world that point into the house are withheld (DNS rebinding)"
	look := func() string { return "dns { private_domain }; weir's log: " + b.Daemon.Log(3) }
	// One that points outside is answered: else nothing would be said of the others.
	if seen, m := b.asked(ctx, l, "192-0-2-80.rebind.test"); m == nil || len(m.Answer) != 1 {
		return fail(drill, about, "192.0.2.80 for a name that points there", seen, look())
	}
	inside := []string{"127-0-0-1", "192-168-1-1", "10-1-2-3"}
	if l.Address4.IsValid() {
		inside = append(inside, strings.ReplaceAll(l.Address4.Addr().String(), ".", "-"))
	}
	for _, n := range inside {
		if seen, m := b.asked(ctx, l, n+".rebind.test"); m == nil || len(m.Answer) > 0 {
			return fail(drill, about, "no address for "+n+".rebind.test", seen, look())
		}
	}
	return pass(drill, about, packets("names withheld", len(inside)))
}

// blocked asks for a name of each source of each list: it is not there for the LANs that the list
// is for, and is for the others.
func (b *Bench) blocked(ctx context.Context, l *LAN, lists []config.BlockList, drill string) Result {
	const about = "names of the file's lists are blocked, for the LANs that they are for"
	look := func() string { return "block_list; weir's log: " + b.Daemon.Log(3) }
	names := map[string][]string{} // by list: its files', and what stands in for its URLs
	from := sheets(lists)
	for _, list := range lists {
		var files []string
		for _, s := range list.Source {
			if sheet, is := from[s]; !is {
				files = append(files, s)
			} else if !slices.ContainsFunc(list.Allow, func(a string) bool { return sheet.name == a || strings.HasSuffix(sheet.name, "."+a) }) {
				names[list.Name] = append(names[list.Name], sheet.name)
			}
		}
		of, err := blocklist.Blocks(files, list.Allow)
		if err != nil {
			return fail(drill, about, "a list that can be read", err.Error(), look())
		}
		names[list.Name] = append(names[list.Name], of...)
	}
	is := func(list config.BlockList) bool { return len(list.LAN) == 0 || slices.Contains(list.LAN, l.Name) }
	tried := 0
	for _, list := range lists {
		urls := len(slices.DeleteFunc(slices.Clone(list.Source), func(s string) bool { _, is := from[s]; return !is }))
		for _, of := range names[list.Name][:min(len(names[list.Name]), urls+1)] {
			blocks := is(list) || slices.ContainsFunc(lists, func(o config.BlockList) bool { return is(o) && slices.Contains(names[o.Name], of) })
			want := map[bool]string{true: "no such name (NXDOMAIN)", false: "an answer: the list is not for this LAN"}[blocks]
			var seen string
			if !lab.Until(ctx, b.patience(listLimit), func() bool {
				var m *dns.Msg
				seen, m = b.asked(ctx, l, of)
				return m != nil && blocks == (m.Rcode == dns.RcodeNameError)
			}) {
				return fail(drill, about, fmt.Sprintf("%s of list %q: %s", of, list.Name, want), seen, look())
			}
			tried++
		}
	}
	return pass(drill, about, packets("names tried", tried))
}
