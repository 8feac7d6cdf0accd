package blocklist

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// parents yields the names above a name, the nearest first.
func parents(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for {
			_, rest, ok := strings.Cut(name, ".")
			if !ok || !yield(rest) {
				return
			}
			name = rest
		}
	}
}

// above tells whether a name above has one of these kinds.
func (n names) above(name string, k kind) bool {
	for p := range parents(name) {
		if n[p]&k != 0 {
			return true
		}
	}
	return false
}

// compile makes rules of which none is to spare: what is let through, by the list
// or by the owner, is not blocked, and what a rule above blocks needs none of its
// own. What is let through stays where a name above is blocked with all below it.
func compile(from names, allow []string) names {
	for _, a := range allow {
		from[a] |= passName | passBelow
	}
	out := names{}
	for name, k := range from {
		passed, blocked := from.above(name, passBelow), from.above(name, blockBelow)
		keep := k
		if passed || k&passName != 0 {
			keep &^= blockName
		}
		if passed || k&passBelow != 0 {
			keep &^= blockBelow
		}
		if blocked && !passed {
			keep &^= blockName | blockBelow
		}
		if !blocked || passed {
			keep &^= passName
			if k&blockBelow == 0 {
				keep &^= passBelow
			}
		}
		if k&passBelow != 0 && k&blockBelow != 0 && !blocked {
			keep &^= passBelow // nothing blocks what is below it
		}
		if keep != 0 {
			out[name] = keep
		}
	}
	out.fill()
	return out
}

// fill has each name between one that is let through and the one above that blocks
// it say so itself: a wildcard does not reach below a name that is there (RFC
// 4592, 2.2.1), and a policy zone is looked into as any zone.
func (n names) fill() {
	for name, k := range maps.Clone(n) {
		if k&(passName|passBelow) == 0 {
			continue
		}
		if k&passName == 0 {
			n[name] |= blockName
		}
		if k&passBelow == 0 {
			n[name] |= blockBelow
		}
		for p := range parents(name) {
			if n[p]&blockBelow != 0 {
				break
			}
			n[p] |= blockName | blockBelow
		}
	}
}

// blocked is how many names are blocked, one with all below it counting once.
func (n names) blocked() (count int) {
	for _, k := range n {
		if k&(blockName|blockBelow) != 0 {
			count++
		}
	}
	return count
}

// sorted are the names in an order that is always the same.
func (n names) sorted() []string {
	out := make([]string, 0, len(n))
	for name := range n {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// writeNames writes a NamesFile.
func (n names) writeNames(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, name := range n.sorted() {
		for _, r := range []struct {
			k    kind
			mark string
		}{{blockName, ""}, {blockBelow, "*."}, {passName, "!"}, {passBelow, "!*."}} {
			if n[name]&r.k != 0 {
				_, _ = b.WriteString(r.mark + name + "\n")
			}
		}
	}
	return b.Flush()
}

// writePolicy writes a PolicyFile: NXDOMAIN for what is blocked, which clients may
// remember for a minute.
func (n names) writePolicy(w io.Writer, serial uint32) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "$TTL 60\n@ SOA localhost. nobody.invalid. %d 3600 1200 604800 60\n@ NS localhost.\n", serial)
	for _, name := range n.sorted() {
		if len(name) > 200 {
			continue // with the zone's own name behind it it would be too long
		}
		for _, r := range []struct {
			k          kind
			mark, does string
		}{{blockName, "", "."}, {blockBelow, "*.", "."}, {passName, "", "rpz-passthru."}, {passBelow, "*.", "rpz-passthru."}} {
			if n[name]&r.k != 0 {
				_, _ = b.WriteString(r.mark + name + " CNAME " + r.does + "\n")
			}
		}
	}
	return b.Flush()
}
