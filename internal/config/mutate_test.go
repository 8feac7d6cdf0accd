package config

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// sound checks what holds for any text: a Config or errors, each in its place,
// and a Config that keeps what its types promise.
func sound(t testing.TB, files ...File) (*Config, Diagnostics) {
	t.Helper()
	cfg, diags := Parse(files...)
	if (cfg == nil) != diags.HasErrors() {
		t.Errorf("Config is nil: %v, but errors: %v\n%s", cfg == nil, diags.HasErrors(), diags.Format(files))
	}
	for i, d := range diags {
		f := slices.IndexFunc(files, func(f File) bool { return f.Name == d.File })
		if f < 0 || d.Summary == "" || strings.ContainsAny(d.Summary+d.Detail, "\n\x1b") {
			t.Errorf("diagnostic %d: %+v", i, d)
			continue
		}
		lines := bytes.Count(files[f].Src, []byte("\n")) + 1
		if d.Line > 0 && (d.Line > lines || d.EndLine > lines || d.EndLine < d.Line || d.Column < 1 || d.EndLine == d.Line && d.EndColumn < d.Column) {
			t.Errorf("diagnostic %d is outside of its %d lines: %+v", i, lines, d)
		}
		if i > 0 && diags[i-1].File == d.File && diags[i-1].Line > d.Line {
			t.Errorf("diagnostic %d (line %d) stands after line %d", i, d.Line, diags[i-1].Line)
		}
	}
	diags.Format(files)
	if cfg != nil {
		promises(t, cfg)
	}
	return cfg, diags
}

