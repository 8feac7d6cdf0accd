package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Reference returns docs/reference.hcl: a file with every block and key of this
// release, each explained, and each optional one at its default. A key whose
// default cannot be written down stands behind a #.
func Reference() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The language of weir %s: every block and key. What is optional stands at its default, so that this\n", Release)
	b.WriteString("# file means the same without it; a default that cannot be written down is told, and the key stands\n" +
		"# behind a #. It is a reference to read, not a house to run. Made from the table in internal/config.\n")
	words := slices.Sorted(maps.Keys(pointing))
	fmt.Fprintf(&b, "# What can be pointed at is called neither %s nor %s: by those words a file points.\n",
		strings.Join(words[:len(words)-1], ", "), words[len(words)-1])
	for _, d := range language.blocks {
		if !d.later {
			b.WriteByte('\n')
			d.write(&b, 0)
		}
	}
	b.WriteString("\n# Later: " + strings.Join(laterNames(language), ", ") + ".\n")
	return Format([]byte(b.String()))
}

// Help returns the part of the reference about a block, by its name; false if
// there is none. A block that comes later says so.
func Help(name string) (string, bool) {
	var b strings.Builder
	for _, d := range find(language, name, nil) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if d.later {
			fmt.Fprintf(&b, "# %s is in the language, but weir %s can't do it yet.\n", d.name, Release)
		} else {
			d.write(&b, 0)
		}
	}
	return string(Format([]byte(b.String()))), b.Len() > 0
}

// Topics are the blocks that Help knows, in the order of the reference.
func Topics() []string {
	var names []string
	var walk func(*block)
	walk = func(d *block) {
		for _, s := range d.blocks {
			if !s.later && !slices.Contains(names, s.name) {
				names = append(names, s.name)
			}
			walk(s)
		}
	}
	walk(language)
	return names
}

// find returns the blocks of that name, those of this release only if there are any.
func find(in *block, name string, found []*block) []*block {
	for _, d := range in.blocks {
		if d.name == name && !slices.Contains(found, d) {
			found = append(found, d)
		}
		found = find(d, name, found)
	}
	if now := slices.DeleteFunc(slices.Clone(found), func(d *block) bool { return d.later }); len(now) > 0 {
		return now
	}
	return found[:min(len(found), 1)]
}

// laterNames are the keys and blocks that a block will have.
func laterNames(d *block) []string {
	var names []string
	for _, k := range d.keys {
		if k.later {
			names = append(names, k.name)
		}
	}
	for _, s := range d.blocks {
		if s.later {
			names = append(names, s.name+" { }")
		}
	}
	return names
}

// write explains a block with all that is in it.
func (d *block) write(b *strings.Builder, depth int) {
	in := strings.Repeat("  ", depth)
	doc := d.doc
	if d.like != "" {
		doc += " Its keys are those of " + d.like + "."
	}
	comment(b, in, doc)
	head := d.name
	if d.label != labelNone {
		head = fmt.Sprintf("%s %q", d.name, d.example)
	}
	fmt.Fprintf(b, "%s%s {\n", in, head)
	blank := false
	gap := func() {
		if blank {
			b.WriteByte('\n')
		}
		blank = true
	}
	for _, k := range d.keys {
		switch {
		case k.later:
		case d.like != "":
			k.line(b, in+"  ")
		default:
			gap()
			k.write(b, in+"  ")
		}
	}
	for _, s := range d.blocks {
		if !s.later {
			gap()
			s.write(b, depth+1)
		}
	}
	if names := laterNames(d); len(names) > 0 && d.like == "" {
		gap()
		comment(b, in+"  ", "Later: "+strings.Join(names, ", ")+".")
	}
	fmt.Fprintf(b, "%s}\n", in)
}

// write explains a key: what it is, what it takes, what leaving it out means.
func (k *key) write(b *strings.Builder, in string) {
	takes := typeWords[k.typ].name
	switch {
	case k.typ == typeWord:
		takes = quotedWords(k, " or ")
		var later []string
		for _, w := range k.words {
			if w.later {
				later = append(later, strconv.Quote(w.text))
			}
		}
		if later != nil {
			takes += " (later: " + strings.Join(later, ", ") + ")"
		}
	case k.typ == typePlace:
		takes = "place (" + takesPlaces(k) + ")"
	case k.typ == typeInt:
		takes = fmt.Sprintf("number, %d to %d", k.min, k.max)
		if k.unit != "" {
			takes += " (" + k.unit + ")"
		}
	case k.typ == typeDuration:
		takes = fmt.Sprintf("time, %s to %s", durationText(k.min), durationText(k.max))
	case k.typ == typeText && k.max > 0:
		takes = fmt.Sprintf("text, %d to %d bytes", k.min, k.max)
	case k.typ == typeProtocol && k.words != nil:
		takes = `"tcp" or "udp"`
	case k.typ == typeProtocol:
		takes = `"tcp", "udp", "icmp" or a number`
	case k.typ == typePort:
		takes = "port, or a range in quotes"
	case k.typ == typeRef:
		takes = "name: " + takesPlaces(k)
	case k.typ == typeServer:
		takes += " in quotes, or a line's own: " + takesPlaces(k)
	}
	takes = sentence(takes)
	if k.list {
		takes += "; one or a list"
		if k.empty {
			takes += ", [] is none"
		}
	}
	unsaid := "Required."
	if !k.required {
		unsaid = fmt.Sprintf("Unsaid: %s.", k.meaning())
		if strings.HasPrefix(k.def, "[") {
			unsaid = "Unsaid: these."
		}
	}
	source := ""
	if k.source != "" {
		source = fmt.Sprintf(" Source: %s.", k.source)
	}
	comment(b, in, k.doc)
	comment(b, in, fmt.Sprintf("%s. %s%s", takes, unsaid, source))
	if k.typ == typeOptions && k.unsaid != "the LAN's" { // said once
		comment(b, in, "Names: "+strings.Join(slices.Sorted(maps.Keys(optionNames)), ", ")+".")
	}
	k.line(b, in)
}

// line is the key itself, at its default if that can be written.
func (k *key) line(b *strings.Builder, in string) {
	switch {
	case k.def != "":
		fmt.Fprintf(b, "%s%s = %s\n", in, k.name, k.def)
	case k.required || k.shown:
		fmt.Fprintf(b, "%s%s = %s\n", in, k.name, k.example)
	default:
		fmt.Fprintf(b, "%s# %s = %s\n", in, k.name, k.example)
	}
}

// comment writes text behind #, in lines of up to 100 bytes.
func comment(b *strings.Builder, in, text string) {
	line := in + "#"
	for w := range strings.FieldsSeq(text) {
		if len(line)+1+len(w) > 100 && line != in+"#" {
			b.WriteString(line + "\n")
			line = in + "#"
		}
		line += " " + w
	}
	b.WriteString(line + "\n")
}
