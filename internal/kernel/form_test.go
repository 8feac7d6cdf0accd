package kernel_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ti-mo/conntrack"

	"weir/internal/netns"
)

// normal is what the kernel holds in main and in the WANs' namespaces, a line for
// each thing, as ip, nft, /proc/sys/net and conntrack tell it: without ifindexes,
// handles, counters and lifetimes, and without what the far ends of the ports do.
func (b *bench) normal() []string {
	b.Helper()
	spaces := []string{""}
	names, err := netns.List()
	b.must(err)
	for _, n := range names {
		if strings.HasPrefix(n, "wan-") {
			spaces = append(spaces, n)
		}
	}
	var out []string
	for _, ns := range spaces {
		for _, l := range b.normalSpace(ns) {
			out = append(out, ns+": "+l)
		}
	}
	slices.Sort(out) // but a chain's rules, which carry their place
	return out
}

// moving is what ip prints and what changes by itself, or is a number of the kernel's.
// That a route's gateway is on the link is said or not (Kernel.putRoute): it is.
// The routes to link-local addresses of its own follow from those, when they were tried.
var moving = regexp.MustCompile(`(?m)^\d+: |@if\d+|@[a-z][\w-]*|NO-CARRIER,|,LOWER_UP| state \w+| qdisc \w+| link-netns(id)? \S+| \w*timer +[\d.]+|tentative | linkdown| dead| expires \S+|valid_lft \S+ preferred_lft \S+| onlink| pref medium|num(tx|rx)queues \d+|carrier_changes \d+|port_id \S+ port_no \S+ designated_port \d+`)

func (b *bench) normalSpace(ns string) []string {
	b.Helper()
	text := b.run(ns, `ip -d -o link; ip -o addr; for f in -4 -6; do ip $f route show table all | grep -v '^multicast\|table 128\|^local fe80:\|^anycast fe80:' || true; ip $f rule; done`)
	out := strings.Split(strings.TrimSpace(moving.ReplaceAllString(text, "")), "\n")
	for i := range out {
		out[i] = strings.Join(strings.Fields(out[i]), " ")
	}
	out = append(out, b.normalRules(ns)...)
	b.in(ns, func() error {
		root := "/proc/sys/net"
		return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // it went meanwhile
			}
			v, err := os.ReadFile(path)
			if key := strings.TrimPrefix(path, root+"/"); err == nil && !strings.HasPrefix(key, "core/") && !strings.HasSuffix(key, "conntrack_count") {
				out = append(out, key+" = "+strings.TrimSpace(string(v)))
			}
			return nil
		})
	})
	if ns != "" {
		return out
	}
	b.in("", func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		flows, err := c.Dump(nil)
		for _, f := range flows {
			if f.Mark == 0 {
				continue // the machine's own: IGMP and the like
			}
			out = append(out, fmt.Sprintf("flow %v %v mark %#x", f.TupleOrig, f.TupleReply, f.Mark))
		}
		return err
	})
	return out
}

// normalRules is the ruleset of a namespace, a line for each object. A rule's says
// which of its chain it is.
func (b *bench) normalRules(ns string) []string {
	b.Helper()
	var list struct {
		Nftables []map[string]any `json:"nftables"`
	}
	d := json.NewDecoder(bytes.NewReader([]byte(b.run(ns, "nft -j list ruleset"))))
	d.UseNumber()
	b.must(d.Decode(&list))
	place := map[string]int{}
	var out []string
	for _, o := range list.Nftables {
		for kind, v := range o {
			if kind == "metainfo" {
				continue
			}
			plain(v)
			line, err := json.Marshal(v)
			b.must(err)
			if m, ok := v.(map[string]any); ok && kind == "rule" {
				chain := fmt.Sprint(m["family"], m["table"], m["chain"])
				kind = fmt.Sprintf("rule %d of", place[chain])
				place[chain]++
			}
			out = append(out, kind+" "+string(line))
		}
	}
	return out
}

// plain takes out of nft's JSON what is a number of the kernel's.
func plain(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range []string{"handle", "packets", "bytes", "expires"} {
			delete(v, k)
		}
		for _, x := range v {
			plain(x)
		}
		if e, ok := v["elem"].([]any); ok { // a set's, in no order
			slices.SortFunc(e, func(x, y any) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
		}
	case []any:
		for _, x := range v {
			plain(x)
		}
	}
}

// patience is how long what the kernel makes of itself, as link-local addresses, has
// to come back.
const patience = 5 * time.Second

// noDAD has no address be tentative: a second for each change that fails is too much.
func (b *bench) noDAD() {
	b.Helper()
	b.run("", `for n in "" $(cd /run/netns; ls -d wan-* 2>/dev/null); do
${n:+ip netns exec $n} sh -c 'for f in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 > $f; done'
done`)
}

// settled is normal when nothing comes by itself any more: the kernel looks at what has
// a carrier once a second. The routes of an IPv6 address come when its duplicate address
// detection ends: after a random second and another one, if its link has a carrier.
func (b *bench) settled() []string {
	b.Helper()
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if b.run("", `ip -6 -o addr show tentative; for n in $(cd /run/netns; ls -d wan-* 2>/dev/null); do ip -n $n -6 -o addr show tentative; done`) == "" {
			break
		}
	}
	now := b.normal()
	for range 10 {
		time.Sleep(1100 * time.Millisecond)
		then := now
		if now = b.normal(); len(differs(then, now)) == 0 {
			return now
		}
	}
	b.Fatal("the kernel does not come to rest")
	return nil
}

// differs says in what the kernel is not as before, at last.
func (b *bench) differs(before []string, within time.Duration) (d []string) {
	b.Helper()
	for until := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		if d = differs(before, b.normal()); len(d) == 0 || time.Now().After(until) {
			return d
		}
	}
}

// differs says in what two normal forms differ.
func differs(before, after []string) []string {
	count := map[string]int{}
	for _, l := range before {
		count[l]--
	}
	for _, l := range after {
		count[l]++
	}
	var out []string
	for l, n := range count {
		switch {
		case n < 0:
			out = append(out, "lost  "+l)
		case n > 0:
			out = append(out, "won   "+l)
		}
	}
	slices.Sort(out)
	return out
}
