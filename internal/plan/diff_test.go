package plan_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/desired"
	"weir/internal/plan"
	"weir/internal/ruleset"
	"weir/internal/state"
)

var (
	pre  = netip.MustParsePrefix
	addr = netip.MustParseAddr
)

// small is a house with one line, as Build would want it.
func small() desired.Desired {
	return desired.Desired{Namespaces: []desired.Namespace{
		{
			Links: []desired.Link{
				{Name: "eth0", Kind: desired.Port, Up: true, OwnAddrs: true},
				{Name: "fiber", Kind: desired.Veth, Up: true, Peer: "lan", PeerNS: "wan-fiber", AddrGen: 1, OwnAddrs: true},
			},
			Addrs: []desired.Addr{{Link: "eth0", Prefix: pre("172.31.0.1/24")}, {Link: "fiber", Prefix: pre("172.31.1.0/31")}},
			Routes: []desired.Route{
				{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.1.1"), Link: "fiber", Table: 87001},
				{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.1.1"), Link: "fiber", Src: addr("172.31.0.1")},
			},
			Rules: []desired.Rule{
				{Pref: 8701, OIF: "fiber", Table: 87001},
				{Pref: 9469, Mark: 1, Mask: ruleset.MarkMask, Table: 87001},
			},
			Sysctls: []desired.Sysctl{
				{Key: "net/ipv4/ip_forward", Value: "1"},
				{Key: "net/netfilter/nf_conntrack_max", Value: "262144", Global: true},
			},
			Table: ruleset.Table{
				Text: "table inet weir {\n\tmap source4 {\n\t\ttype ifname : ipv4_addr\n\t}\n\tchain through {\n\t\ttype filter hook forward priority 0; policy drop;\n\t\tct state established,related accept comment \"established\"\n\t\tiifname \"eth0\" accept comment \"lan\"\n\t}\n}\n",
				Sets: []ruleset.Set{{Name: "source4", Elements: []string{`"fiber" : 198.51.100.10`}}},
			},
		},
		{
			Name: "wan-fiber", WAN: "fiber",
			Links: []desired.Link{
				{Name: "lan", Kind: desired.Veth, Up: true, Peer: "fiber", AddrGen: 1, OwnAddrs: true},
				{Name: "eth1", Kind: desired.Port, Up: true, OwnAddrs: true},
			},
			Addrs:  []desired.Addr{{Link: "lan", Prefix: pre("172.31.1.1/31")}, {Link: "eth1", Prefix: pre("198.51.100.10/24")}},
			Routes: []desired.Route{{Dst: pre("0.0.0.0/0"), Gateway: addr("198.51.100.1"), Link: "eth1"}},
			Rules:  []desired.Rule{{Pref: 10, Table: 255}},
			Table:  ruleset.Table{Text: "table inet weir {\n\tchain through {\n\t\ttype filter hook forward priority 0; policy drop;\n\t}\n}\n"},
		},
	}}
}

// first are the rules that a namespace begins with.
func first(wan bool) (out []plan.Rule) {
	for _, v6 := range []bool{false, true} {
		if !wan { // there another stands for it
			out = append(out, plan.Rule{Rule: desired.Rule{V6: v6, Table: 255}, Proto: 2})
		}
		out = append(out, plan.Rule{Rule: desired.Rule{V6: v6, Pref: 32766, Table: 254}, Proto: 2})
	}
	return out
}

// bare is a machine on which nothing was done yet.
func bare() plan.Actual {
	return plan.Actual{Machine: state.Machine{Bridge: true, ConntrackMax: true}, Namespaces: []plan.Namespace{{
		Links: []plan.Link{{Name: "eth0", Index: 2, MTU: 1500}, {Name: "eth1", Index: 3, MTU: 1500, Up: true}},
		Addrs: []plan.Addr{
			{Addr: desired.Addr{Link: "eth1", Prefix: pre("192.0.2.7/24")}},
			{Addr: desired.Addr{Link: "eth1", Prefix: pre("fe80::7/64")}, Kernel: true},
		},
		Routes:  []plan.Route{{Route: desired.Route{Dst: pre("0.0.0.0/0"), Gateway: addr("192.0.2.1"), Link: "eth1", Metric: 100}, Proto: 16}},
		Rules:   first(false),
		Sysctls: map[string]string{"net/ipv4/ip_forward": "0"},
	}}}
}

// done is the kernel after d was applied to it, and nothing else happened.
func done(d desired.Desired) plan.Actual {
	a := bare()
	a.Namespaces = nil
	a.Last = &d
	for _, n := range d.Namespaces {
		h := plan.Namespace{Name: n.Name, Ours: true, Sysctls: map[string]string{}, Table: plan.Table{Exists: true, Text: n.Table.Text, Sets: n.Table.Sets}}
		for i, l := range n.Links {
			x := plan.Link{Name: l.Name, Index: i + 2, Up: l.Up, MTU: max(l.MTU, 1500), Master: l.Master, AddrGen: l.AddrGen, Ours: l.Kind != desired.Port}
			switch l.Kind {
			case desired.Veth:
				x.Kind, x.Peer, x.PeerNS = "veth", l.Peer, l.PeerNS
			case desired.Bridge:
				x.Kind = "bridge"
			}
			h.Links = append(h.Links, x)
		}
		for _, x := range n.Addrs {
			h.Addrs = append(h.Addrs, plan.Addr{Addr: x})
		}
		for _, r := range n.Routes {
			h.Routes = append(h.Routes, plan.Route{Route: r, Proto: desired.RouteProto})
		}
		for _, r := range n.Rules {
			h.Rules = append(h.Rules, plan.Rule{Rule: r, Proto: desired.RouteProto})
		}
		h.Rules = append(h.Rules, first(n.Name != "")...)
		for _, s := range n.Sysctls {
			h.Sysctls[s.Key] = s.Value
		}
		a.Namespaces = append(a.Namespaces, h)
	}
	a.Found.Ports = map[string]plan.Port{"eth0": {MTU: 1500}, "eth1": {MTU: 1500, Up: true, Addrs: []plan.Addr{{Addr: desired.Addr{Link: "eth1", Prefix: pre("192.0.2.7/24")}}}}}
	a.Found.Sysctls = map[string]string{"net/ipv4/ip_forward": "0"}
	return a
}

func text(t *testing.T, p plan.Plan, want string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimLeft(want, "\n"), p.String()); d != "" {
		t.Errorf("- wanted, + planned:\n%s", d)
	}
}

func TestNothing(t *testing.T) {
	p := plan.Diff(done(small()), small())
	if !p.Empty() {
		t.Error("not empty")
	}
	text(t, p, "Nothing to change: the kernel holds what the file says.\n")
	text(t, plan.Diff(plan.Actual{Namespaces: []plan.Namespace{{}}}, desired.Desired{}), "Nothing to change: the kernel holds what the file says.\n")
}

func TestFirst(t *testing.T) {
	p := plan.Diff(bare(), small())
	text(t, p, `
  + wan-fiber  namespace wan-fiber
  + main       nft table weir
        + table inet weir {
        +   map source4 {
        +     type ifname : ipv4_addr
        +   }
        +   chain through {
        +     type filter hook forward priority 0; policy drop;
        +     ct state established,related accept comment "established"
        +     iifname "eth0" accept comment "lan"
        +   }
        + }
        + add element inet weir source4 { "fiber" : 198.51.100.10 }
  + wan-fiber  nft table weir
        + table inet weir {
        +   chain through {
        +     type filter hook forward priority 0; policy drop;
        +   }
        + }
  ~ main       sysctl net/ipv4/ip_forward  0 -> 1
  ~ main       sysctl net/netfilter/nf_conntrack_max  262144
  + main       link fiber                  cable to lan in wan-fiber
  + main       address eth0                172.31.0.1/24
  + main       address fiber               172.31.1.0/31
  + wan-fiber  address lan                 172.31.1.1/31
  ~ main       link eth0                   down -> up
  ~ main       link fiber                  down -> up
  ~ wan-fiber  link lan                    down -> up
  + main       route default table 87001   via 172.31.1.1 dev fiber
  + main       route default               via 172.31.1.1 dev fiber src 172.31.0.1
  + main       rule 8701                   oif fiber lookup 87001
  + main       rule 9469                   fwmark 0x1/0x3ff lookup 87001
  + wan-fiber  rule 10                     lookup local
  ~ wan-fiber  link eth1                   in main -> wan-fiber   (had 192.0.2.7/24, 1 route; `+"`weir down`"+` gives it back)
  + wan-fiber  address eth1                198.51.100.10/24
  ~ wan-fiber  link eth1                   down -> up
  + wan-fiber  route default               via 198.51.100.1 dev eth1
  - wan-fiber  rule 0                      lookup local   (marks are looked at first)
Plan: 14 to add, 7 to change, 1 to remove.
`)
	// What is changed for the first time is kept, the port with all that is on it.
	port := p.Found.Ports["eth1"]
	if !port.Up || len(port.Addrs) != 1 || len(port.Routes) != 1 || p.Found.Sysctls["net/ipv4/ip_forward"] != "0" {
		t.Errorf("found: %+v", p.Found)
	}
}

// change edits a copy of the small house.
func change(f func(main, wan *desired.Namespace)) desired.Desired {
	d := small()
	f(&d.Namespaces[0], &d.Namespaces[1])
	return d
}

func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name string
		want desired.Desired
		text string
	}{
		{"a lease renewed with another address", change(func(main, wan *desired.Namespace) {
			main.Table.Sets[0].Elements = []string{`"fiber" : 198.51.100.99`}
			wan.Addrs[1].Prefix = pre("198.51.100.99/24")
			wan.Routes[0].Gateway = addr("198.51.100.254")
		}), `
  ~ main       nft sets source4  "fiber" : 198.51.100.10 -> 198.51.100.99
  + wan-fiber  address eth1      198.51.100.99/24
  ~ wan-fiber  route default     via 198.51.100.1 -> 198.51.100.254
  - wan-fiber  address eth1      198.51.100.10/24   (no longer wanted)
  - main       flows fiber       IPv4, mark 0x1/0xff   (198.51.100.10 is no longer the line's)
Plan: 1 to add, 2 to change, 2 to remove.
`},
		{"the line is down", change(func(main, _ *desired.Namespace) {
			main.Rules = main.Rules[:1]
			main.Routes[1] = desired.Route{Dst: pre("0.0.0.0/0"), Type: desired.Unreachable}
		}), `
  ~ main  route default         via 172.31.1.1 dev fiber src 172.31.0.1 -> unreachable
  - main  rule 9469             fwmark 0x1/0x3ff lookup 87001   (no longer wanted)
  - main  flows mark 0x1/0x1ff  outbound IPv4 flows of a line no longer used   (who only waits on TCP is told)
Plan: 0 to add, 1 to change, 2 to remove.
`},
		{"the line is down, and its connections wait", change(func(main, _ *desired.Namespace) {
			main.Rules[1].IPProto = 6
		}), `
  ~ main  rule 9469                 fwmark 0x1/0x3ff lookup 87001 -> fwmark 0x1/0x3ff ipproto tcp lookup 87001
  - main  flows mark 0x1/0x11ff     outbound IPv4 flows of a line that was lost, but TCP
  - main  flows mark 0x1001/0x11ff  unanswered outbound IPv4 TCP flows of a line that was lost
Plan: 0 to add, 1 to change, 2 to remove.
`},
		{"the preferred line is back, and the flows of the other go there", func() desired.Desired {
			d := change(func(main, _ *desired.Namespace) { main.Routes[1].Link = "eth0" })
			d.Moves = []desired.Move{{Cable: "fiber", Mark: 1}, {Cable: "fiber", Mark: 1, V6: true}}
			return d
		}(), `
  ~ main  route default          via 172.31.1.1 dev fiber -> eth0
  - main  flows mark 0x1/0x21ff  outbound IPv4 flows of fiber, which go on by eth0   (who only waits on TCP is told)
Plan: 0 to add, 1 to change, 1 to remove.
`},
		{"another rule in the file", change(func(main, _ *desired.Namespace) {
			main.Table.Text = strings.Replace(main.Table.Text, "\t\tiifname \"eth0\"", "\t\tiifname \"eth0\" tcp dport 25 drop comment \"block.spam\"\n\t\tiifname \"eth0\"", 1)
		}), `
  ~ main  nft table weir
            chain through {
              type filter hook forward priority 0; policy drop;
              ct state established,related accept comment "established"
        +     iifname "eth0" tcp dport 25 drop comment "block.spam"
              iifname "eth0" accept comment "lan"
            }
Plan: 0 to add, 1 to change, 0 to remove.
`},
		{"the port has another name", change(func(_, wan *desired.Namespace) {
			wan.Links[1].Name = "eth5"
			wan.Addrs[1].Link, wan.Routes[0].Link = "eth5", "eth5"
		}), `
  - wan-fiber  route default  via 198.51.100.1 dev eth1   (no longer wanted)
  ~ main       link eth1      in wan-fiber -> main   (given back)
  ~ main       link eth1      down -> up   (as it was found)
  + main       address eth1   192.0.2.7/24   (as it was found)
  waiting for eth5: it isn't there yet
Plan: 1 to add, 2 to change, 1 to remove.
`},
		{"nothing is wanted", desired.Desired{}, `
  - main       rule 8701                   oif fiber lookup 87001   (no longer wanted)
  - main       rule 9469                   fwmark 0x1/0x3ff lookup 87001   (no longer wanted)
  - main       route default table 87001   via 172.31.1.1 dev fiber   (no longer wanted)
  - main       route default               via 172.31.1.1 dev fiber src 172.31.0.1   (no longer wanted)
  - main       address eth0                172.31.0.1/24   (no longer wanted)
  - main       link fiber                  cable to lan in wan-fiber   (no longer wanted)
  ~ main       link eth1                   in wan-fiber -> main   (given back)
  ~ main       link eth0                   up -> down   (as it was found)
  ~ main       link eth1                   down -> up   (as it was found)
  + main       address eth1                192.0.2.7/24   (as it was found)
  ~ main       sysctl net/ipv4/ip_forward  1 -> 0   (as it was found)
  - main       nft table weir              no longer wanted
  - wan-fiber  namespace wan-fiber         no longer wanted
  - main       flows mark 0x1/0x1ff        outbound IPv4 flows of a line no longer used
Plan: 1 to add, 4 to change, 9 to remove.
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := plan.Diff(done(small()), c.want)
			text(t, p, c.text)
		})
	}
}

// No step is before what makes it safe.
func TestOrder(t *testing.T) {
	plans := map[string]plan.Plan{
		"first":   plan.Diff(bare(), small()),
		"down":    plan.Diff(done(small()), desired.Desired{}),
		"renamed": plan.Diff(done(small()), renamed()),
		"healed":  plan.Diff(plan.Actual{Namespaces: bare().Namespaces, Last: done(small()).Last}, small()),
	}
	for name, p := range plans {
		t.Run(name, func(t *testing.T) {
			seen := map[string]int{}
			index := func(format string, args ...any) int {
				if i, ok := seen[fmt.Sprintf(format, args...)]; ok {
					return i
				}
				return -1
			}
			for i, s := range p.Steps {
				switch do := s.Do.(type) {
				case plan.LoadTable:
					seen[fmt.Sprintf("table %s %v", do.NS, do.New.Text != "")] = i
				case plan.PutRoute:
					seen[fmt.Sprintf("route %s %d", do.NS, do.New.Table)] = i
				case plan.DeleteAddr:
					seen[fmt.Sprintf("addr gone %s", do.NS)] = i
				case plan.DeleteNamespace:
					seen["ns gone "+do.Name] = i
				}
			}
			for i, s := range p.Steps {
				before := func(j int, what string) {
					t.Helper()
					if j >= i {
						t.Errorf("%s is step %d, after %s (%d)", what, j, s, i)
					}
				}
				switch do := s.Do.(type) {
				case plan.PutAddr:
					before(index("table %s true", do.NS), "the filter of "+do.NS)
				case plan.PutRoute:
					before(index("table %s true", do.NS), "the filter of "+do.NS)
				case plan.MoveLink:
					before(index("table %s true", do.To), "the filter of "+do.To)
				case plan.PutRule:
					before(index("route %s %d", do.NS, do.New.Table), "the table of the rule")
				case plan.SetSysctl:
					if do.New == "1" {
						before(index("table %s true", do.NS), "the filter of "+do.NS)
					}
				}
			}
			// What destroys is last: nothing is made after something of ours went,
			// but what is given back.
			gone := false
			for _, s := range p.Steps {
				switch {
				case s.Object == "flows", s.Name == "0", s.Why == "as it was found", s.Why == "given back":
				case s.Op == plan.Remove:
					gone = true
				case gone:
					t.Errorf("%s comes after something was removed", s)
				}
			}
			// Flows are ended when nothing is left that can fail.
			flows := 0
			for i, s := range p.Steps {
				switch {
				case s.Object == "flows":
					flows++
				case flows > 0:
					t.Errorf("step %d, %s, comes after flows were ended", i, s)
				}
			}
			if i := index("table  false"); i >= 0 && i < len(p.Steps)-flows-2 {
				t.Errorf("main's filter goes at step %d of %d", i, len(p.Steps))
			}
		})
	}
}

// renamed is the small house with another name for its WAN.
func renamed() desired.Desired {
	b, err := json.Marshal(small())
	if err != nil {
		panic(err)
	}
	var d desired.Desired
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), "fiber", "cable")), &d); err != nil {
		panic(err)
	}
	return d
}

// A value of a module that somebody else may load: nothing without it, and a
// change as soon as it is there.
func TestSysctlOfAModule(t *testing.T) {
	const key = "net/bridge/bridge-nf-call-iptables"
	d := small()
	a := done(d)
	d.Namespaces[0].Sysctls = append(d.Namespaces[0].Sysctls, desired.Sysctl{Key: key, Value: "0", IfThere: true})
	for _, actual := range []plan.Actual{a, bare()} {
		if p := plan.Diff(actual, d); strings.Contains(p.String(), key) {
			t.Errorf("not loaded, and yet:\n%s", p)
		}
	}
	a.Namespaces[0].Sysctls[key] = "1"
	text(t, plan.Diff(a, d), `
  ! main  sysctl net/bridge/bridge-nf-call-iptables  1 -> 0   (changed by hand)
Plan: 0 to add, 1 to change, 0 to remove.
`)
}

func TestDriftAndForeign(t *testing.T) {
	a := done(small())
	main := &a.Namespaces[0]
	main.Addrs = append(main.Addrs, plan.Addr{Addr: desired.Addr{Link: "eth0", Prefix: pre("10.0.0.1/8")}})
	main.Routes[1].Gateway = addr("172.31.0.9")
	main.Routes = append(main.Routes, plan.Route{Route: desired.Route{Dst: pre("0.0.0.0/0"), Gateway: addr("172.31.0.7"), Link: "eth0", Metric: 50}, Proto: 3})
	main.Sysctls["net/ipv4/ip_forward"] = "0"
	main.Table.Touched = []plan.Touch{
		{Op: plan.Remove, What: `rule "lan" in chain through`},
		{Op: plan.Add, What: "chain evil"},
	}
	main.Links = append(main.Links, plan.Link{Name: "docker0", Kind: "bridge"})
	a.Namespaces[1].Links[1].Up = false
	text(t, plan.Diff(a, small()), `
  ! main       nft table weir              rule "lan" in chain through removed by hand, and 1 more, will be as it was
        + rule "lan" in chain through
        - chain evil
  ! main       sysctl net/ipv4/ip_forward  0 -> 1   (changed by hand)
  ! wan-fiber  link eth1                   down -> up   (changed by hand)
  ! main       route default               via 172.31.0.9 -> 172.31.1.1   (changed by hand)
  ! main       address eth0                10.0.0.1/8   (added by hand)
  note: main has another default route, which is not weir's and stays behind it: default via 172.31.0.7 dev eth0 metric 50
Plan: 0 to add, 4 to change, 1 to remove.
`)
}

// What this machine can't do is known before anything is applied.
func TestWhatCannotBe(t *testing.T) {
	vlan := change(func(main, _ *desired.Namespace) {
		main.Links = append(main.Links,
			desired.Link{Name: "guest", Kind: desired.VLAN, Parent: "eth0", VID: 20, Up: true},
			desired.Link{Name: "iot", Kind: desired.Bridge, Up: true})
		main.Addrs = append(main.Addrs, desired.Addr{Link: "guest", Prefix: pre("172.31.20.1/24")})
	})
	a := bare()
	a.Machine = state.Machine{}
	p := plan.Diff(a, vlan)
	want := []string{"guest needs 802.1Q VLANs, and this kernel has none (module 8021q)", "iot needs a bridge, and this kernel has none (module bridge)"}
	if !slices.Equal(p.Refused, want) || p.Empty() {
		t.Errorf("refused: %q", p.Refused)
	}
	if !strings.HasSuffix(p.String(), "Plan: can't be carried out here; nothing will be changed.\n") {
		t.Error(p)
	}
	p = plan.Diff(a, small())
	if !slices.Contains(p.Notes, "net/netfilter/nf_conntrack_max stays as it is: it can be changed in the machine's first network namespace only") {
		t.Errorf("notes: %q", p.Notes)
	}
	// Global values are raised, never lowered.
	b := done(small())
	b.Namespaces[0].Sysctls["net/netfilter/nf_conntrack_max"] = "1000000"
	if p := plan.Diff(b, small()); !p.Empty() {
		t.Error(p)
	}
	// The port of a WAN is called as the cable's end would be.
	lan := change(func(_, wan *desired.Namespace) { wan.Links[1].Name = "lan" })
	c := bare()
	c.Namespaces[0].Links[1].Name = "lan"
	if p := plan.Diff(c, lan); len(p.Refused) != 1 || !strings.Contains(p.Refused[0], "Rename the port") {
		t.Errorf("refused: %q", p.Refused)
	}
}

func TestJSON(t *testing.T) {
	a := done(small())
	a.Namespaces[0].Sysctls["net/ipv4/ip_forward"] = "0"
	wan := &a.Namespaces[1]
	wan.Links, wan.Addrs, wan.Routes = wan.Links[:1], wan.Addrs[:1], nil // the port was pulled out
	if b, err := json.Marshal(plan.Plan{}); err != nil || string(b) != `{"steps":[]}` {
		t.Errorf("a plan that does nothing: %s, %v", b, err)
	}
	b, err := json.MarshalIndent(plan.Diff(a, small()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "steps": [
    {
      "op": "change",
      "drift": true,
      "namespace": "",
      "object": "sysctl",
      "name": "net/ipv4/ip_forward",
      "old": "0",
      "new": "1",
      "why": "changed by hand"
    }
  ],
  "waiting": [
    "waiting for eth1: it isn't there yet"
  ]
}`
	if d := cmp.Diff(want, string(b)); d != "" {
		t.Error(d)
	}
}

// The same twice: no map's order shows.
func TestSameTwice(t *testing.T) {
	first := plan.Diff(done(small()), desired.Desired{}).String()
	for range 20 {
		if again := plan.Diff(done(small()), desired.Desired{}).String(); again != first {
			t.Fatalf("%s\nand\n%s", first, again)
		}
	}
}

// Flows that an earlier turn could not end are ended by the next, once.
func TestFlowsThatAreDue(t *testing.T) {
	f := plan.DeleteFlows{Mark: 1, Mask: 0x1ff, Family: 4}
	a := done(small())
	a.Due = []plan.DeleteFlows{f}
	text(t, plan.Diff(a, small()), `
  - main  flows mark 0x1/0x1ff  IPv4 flows that an earlier turn could not end
Plan: 0 to add, 0 to change, 1 to remove.
`)
	want := change(func(main, _ *desired.Namespace) { main.Rules = main.Rules[:1] })
	want.Namespaces[0].Table.Text = small().Namespaces[0].Table.Text
	f.Prod = true
	a.Due[0] = f
	n := 0
	for _, s := range plan.Diff(a, want).Steps {
		if s.Object == "flows" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the same flows are ended %d times", n)
	}
}

// A port that is given back while ours is the default route keeps its own for later.
func TestDefaultRouteOfAPortGivenBack(t *testing.T) {
	was := plan.Route{Route: desired.Route{Dst: pre("0.0.0.0/0"), Gateway: addr("192.168.1.1"), Link: "eth0"}, Proto: 3}
	a := done(small())
	a.Found.Ports["eth0"] = plan.Port{Up: true, Routes: []plan.Route{was}}
	p := plan.Diff(a, change(func(main, _ *desired.Namespace) { main.Links, main.Addrs = main.Links[1:], main.Addrs[1:] }))
	for _, s := range p.Steps {
		if put, ok := s.Do.(plan.PutRoute); ok && put.New == was {
			t.Errorf("it is put beside ours: %s", s)
		}
	}
	if !slices.Contains(p.Found.Routes, was) {
		t.Errorf("it is forgotten: %+v", p.Found)
	}
}

// A route by two ports comes back with the second of them.
func TestRouteBySeveralPortsGivenBack(t *testing.T) {
	was := plan.Route{Route: desired.Route{Dst: pre("10.7.0.0/16")}, Proto: 3, Hops: "nexthop via 192.168.1.3 dev eth0 weight 1 nexthop via 192.0.2.3 dev eth1 weight 1"}
	back := func(want desired.Desired) bool {
		a := done(small())
		for _, port := range []string{"eth0", "eth1"} {
			a.Found.Ports[port] = plan.Port{Up: true, Routes: []plan.Route{was}}
		}
		return slices.ContainsFunc(plan.Diff(a, want).Steps, func(s plan.Step) bool { put, ok := s.Do.(plan.PutRoute); return ok && put.New == was })
	}
	if back(change(func(main, _ *desired.Namespace) { main.Links, main.Addrs = main.Links[1:], main.Addrs[1:] })) {
		t.Error("it is put back while eth1 is a WAN's")
	}
	if back(change(func(main, wan *desired.Namespace) {
		main.Links[0].Name, main.Addrs[0].Link = "eth1", "eth1"
		wan.Links, wan.Addrs, wan.Routes = wan.Links[:1], wan.Addrs[:1], nil
	})) {
		t.Error("it is put back while eth1 is a LAN's")
	}
	if !back(desired.Desired{}) {
		t.Error("it is not put back at all")
	}
}
