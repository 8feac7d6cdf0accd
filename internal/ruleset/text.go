package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// table gathers what a Table is made of and writes it in one form, so that
// equal rules are equal text.
type table struct {
	declared []string // sets and maps, in the order of use
	sets     []Set
	counters []string
	chains   []*chain
}

// chain is a chain of a table. An empty hook is a chain that is jumped to.
type chain struct {
	name, hook string
	rules      []string
}

func (t *table) chain(name, hook string) *chain {
	c := &chain{name: name, hook: hook}
	t.chains = append(t.chains, c)
	return c
}

// set declares a named set or map whose elements come from state. kind is
// what stands between its braces.
func (t *table) set(name, keyword, kind string, elements []string) {
	t.declared = append(t.declared, fmt.Sprintf("\t%s %s {\n\t\t%s\n\t}\n", keyword, name, kind))
	elements = slices.Clone(elements)
	slices.Sort(elements)
	t.sets = append(t.sets, Set{Name: name, Elements: slices.Compact(elements)})
}

// counter declares a named counter and returns the statement that counts on it.
func (t *table) counter(name string) string {
	if !slices.Contains(t.counters, name) {
		t.counters = append(t.counters, name)
	}
	return fmt.Sprintf("counter name %q", name)
}

// add appends a rule made of the parts that are not empty. name becomes its
// comment: a plan finds it by that, and no two rules of a table share one.
func (c *chain) add(name string, parts ...string) {
	parts = slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return s == "" })
	c.rules = append(c.rules, fmt.Sprintf("%s comment %q", strings.Join(parts, " "), name))
}

// table writes it. Nothing is on one line with a closing brace, which nft does
// not take after a statement.
func (t *table) table() Table {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", TableName)
	for _, name := range t.counters {
		fmt.Fprintf(&b, "\tcounter %s {\n\t}\n", name)
	}
	for _, d := range t.declared {
		b.WriteString(d)
	}
	for _, c := range t.chains {
		fmt.Fprintf(&b, "\tchain %s {\n", c.name)
		if c.hook != "" {
			fmt.Fprintf(&b, "\t\ttype %s;\n", c.hook)
		}
		for _, r := range c.rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	slices.SortFunc(t.sets, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	return Table{Text: b.String(), Sets: t.sets}
}

// anyOf writes words as one value, or as an anonymous set of several. It is
// empty for none: ask first.
func anyOf(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return "{ " + strings.Join(words, ", ") + " }"
}

// oneOf matches key against words; "" if there are none.
func oneOf(key string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	return key + " " + anyOf(words)
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return out
}

// family is one of the two IP families, with nft's words for it.
type family struct {
	word    string // "ip", "ip6"
	digit   string // suffix of our sets
	typ     string // set type
	nfproto string
	// everything is the prefix of all addresses.
	everything string
}

var (
	v4 = family{"ip", "4", "ipv4_addr", "meta nfproto ipv4", "0.0.0.0/0"}
	v6 = family{"ip6", "6", "ipv6_addr", "meta nfproto ipv6", "::/0"}
)

func families() [2]family { return [2]family{v4, v6} }

func (f family) holds(a netip.Addr) bool { return a.IsValid() && a.Is4() == (f.digit == "4") }

// of returns the prefixes of the family as text, a whole address without length.
func (f family) of(prefixes []netip.Prefix) []string {
	var out []string
	for _, p := range prefixes {
		if f.holds(p.Addr()) {
			out = append(out, prefixText(p))
		}
	}
	return out
}

func prefixText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.Masked().String()
}
