package kernel

import "testing"

// The parsers of what comes from netlink take any bytes without a panic.
func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Add(append(make([]byte, 12), 8, 0, 9, 0, 4, 0, 0, 0))
	f.Add([]byte{16, 0, 4, 0, 2, 0, 0, 0, 8, 0, 5, 0, 1, 2, 3, 4})
	names := map[int]string{1: "lo"}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parseLink(b)
		_, _, _ = parseAddr(b, names)
		_, _, _ = parseRoute(b, names)
		_, _ = parseRule(b)
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