// promises checks what users of a Config rely on.
func promises(t testing.TB, c *Config) {
	t.Helper()
	must := func(ok bool, format string, args ...any) {
		if !ok {
			t.Helper()
			t.Errorf(format, args...)
		}
	}
	must(len(c.LANs) > 0, "no LAN")
	must(c.Gateway.Name != "" && c.Gateway.Domain != "", "gateway %+v", c.Gateway)
	must(c.Gateway.Cable4.IsValid() && c.Gateway.Cable4.Addr().Is4() && 1<<(32-c.Gateway.Cable4.Bits()) >= 2*len(c.WANs), "cables in %v", c.Gateway.Cable4)
	must(len(c.Failover.Probe.Target4) > 0 && len(c.Failover.Probe.Target6) > 0 && c.Failover.Probe.Every > 0, "probe %+v", c.Failover.Probe)
	for _, w := range c.Failover.Prefer {
		must(c.WAN(w) != nil, "prefer has %q", w)
	}
	for _, w := range c.WANs {
		must(len(w.Probe.Target4) > 0 && len(w.Probe.Target6) > 0 && w.Probe.Every > 0, "wan %s: probe %+v", w.Name, w.Probe)
		for _, p := range append(slices.Clone(w.Probe.Target4), w.Probe.Target6...) {
			must(p.Addr.IsValid() && (p.Port != 0) == (p.Ask != AskEcho) && (p.Name == "" || p.Ask == AskDNS), "target %+v", p)
		}
		must(w.Name != "" && len(w.Name) <= 15 && w.Interface != "" && w.IPv4.Method != "" && w.IPv6.Method != "" && w.IPv4.Translate != "", "wan %+v", w)
		must(w.IPv4.Method != MethodStatic || len(w.IPv4.Address) > 0 && w.IPv4.Gateway.Is4(), "static wan %+v", w)
		must(w.IPv6.Method != MethodStatic || len(w.IPv6.Address) > 0 && w.IPv6.Gateway.Is6(), "static wan %+v", w)
	}
	var addrs []netip.Addr
	var macs []string
	for _, l := range c.LANs {
		must(l.Name != "" && len(l.Interface) > 0 && (l.Address4.IsValid() || len(l.Address6) > 0), "lan %+v", l)
		must(!l.DHCP.Enabled || l.Address4.IsValid(), "DHCP without IPv4: %+v", l)
		for _, r := range l.DHCP.Pool {
			must(l.Address4.Contains(r.From) && l.Address4.Contains(r.To) && !r.To.Less(r.From), "pool %v of %v", r, l.Address4)
			must(l.Address4.Addr().Less(r.From) || r.To.Less(l.Address4.Addr()), "pool %v holds the gateway", r)
		}
		for _, h := range l.Hosts {
			must(len(h.MAC)+len(h.Address)+len(h.Token) > 0 && h.DNSName != "" && h.LAN == l.Name, "host %+v", h)
			addrs = append(addrs, h.Address...)
			macs = append(macs, h.MAC...)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	slices.Sort(macs)
	must(len(slices.Compact(slices.Clone(addrs))) == len(addrs), "an address twice: %v", addrs)
	must(len(slices.Compact(slices.Clone(macs))) == len(macs), "a MAC twice: %v", macs)
	for _, r := range c.Rules {
		must(len(r.From)+len(r.To) > 0 && (len(r.Port) == 0 || len(r.Protocol) > 0), "rule %+v", r)
	}
	for _, r := range c.Routes {
		must(r.Way != "" && len(r.WANs) > 0 && (len(r.Port) == 0 || len(r.Protocol) > 0), "route %+v", r)
		for _, w := range r.WANs {
			must(c.WAN(w) != nil, "route by %q", w)
		}
		for _, p := range c.Expand(r.From) {
			must(p.Ref.Kind != KindWAN, "route from %v", p)
		}
		for _, p := range c.Expand(r.To) {
			must(!p.IsRef() || p == Place{Ref: Ref{Kind: KindWAN}}, "route to %v", p)
		}
	}
	for _, f := range c.Forwards {
		must(len(f.Port) > 0 && len(f.Port) == len(f.ToPort) && len(f.Protocol) > 0, "forward %+v", f)
		must((f.To4.IsValid() || f.To6.IsValid() || f.Token6.IsValid()) && c.LAN(f.LAN) != nil, "forward %+v leads nowhere", f)
		for i := range f.Port {
			must(f.Port[i].To-f.Port[i].From == f.ToPort[i].To-f.ToPort[i].From, "forward %+v", f)
		}
		for _, w := range f.On {
			must(c.WAN(w) != nil, "forward on %q", w)
		}
		for _, p := range c.Expand(f.From) {
			must(!p.IsRef(), "forward from %v", p)
		}
	}
}

// mutant is a valid file changed in one place.
type mutant struct {
	what  string
	src   string
	from  int    // its lines
	to    int    //
	block [2]int // lines of the block of the file that holds it
	word  string // what was touched: messages elsewhere have to name it
	exact bool   // the message has to stand in its lines
	fails bool   // it can't be valid
}

// mutants makes all of them: each key, block, label and value dropped, doubled,
// swapped with the next, misspelled.
func mutants(t *testing.T, src string) []mutant {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var ms []mutant
	var top [2]int
	cut := func(r hcl.Range, with string) string { return src[:r.Start.Byte] + with + src[r.End.Byte:] }
	text := func(r hcl.Range) string { return src[r.Start.Byte:r.End.Byte] }
	add := func(m mutant, r hcl.Range) {
		m.from, m.to, m.block = r.Start.Line, r.End.Line, top
		if m.word == "" {
			m.word = text(r)
		}
		ms = append(ms, m)
	}
	value := func(key string, r hcl.Range, inList bool) {
		add(mutant{what: "no value of " + key, src: cut(r, ""), fails: !inList}, r)
		add(mutant{what: "value of another kind for " + key, src: cut(r, "{}"), fails: key != "option"}, r)
		add(mutant{what: "null for " + key, src: cut(r, "null"), exact: true, fails: true}, r)
		add(mutant{what: "a call for " + key, src: cut(r, `f("x")`), exact: true, fails: true}, r)
		for _, bad := range misspell(text(r)) {
			add(mutant{what: "value of " + key, src: cut(r, bad)}, r)
		}
	}
	var walk func(b *hclsyntax.Body)
	walk = func(b *hclsyntax.Body) {
		var attrs []*hclsyntax.Attribute
		for _, a := range b.Attributes {
			attrs = append(attrs, a)
		}
		slices.SortFunc(attrs, func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte })
		for i, a := range attrs {
			add(mutant{what: "drop " + a.Name, src: cut(a.SrcRange, "")}, a.SrcRange)
			if body := b.SrcRange; body.Start.Line != body.End.Line {
				add(mutant{what: "double " + a.Name, src: cut(a.SrcRange, text(a.SrcRange)+"\n"+text(a.SrcRange)), fails: true}, a.SrcRange)
			}
			for _, bad := range misspell(a.Name) {
				add(mutant{what: "key " + a.Name, src: cut(a.NameRange, bad), exact: true, fails: true}, a.NameRange)
			}
			r := a.Expr.Range()
			value(a.Name, r, false)
			if l, ok := a.Expr.(*hclsyntax.TupleConsExpr); ok {
				for _, e := range l.Exprs {
					value(a.Name, e.Range(), true)
				}
			}
			if i+1 < len(attrs) {
				n := attrs[i+1]
				nr := n.Expr.Range()
				add(mutant{what: "swap the values of " + a.Name + " and " + n.Name,
					src: src[:r.Start.Byte] + text(nr) + src[r.End.Byte:nr.Start.Byte] + text(r) + src[nr.End.Byte:]}, hcl.RangeBetween(r, nr))
				add(mutant{what: "swap " + a.Name + " and " + n.Name,
					src: src[:a.SrcRange.Start.Byte] + text(n.SrcRange) + src[a.SrcRange.End.Byte:n.SrcRange.Start.Byte] + text(a.SrcRange) + src[n.SrcRange.End.Byte:]}, hcl.RangeBetween(a.SrcRange, n.SrcRange))
			}
		}
		for _, s := range b.Blocks {
			if b == f.Body {
				top = [2]int{s.Range().Start.Line, s.CloseBraceRange.End.Line}
			}
			whole := hcl.RangeBetween(s.TypeRange, s.CloseBraceRange)
			word := s.Type
			if len(s.Labels) > 0 {
				word = s.Labels[0]
			}
			inside := word // and the names of all in it
			for _, h := range s.Body.Blocks {
				inside += " " + strings.Join(h.Labels, " ")
			}
			add(mutant{what: "drop block " + s.Type, src: cut(whole, ""), word: inside}, whole)
			add(mutant{what: "double block " + s.Type, src: cut(whole, text(whole)+"\n"+text(whole)), word: inside, fails: true}, whole)
			for _, bad := range misspell(s.Type) {
				add(mutant{what: "block " + s.Type, src: cut(s.TypeRange, bad)}, s.TypeRange)
			}
			for i, r := range s.LabelRanges {
				add(mutant{what: "no label of " + s.Type, src: cut(r, ""), word: word}, r)
				for _, bad := range misspell(s.Labels[i]) {
					add(mutant{what: "label of " + s.Type, src: cut(r, `"`+bad+`"`), word: word}, r)
				}
			}
			walk(s.Body)
		}
	}
	walk(f.Body.(*hclsyntax.Body))
	return ms
}

// misspell makes slips of a word, one at each letter: dropped, changed, doubled,
// made a capital and swapped with the one before, in turn; and the last dropped.
func misspell(s string) []string {
	var bad []string
	for i := range len(s) {
		next := byte('x')
		switch c := s[i]; {
		case '0' <= c && c <= '8', 'a' <= c && c < 'z':
			next = c + 1
		case c == '9':
			next = '0'
		}
		switch i % 5 {
		case 0:
			bad = append(bad, s[:i]+s[i+1:])
		case 1:
			bad = append(bad, s[:i]+string(next)+s[i+1:])
		case 2:
			bad = append(bad, s[:i+1]+s[i:])
		case 3:
			bad = append(bad, s[:i]+strings.ToUpper(s[i:i+1])+s[i+1:])
		case 4:
			bad = append(bad, s[:i-1]+s[i:i+1]+s[i-1:i]+s[i+1:])
		}
	}
	if len(s) > 0 {
		bad = append(bad, s[:len(s)-1])
	}
	return slices.DeleteFunc(bad, func(b string) bool { return b == s })
}

// told tells whether one of the messages leads to the change.
func (m mutant) told(diags Diagnostics) bool {
	lines := strings.Split(m.src, "\n")
	words := regexp.MustCompile(`[A-Za-z0-9.:_-]+`).FindAllString(m.word, -1)
	return slices.ContainsFunc(diags, func(d Diagnostic) bool {
		if d.Severity != SeverityError {
			return false
		}
		if m.from <= d.Line && d.Line <= m.to || m.from <= d.EndLine && d.EndLine <= m.to {
			return true
		}
		if m.exact {
			return false
		}
		if m.block[0] <= d.Line && d.Line <= m.block[1] || d.Line == 0 {
			return true // the block that does without it
		}
		for l := m.from; l <= m.to; l++ {
			if regexp.MustCompile(fmt.Sprintf(`\bline %d\b`, l)).MatchString(strings.ToLower(d.Detail)) {
				return true
			}
		}
		for _, w := range words {
			if d.Line <= len(lines) && strings.Contains(d.Summary+lines[d.Line-1], w) {
				return true // who points at it
			}
		}
		return false
	})
}

func validFiles(t testing.TB) []File {
	paths, _ := filepath.Glob("../../examples/*.hcl")
	var fs []File
	for _, p := range append(paths, "testdata/whole.hcl", referencePath) {
		fs = append(fs, read(t, p))
	}
	return fs
}

// TestMutants: each mutant is valid by the language, or a message leads to it.
// With -short, which is for processors that are emulated or watched, it makes one
// in twenty-three: all kinds, not everywhere.
func TestMutants(t *testing.T) {
	for _, f := range validFiles(t) {
		if f.Name == filepath.Base(referencePath) {
			continue // whole.hcl has the same keys, and says all of them
		}
		t.Run(f.Name, func(t *testing.T) {
			made, refused := 0, 0
			for i, m := range mutants(t, string(f.Src)) {
				if testing.Short() && i%23 != 0 {
					continue
				}
				files := []File{{Name: f.Name, Src: []byte(m.src)}}
				cfg, diags := sound(t, files...)
				made++
				if cfg != nil {
					if m.fails {
						t.Errorf("%s, line %d (%q): was taken", m.what, m.from, m.word)
					}
					continue
				}
				refused++
				if !m.told(diags) {
					t.Errorf("%s, line %d (%q): no message leads there:\n%s", m.what, m.from, m.word, diags.Format(files))
				}
				if t.Failed() {
					t.FailNow()
				}
			}
			t.Logf("%d mutants, %d refused", made, refused)
			if refused < made/3 {
				t.Errorf("only %d of %d mutants were refused", refused, made)
			}
		})
	}
}

// TestCuts: the text cut at every byte; one byte less, and one too many, at every
// place of the small file and at some of the others. With -short, at one in seven.
func TestCuts(t *testing.T) {
	for _, f := range validFiles(t) {
		if len(f.Src) > 1500 {
			continue
		}
		for i := range f.Src {
			if testing.Short() && i%7 != 0 {
				continue
			}
			srcs := [][]byte{
				f.Src[:i],
				f.Src[i:],
				slices.Concat(f.Src[:i], f.Src[i+1:]),
				slices.Concat(f.Src[:i], []byte(`"`), f.Src[i:]),
				slices.Concat(f.Src[:i], []byte("}\n"), f.Src[i:]),
				slices.Concat(f.Src[:i], []byte{0xff}, f.Src[i:]),
			}
			if len(f.Src) > 500 && i%5 != 0 {
				srcs = srcs[:1]
			}
			for _, src := range srcs {
				sound(t, File{Name: f.Name, Src: src})
				if t.Failed() {
					t.Fatalf("%s, byte %d:\n%s", f.Name, i, src)
				}
			}
		}
	}
}

// FuzzParse: any text, and what the formatter makes of it.
func FuzzParse(f *testing.F) {
	for _, v := range validFiles(f) {
		f.Add(v.Src)
	}
	f.Add([]byte("\xff" + strings.Repeat("\b", 3000) + strings.Repeat("b\\", 300))) // no text at all: not thousands of messages
	for _, s := range []string{"", "\xef\xbb\xbfwan \"a\" {}", "a {", "a = <<X\n", "wan \"a\" { x : 1 }", "wan \"a\" { vlan = 1e99999999 }\n", "lan \"a\" { b = [wan.*, -1e999999999, null] }"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		sound(t, File{Name: "fuzz.hcl", Src: src})
		if !t.Failed() {
			formatKeeps(t, src)
		}
	})
}
