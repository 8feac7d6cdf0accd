package kernel

import (
	"net/netip"
	"testing"
	"testing/fstest"

	"weir/internal/desired"
	"weir/internal/plan"
)

func TestFindSession(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	root := fstest.MapFS{
		"proc/9/stat":    file("9 (weir) S 8 9 9 0 -1"),
		"proc/9/environ": file("PATH=/bin\x00HOME=/root\x00"), // sudo dropped it
		"proc/8/stat":    file("8 (sudo (x) ) S 7 8 8 0 -1"),
		"proc/7/stat":    file("7 (bash) S 1 7 7 0 -1"),
		"proc/7/environ": file("SSH_CONNECTION=172.31.0.50 50000 172.31.0.1 22\x00"),
		"proc/6/stat":    file("6 (bash) S 1 6 6 0 -1"),
		"proc/6/environ": file("SSH_CONNECTION=fe80::5%eth0 50000 ::ffff:172.31.0.1 22\x00"),
		"proc/5/stat":    file("5 (bash) S 1 5 5 0 -1"),
		"proc/5/environ": file("SSH_CONNECTION=nonsense\x00"),
		"proc/4/stat":    file("4 (loop) S 4 4 4 0 -1"),
		"proc/3/stat":    file("garbage"),
		"proc/1/stat":    file("1 (init) S 0 1 1 0 -1"),
	}
	for pid, want := range map[int]string{9: "172.31.0.50 172.31.0.1", 6: "fe80::5%eth0 172.31.0.1", 5: "", 4: "", 3: "", 2: ""} {
		got := ""
		if s, ok := FindSession(root, pid); ok {
			got = s.Peer.String() + " " + s.Local.String()
		}
		if got != want {
			t.Errorf("process %d: %q, want %q", pid, got, want)
		}
	}
}

func TestSessionCut(t *testing.T) {
	up, down, bridge, none := true, false, "br", ""
	a := plan.Actual{Namespaces: []plan.Namespace{
		{Addrs: []plan.Addr{
			{Addr: desired.Addr{Link: "eth0", Prefix: netip.MustParsePrefix("172.31.0.1/24")}},
			{Addr: desired.Addr{Link: "eth0", Prefix: netip.MustParsePrefix("fe80::1/64")}},
			{Addr: desired.Addr{Link: "lan", Prefix: netip.MustParsePrefix("10.0.10.1/24")}},
		}, Links: []plan.Link{
			{Name: "eth0"}, {Name: "lan", Kind: "bridge"}, {Name: "eth2", Master: "lan"}, {Name: "eth3.20", Kind: "vlan", Parent: "eth3", Master: "lan"}, {Name: "eth3"},
			{Name: "eth4", Master: "guests"}, {Name: "guests", Kind: "bridge"},
		}},
		{Name: "wan-fiber", Addrs: []plan.Addr{{Addr: desired.Addr{Link: "eth1", Prefix: netip.MustParsePrefix("198.51.100.10/24")}}}},
	}}
	lan := Session{Peer: netip.MustParseAddr("172.31.0.50"), Local: netip.MustParseAddr("172.31.0.1")}
	local6 := Session{Peer: netip.MustParseAddr("fe80::5"), Local: netip.MustParseAddr("fe80::1%eth0")}
	bridged := Session{Peer: netip.MustParseAddr("10.0.10.200"), Local: netip.MustParseAddr("10.0.10.1")}
	address := func(prefix string) plan.Addr {
		return plan.Addr{Addr: desired.Addr{Link: "lan", Prefix: netip.MustParsePrefix(prefix)}}
	}
	was := address("10.0.10.1/24")
	wan := Session{Peer: netip.MustParseAddr("192.0.2.1"), Local: netip.MustParseAddr("198.51.100.10")}
	old := plan.Route{Route: desired.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Link: "eth0"}, Proto: 3}
	far := Session{Peer: netip.MustParseAddr("192.0.2.1"), Local: netip.MustParseAddr("172.31.0.1")}
	for _, c := range []struct {
		name string
		s    Session
		do   plan.Action
		cut  bool
	}{
		{"moved", lan, plan.MoveLink{Link: "eth0", To: "wan-fiber"}, true},
		{"moved, by link-local", local6, plan.MoveLink{Link: "eth0", To: "wan-fiber"}, true},
		{"another moved", lan, plan.MoveLink{Link: "eth1", To: "wan-fiber"}, false},
		{"down", lan, plan.SetLink{Link: "eth0", New: plan.LinkAttrs{Up: &down}}, true},
		{"up", lan, plan.SetLink{Link: "eth0", New: plan.LinkAttrs{Up: &up}}, false},
		{"into a bridge", lan, plan.SetLink{Link: "eth0", New: plan.LinkAttrs{Master: &bridge}}, true},
		{"out of a bridge", lan, plan.SetLink{Link: "eth0", New: plan.LinkAttrs{Master: &none}}, false},
		{"in another namespace", lan, plan.SetLink{NS: "wan-fiber", Link: "eth0", New: plan.LinkAttrs{Up: &down}}, false},
		{"renumbered", lan, plan.DeleteAddr{Addr: plan.Addr{Addr: desired.Addr{Link: "eth0", Prefix: netip.MustParsePrefix("172.31.0.1/24")}}}, true},
		{"another address", lan, plan.DeleteAddr{Addr: plan.Addr{Addr: desired.Addr{Link: "eth0", Prefix: netip.MustParsePrefix("10.0.0.1/24")}}}, false},
		{"deleted", lan, plan.DeleteLink{Link: desired.Link{Name: "eth0"}}, true},
		{"default route replaced, peer far away", far, plan.PutRoute{Old: &old}, true},
		{"default route removed, peer far away", far, plan.DeleteRoute{Route: old}, true},
		{"default route replaced, peer next door", lan, plan.PutRoute{Old: &old}, false},
		{"default route of ours replaced", far, plan.PutRoute{Old: &plan.Route{Route: old.Route, Proto: desired.RouteProto}}, false},
		{"a port of the bridge moved", bridged, plan.MoveLink{Link: "eth2", To: "wan-fiber"}, true},
		{"a port of the bridge taken out", bridged, plan.SetLink{Link: "eth2", New: plan.LinkAttrs{Master: &none}}, true},
		{"a port put into the bridge", bridged, plan.SetLink{Link: "eth0", New: plan.LinkAttrs{Master: &bridge}}, false},
		{"a VLAN of the bridge removed", bridged, plan.DeleteLink{Link: desired.Link{Name: "eth3.20"}}, true},
		{"the port of a VLAN of the bridge moved", bridged, plan.MoveLink{Link: "eth3", To: "wan-fiber"}, true},
		{"another bridge's port moved", bridged, plan.MoveLink{Link: "eth4", To: "wan-fiber"}, false},
		{"a network without the peer", bridged, plan.PutAddr{Old: &was, New: address("10.0.10.1/25")}, true},
		{"a smaller network with the peer", lan, plan.PutAddr{Old: &was, New: address("10.0.10.1/25")}, false},
		{"a wider network", bridged, plan.PutAddr{Old: &was, New: address("10.0.10.1/16")}, false},
		{"not of main", wan, plan.MoveLink{Link: "eth1", To: "wan-fiber"}, false},
	} {
		if got := c.s.Cut(a, plan.Plan{Steps: []plan.Step{{Do: c.do}}}); (got != "") != c.cut {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
