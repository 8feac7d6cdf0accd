package ruleset_test

import (
	"net/netip"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/ruleset"
)

func TestQuestions(t *testing.T) {
	c := parse(t, "routes")
	h := desired.House(c, working(c))
	h.LANs[0].Routed = []netip.Prefix{netip.MustParsePrefix("2001:db8:f100:f0::/60")} // a router's
	ip := netip.MustParseAddr
	leases := []ruleset.Known{
		{Addr: ip("172.31.0.31"), MAC: "02:00:00:00:00:31", Name: "annas-tablet", LAN: "home"},
		{Addr: ip("172.31.0.140"), MAC: "02:00:00:00:00:99", Name: "phone", LAN: "home"},
	}
	for _, r := range []struct {
		from, to, proto string
		want            ruleset.Flow
		wrong           string // a part of the error
	}{
		{from: "tablet", to: "192.0.2.80:443", want: ruleset.Flow{From: ruleset.Spot{Host: "tablet", LAN: "home", Addr: ip("172.31.0.31")}, To: ruleset.Spot{Addr: ip("192.0.2.80")}, Protocol: config.TCP, Port: 443}},
		{from: "172.31.0.31", to: "192.0.2.80", want: ruleset.Flow{From: ruleset.Spot{Host: "tablet", LAN: "home", Addr: ip("172.31.0.31")}, To: ruleset.Spot{Addr: ip("192.0.2.80")}, Protocol: config.ICMP}},
		{from: "phone", to: "nas:80", want: ruleset.Flow{From: ruleset.Spot{LAN: "home", Addr: ip("172.31.0.140")}, To: ruleset.Spot{Host: "nas", LAN: "home"}, Protocol: config.TCP, Port: 80}},
		{from: "fd00::23", to: "[2001:db8::1]:53", proto: "udp", want: ruleset.Flow{From: ruleset.Spot{Host: "nas", LAN: "home", Addr: ip("fd00::23")}, To: ruleset.Spot{Addr: ip("2001:db8::1")}, Protocol: config.UDP, Port: 53}},
		{from: "self", to: "2001:db8::1", want: ruleset.Flow{From: ruleset.Spot{Self: true}, To: ruleset.Spot{Addr: ip("2001:db8::1")}, Protocol: config.ICMP}},
		{from: "lan.guest", to: "wan.lte:80", want: ruleset.Flow{From: ruleset.Spot{LAN: "guest"}, To: ruleset.Spot{WAN: "lte"}, Protocol: config.TCP, Port: 80}},
		{from: "192.0.2.7@fiber", to: "self:80", want: ruleset.Flow{From: ruleset.Spot{WAN: "fiber", Addr: ip("192.0.2.7")}, To: ruleset.Spot{Self: true}, Protocol: config.TCP, Port: 80}},
		{from: "fiber", to: "198.51.100.10:80", want: ruleset.Flow{From: ruleset.Spot{WAN: "fiber"}, To: ruleset.Spot{WAN: "fiber", Addr: ip("198.51.100.10")}, Protocol: config.TCP, Port: 80}},
		{from: "172.31.0.1", to: "172.31.20.9", want: ruleset.Flow{From: ruleset.Spot{Self: true, Addr: ip("172.31.0.1")}, To: ruleset.Spot{LAN: "guest", Addr: ip("172.31.20.9")}, Protocol: config.ICMP}},

		{from: "2001:db8:f100:f0::9", to: "2001:db8::1", want: ruleset.Flow{From: ruleset.Spot{LAN: "home", Addr: ip("2001:db8:f100:f0::9")}, To: ruleset.Spot{Addr: ip("2001:db8::1")}, Protocol: config.ICMP}},

		{from: "tabelt", to: "1.1.1.1", wrong: "hosts: nas, tablet, camera; LANs: home, guest, things; WANs: fiber, lte"},
		{from: "host.fiber", to: "1.1.1.1", wrong: `nothing here is called "host.fiber"`},
		{from: "192.0.2.7", to: "self:80", wrong: "192.0.2.7@fiber"},
		{from: "192.0.2.7@nas", to: "self:80", wrong: "nas is no LAN and no WAN"},
		{from: "tablet", to: "www.example.com:443", wrong: "nothing here is called"},
		{from: "tablet", to: "1.1.1.1:0", wrong: "ports are 1 to 65535"},
		{from: "tablet", to: "[::1", wrong: "is no destination"},
		{from: "tablet", to: "1.1.1.1", proto: "udp", wrong: "which port?"},
		{from: "tablet", to: "1.1.1.1:80", proto: "icmp", wrong: "icmp has no ports"},
		{from: "tablet", to: "1.1.1.1:80", proto: "sctp", wrong: "is no protocol"},
		{from: "172.31.0.31", to: "2001:db8::1", wrong: "different families"},
	} {
		got, err := h.Flow(ruleset.Ask{From: r.from, To: r.to, Protocol: r.proto, Leases: leases})
		switch {
		case r.wrong != "" && (err == nil || !strings.Contains(err.Error(), r.wrong)):
			t.Errorf("%s to %s: %v, want %q", r.from, r.to, err, r.wrong)
		case r.wrong == "" && (err != nil || got != r.want):
			t.Errorf("%s to %s: %+v, %v, want %+v", r.from, r.to, got, err, r.want)
		}
	}
	// Who is behind a router of a LAN is no stranger, and is where its answers go.
	behind := ruleset.Spot{LAN: "home", Addr: ip("2001:db8:f100:f0::9")}
	for _, r := range []ruleset.Flow{
		{From: behind, To: ruleset.Spot{Self: true}, Protocol: config.UDP, Port: 53},
		{From: ruleset.Spot{LAN: "home", Addr: ip("fd00::50")}, To: behind, Protocol: config.ICMP},
	} {
		if e := h.Explain(r, true); e.Verdict == ruleset.Dropped {
			t.Errorf("%+v is dropped by %s", r, e.By)
		}
	}
	stranger := ruleset.Spot{LAN: "home", Addr: ip("2001:db8:f100:e0::9")}
	if e := h.Explain(ruleset.Flow{From: stranger, To: ruleset.Spot{Self: true}, Protocol: config.UDP, Port: 53}, true); e.By != "lan.home.spoofed" {
		t.Errorf("a stranger's source: %s by %q", e.Verdict, e.By)
	}
	// A host and a WAN may share a name.
	c.WANs[0].Name, c.LANs[0].Hosts[0].Name = "nas", "nas"
	h = desired.House(c, working(c))
	if _, err := h.Flow(ruleset.Ask{From: "nas", To: "1.1.1.1"}); err == nil || !strings.Contains(err.Error(), "host.nas or wan.nas") {
		t.Error(err)
	}
	if f, err := h.Flow(ruleset.Ask{From: "host.nas", To: "1.1.1.1"}); err != nil || f.From.Host != "nas" {
		t.Error(f, err)
	}
}

