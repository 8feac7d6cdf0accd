package desired

import (
	"net/netip"
	"testing"

	"weir/internal/config"
	"weir/internal/state"
)

// TestRoutesLead holds which line each kind of route leads to, whatever works.
func TestRoutesLead(t *testing.T) {
	file := config.File{Name: "gateway.hcl", Src: []byte(`
wan "a" { interface = "eth1" }
wan "b" { interface = "eth2" }
wan "c" {
  interface = "eth3"
  ipv6 { method = "none" }
}
wan "spare" { interface = "eth4" }
failover { prefer = [wan.a, wan.b, wan.c] }
lan "home" {
  interface = "eth0"
  address   = "10.0.10.1/24"
}
route "prefer" {
  port   = 1
  prefer = [wan.spare, wan.c]
}
route "only" {
  port = 2
  only = [wan.c, wan.spare]
}
route "never" {
  port  = 3
  never = [wan.b, wan.c]
}
`)}
	cfg, diags := config.Parse(file)
	if cfg == nil {
		t.Fatal(diags.Format([]config.File{file}))
	}
	for _, c := range []struct {
		name, up, use       string // a letter each: s is spare, in capitals it is wary
		prefer, only, never string // IPv4, then IPv6; - is none
	}{
		{"all work", "abcs", "a", "ss", "cs", "aa"},
		{"spare fell", "abc", "a", "c-", "c-", "aa"},
		{"spare and c fell", "ab", "a", "--", "--", "aa"},
		{"b is used, a works", "abcs", "b", "ss", "cs", "aa"},
		{"a fell", "bcs", "b", "ss", "cs", "--"},
		{"none of failover's works, the last that fell keeps its flows", "cs", "", "ss", "ss", "--"},
		{"nothing works", "", "", "--", "--", "--"},
		{"spare is wary", "abcS", "a", "c-", "cs", "aa"},
		{"spare and c are wary", "abCS", "a", "--", "cs", "aa"},
		{"a is wary and in use", "Abcs", "a", "ss", "cs", "aa"},
		{"a is wary, b in use", "Abcs", "b", "ss", "cs", "aa"},
		{"all are wary", "ABCS", "a", "ss", "cs", "aa"},
	} {
		long := func(n string) string {
			if n == "s" {
				return "spare"
			}
			return n
		}
		st := state.State{Index: map[string]uint8{"a": 1, "b": 2, "c": 3, "spare": 4}, WANs: map[string]state.WAN{}, Use4: c.use, Use6: c.use}
		for _, n := range c.up {
			wary := n < 'a'
			n |= 0x20
			st.WANs[long(string(n))] = state.WAN{V4: state.Line{Up: true, Wary: wary}, V6: state.Line{Up: n != 'c', Wary: wary}}
		}
		st.ULA = netip.MustParsePrefix("fd57:e1:a::/48")
		h := House(cfg, st)
		for i, want := range []string{c.prefer, c.only, c.never} {
			for j, v6 := range []bool{false, true} {
				w := long(string(want[j]))
				if w == "-" {
					w = ""
				}
				if got := h.By(cfg.Routes[i], v6); got != w {
					t.Errorf("%s: %s, IPv6 %v: %q, want %q", c.name, cfg.Routes[i].Name, v6, got, w)
				}
			}
		}
	}
}
