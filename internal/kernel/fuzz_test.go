package kernel

import (
	"testing"
	"time"
)

// The parsers of what comes from netlink take any bytes without a panic.
func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Add(append(make([]byte, 12), 8, 0, 9, 0, 4, 0, 0, 0))
	f.Add([]byte{16, 0, 4, 0, 2, 0, 0, 0, 8, 0, 5, 0, 1, 2, 3, 4})
	f.Add(append([]byte{10, 0, 24, 0, 3, 0, 0, 0, 134, 0, 0, 0, 0, 0, 0, 0, 25, 3, 0, 0, 0, 0, 0, 60}, make([]byte, 16)...))
	names := map[int]string{1: "lo"}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseLink(b)
		_, _, _ = parseAddr(b, names)
		_, _, _ = parseRoute(b, names)
		_, _ = parseRule(b)
		_, _ = parseResolvers(b)
		_, _ = parseHops(b, names)
		_, _ = parseEntry(b)
		_, _, _, _ = countersOf(b)
		_, _ = lostNeighbour(b, 1)
		_ = comment(b)
		_, _ = element(b, 41, 0)
		_ = expressions(b, map[string]string{"x": "y"}, func(string, []byte) {})
	})
}

// What is read of a ruleset's text is read without a panic, and the names are
// those that the text declares.
func FuzzBlocks(f *testing.F) {
	f.Add("table inet weir {\n chain a { type filter hook input priority 0; }\n set b.c { type ipv4_addr\n }\n}")
	f.Add("} { } { {{ \" } # }")
	f.Fuzz(func(_ *testing.T, s string) { blocks(s) })
}

func TestBlocks(t *testing.T) {
	text := "table inet weir {\n\tcounter forward.web {\n\t}\n\tset own4 { type ipv4_addr; flags interval\n\t\telements = { 10.0.0.0/8 }\n\t}\n\t# chain no { }\n" +
		"\tchain a-b {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tiifname { \"x}\", \"y{\" } accept comment \"a } b\"\n\t}\n\tct helper h { }\n}\n"
	want := []struct{ kind, name, hook string }{
		{"counter", "forward.web", ""}, {"set", "own4", ""}, {"chain", "a-b", "type filter hook input priority 0"}, {"ct helper", "h", ""}}
	got := blocks(text)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		h := ""
		if got[i].kind == "chain" {
			h = hook(got[i].body)
		}
		if got[i].kind != w.kind || got[i].name != w.name || h != w.hook {
			t.Errorf("%+v, want %+v", got[i], w)
		}
	}
}

// TestParseResolvers: only whole options of router advertisements are taken, as the kernel
// passes them on (struct nduseroptmsg, then the option).
func TestParseResolvers(t *testing.T) {
	whole := append([]byte{10, 0, 40, 0, 3, 0, 0, 0, 134, 0, 0, 0, 0, 0, 0, 0, 25, 5, 0, 0, 0, 0, 2, 88}, make([]byte, 32)...)
	whole[24], whole[55] = 0x20, 7
	with := func(at int, b ...byte) []byte {
		out := append([]byte(nil), whole...)
		copy(out[at:], b)
		return out
	}
	for _, tt := range []struct {
		what     string
		b        []byte
		dns      int // addresses; 0: it is none
		lifetime time.Duration
	}{
		{"two addresses", whole, 2, 10 * time.Minute},
		{"and what follows", append(with(0), 20, 0, 1, 0), 2, 10 * time.Minute},
		{"no more", with(20, 0, 0, 0, 0), 2, 0},
		{"without end", with(20, 255, 255, 255, 255), 2, Forever},
		{"a domain search list", with(16, 31), 0, 0},
		{"a redirect's", with(8, 137), 0, 0},
		{"IPv4's", with(0, 2), 0, 0},
		{"longer than it is", with(17, 7), 0, 0},
		{"of no length", with(17, 0), 0, 0},
		{"without an address", with(17, 1), 0, 0},
		{"cut", whole[:50], 0, 0},
		{"nothing", nil, 0, 0},
	} {
		r, ok := parseResolvers(tt.b)
		if len(r.DNS) != tt.dns || ok != (tt.dns > 0) || ok && (r.Lifetime != tt.lifetime || r.Index != 3) {
			t.Errorf("%s: %+v %t", tt.what, r, ok)
		}
	}
}