// TestExplanations: names have both families, and each says what it lacks.
func TestExplanations(t *testing.T) {
	c := parse(t, "routes")
	st := working(c)
	fell(&st, "lte", false, true)
	h := desired.House(c, st)
	for _, r := range []struct {
		from, to string
		want     []ruleset.Verdict
	}{
		{"tablet", "192.0.2.80:443", []ruleset.Verdict{ruleset.Leaves}},
		{"tablet", "nas:80", []ruleset.Verdict{ruleset.Delivered, ruleset.Delivered}},
		{"fiber", "self:80", []ruleset.Verdict{ruleset.Delivered, ruleset.Delivered}},
		{"fiber", "fiber:81", []ruleset.Verdict{ruleset.Dropped, ruleset.Dropped}},
		{"lan.home", "192.0.2.90:443", []ruleset.Verdict{ruleset.Leaves}},
		{"lan.home", "[2001:db8:80::90]:443", []ruleset.Verdict{ruleset.Refused}},
		{"guest", "tablet:80", []ruleset.Verdict{ruleset.Refused, ruleset.Refused}},
		{"nas", "self:7000", []ruleset.Verdict{ruleset.Reached, ruleset.Reached}},
		{"lan.things", "self:53", []ruleset.Verdict{ruleset.Reached, ruleset.Reached}},
		{"lan.things", "self:22", []ruleset.Verdict{ruleset.Refused, ruleset.Refused}},
		{"self", "camera", []ruleset.Verdict{ruleset.Delivered, ruleset.Delivered}},
		{"tablet", "224.0.0.251:5353", []ruleset.Verdict{ruleset.Dropped}},
	} {
		f, err := h.Flow(ruleset.Ask{From: r.from, To: r.to})
		if err != nil {
			t.Fatal(err)
		}
		var got []ruleset.Verdict
		all := h.Explanations(f)
		for _, e := range all {
			got = append(got, e.Verdict)
		}
		if len(got) != len(r.want) || got[0] != r.want[0] || got[len(got)-1] != r.want[len(r.want)-1] {
			t.Errorf("%s to %s: %v, want %v: %+v", r.from, r.to, got, r.want, all)
		}
	}
}
