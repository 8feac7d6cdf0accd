package kernel

import (
	"fmt"
	"strings"

	"weir/internal/plan"
	"weir/internal/ruleset"
)

// script is the nft text that makes next of what is loaded, in one transaction.
//
// `flush table` drops the rules and leaves named counters, and sets with what
// was learned in them. nft redeclares what is there already without a word,
// except where a chain's hook or a set's type differ: those go first, as does
// what next has no more.
func script(have plan.Table, next ruleset.Table) string {
	var b strings.Builder
	t := "inet " + ruleset.TableName
	switch {
	case next.Text == "":
		fmt.Fprintf(&b, "table %s {\n}\ndelete table %s\n", t, t)
		return b.String()
	case have.Exists && have.Text == "":
		// Nobody knows what is in it.
		fmt.Fprintf(&b, "delete table %s\n", t)
	case have.Exists:
		fmt.Fprintf(&b, "flush table %s\n", t)
		unload(&b, t, blocks(have.Text), blocks(next.Text), have.Touched)
	}
	b.WriteString(strings.TrimRight(next.Text, "\n"))
	b.WriteByte('\n')
	for _, s := range next.Sets {
		addElements(&b, t, s.Name, s.Elements)
	}
	return b.String()
}

// unload writes what has to go before the new text, with all rules flushed.
func unload(b *strings.Builder, table string, old, next []block, touched []plan.Touch) {
	by := map[string]block{}
	for _, n := range next {
		by[n.kind+" "+n.name] = n
	}
	damaged := map[string]bool{} // by hand: not as the old text says
	for _, t := range touched {
		if t.Op == plan.Remove {
			damaged[t.What] = true
		}
	}
	there := func(o block) bool { return !damaged[o.kind+" "+o.name] }
	// A map may lead to chains, so maps are emptied first.
	for _, o := range old {
		if (o.kind == "set" || o.kind == "map") && !o.learns() && there(o) {
			fmt.Fprintf(b, "flush %s %s %s\n", o.kind, table, o.name)
		}
	}
	for _, kinds := range [][]string{{"chain"}, {"set", "map"}, {"counter", "quota", "limit", "flowtable", "synproxy", "ct helper", "ct timeout", "ct expectation"}} {
		for _, o := range old {
			for _, k := range kinds {
				if o.kind != k || !there(o) {
					continue
				}
				n, kept := by[o.kind+" "+o.name]
				if !kept || !o.redeclares(n) || damaged["changed "+o.kind+" "+o.name] {
					fmt.Fprintf(b, "delete %s %s %s\n", o.kind, table, o.name)
				}
			}
		}
	}
	// What somebody else added or changed.
	for _, t := range touched {
		kind, name, ok := strings.Cut(t.What, " ")
		if ok && t.Set == "" && t.Op != plan.Remove && (kind == "chain" || kind == "set" || kind == "map") && !strings.Contains(name, " ") {
			fmt.Fprintf(b, "delete %s %s %s\n", kind, table, name)
		}
	}
}

// elementScript changes elements alone, in one transaction.
func elementScript(changes []plan.SetChange, of ruleset.Table) string {
	maps := map[string]bool{}
	for _, b := range blocks(of.Text) {
		maps[b.name] = maps[b.name] || b.kind == "map"
	}
	var b strings.Builder
	t := "inet " + ruleset.TableName
	for _, c := range changes {
		kind := "set"
		if maps[c.Name] {
			kind = "map"
		}
		if c.Flush {
			fmt.Fprintf(&b, "flush %s %s %s\n", kind, t, c.Name)
		} else if len(c.Delete) > 0 {
			fmt.Fprintf(&b, "delete element %s %s { %s }\n", t, c.Name, strings.Join(c.Delete, ", "))
		}
		addElements(&b, t, c.Name, c.Add)
	}
	return b.String()
}

func addElements(b *strings.Builder, table, set string, elements []string) {
	if len(elements) > 0 {
		fmt.Fprintf(b, "add element %s %s { %s }\n", table, set, strings.Join(elements, ", "))
	}
}

// block is a declaration within a table: "chain through { ... }".
type block struct {
	kind, name string
	body       string
}

// learns says that packets put elements into the set.
func (b block) learns() bool {
	return strings.Contains(b.body, "dynamic") || strings.Contains(b.body, "timeout")
}

// redeclares says that next can be loaded over b.
func (b block) redeclares(next block) bool {
	if b.kind == "chain" {
		return hook(b.body) == hook(next.body)
	}
	return b.body == next.body
}

// hook is what makes a base chain: its type, hook and priority.
func hook(body string) string {
	for line := range strings.Lines(body) {
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.TrimSpace(part); strings.HasPrefix(part, "type ") {
				return strings.Join(strings.Fields(part), " ")
			}
		}
	}
	return ""
}

// blocks reads the declarations in a table's text. It knows no more of nft
// than braces, quotes and comments.
func blocks(text string) []block {
	var out []block
	depth, start, open := 0, 0, 0
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
			if depth <= 1 {
				start = i + 1
			}
		case c == '{':
			depth++
			switch depth {
			case 2:
				open = i
			case 1:
				start = i + 1
			}
		case c == '}':
			depth--
			if depth == 1 {
				head := strings.Fields(text[min(start, open):open])
				if len(head) >= 2 {
					out = append(out, block{kind: strings.Join(head[:len(head)-1], " "), name: head[len(head)-1], body: text[open+1 : i]})
				}
				start = i + 1
			}
		case (c == '\n' || c == ';') && depth == 1:
			start = i + 1
		}
	}
	return out
}
