package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// File is one of the files that are read as one: its name, for messages, and
// its text.
type File struct {
	Name string
	Src  []byte
	Dir  string // absolute: what paths in it begin at; "": it was in no folder
}

// Parse reads files as one and checks all of it. It returns every mistake and
// every note, in file order; the Config is nil if there is a mistake. It does
// no I/O, and no text makes it panic.
func Parse(files ...File) (*Config, Diagnostics) {
	c := &checker{files: files, names: make(map[Kind]*names)}
	var parts []part
	for _, f := range files {
		parts = append(parts, c.syntax(f)...)
	}
	c.collectNames(parts)
	root := &node{def: language, attrs: map[string]*attr{}}
	for _, p := range parts {
		if c.broken = p.broken; !c.broken {
			c.body(root, p.body)
			continue
		}
		c.body(&node{def: language, attrs: map[string]*attr{}}, p.body)
	}
	c.broken = false
	var cfg *Config
	if !c.full {
		cfg = c.build(root)
	}
	c.diags.sort(files)
	c.diags = slices.Compact(c.diags)
	if c.diags.HasErrors() {
		return nil, c.diags.first(mostMistakes)
	}
	return cfg, c.diags
}

// Syntax returns the mistakes that keep f from being read as blocks and keys at all.
func Syntax(f File) Diagnostics {
	c := &checker{files: []File{f}}
	c.syntax(f)
	c.diags.sort(c.files)
	return c.diags
}

// Bounds far beyond any house, so that no file takes long to read: many checks
// compare each with each.
const (
	mostBlocks   = 4096  // of a type, in all files
	mostHosts    = 65536 // they are looked up instead
	mostValues   = 4096  // of a list
	mostMistakes = 1000  // that are told
)

// checker carries what the steps of Parse share.
type checker struct {
	files []File
	diags Diagnostics
	names map[Kind]*names
	lost  []lost

	// broken says that what is being checked could not be read to its end: nothing is
	// said about what is missing in it.
	broken bool

	// Of the parts that could not be read: what blocks of the file may be in them, ""
	// being any, and all words, which may be names.
	unread      map[string]bool
	unreadWords map[string]bool

	blocks map[*block]int // how many there are
	full   bool           // more than can be: what is there is not compared
}

// whole is where a message about the files as such points.
func (c *checker) whole() hcl.Range {
	if len(c.files) == 0 {
		return hcl.Range{}
	}
	return hcl.Range{Filename: c.files[0].Name}
}

// names are the labels of a kind, where they stand.
type names struct {
	at    map[string]hcl.Range
	order []string
}

// node is a block of the file with its values checked.
type node struct {
	def    *block
	syntax *hclsyntax.Block // nil: the root, or a block that the file left out
	label  string
	attrs  map[string]*attr
	blocks []*node // in file order
}

// attr is a key of the file with its values checked.
type attr struct {
	def   *key
	name  hcl.Range
	value hcl.Range
	items []item
	bad   bool // something in it was reported: judge nothing by what is missing
}

// item is a value, or one of a list, and where it stands.
type item struct {
	val any
	at  hcl.Range
}

// at is where a message about the block as a whole points.
func (n *node) at() hcl.Range {
	if n.syntax == nil {
		return hcl.Range{}
	}
	if len(n.syntax.LabelRanges) > 0 {
		return n.syntax.LabelRanges[0]
	}
	return n.syntax.TypeRange
}

func (n *node) pos() Pos {
	at := n.at()
	if n.syntax != nil {
		at = n.syntax.TypeRange
	}
	return Pos{File: at.Filename, Line: at.Start.Line, Col: at.Start.Column}
}

// called is the block in the words of a message: `lan "home"`.
func (n *node) called() string {
	if n.label != "" {
		return fmt.Sprintf("%s %q", n.def.name, n.label)
	}
	return n.def.name
}

// child returns the only block of that type in n; where the file has none, an
// empty one, so that its defaults can be asked for.
func (n *node) child(name string) *node {
	for _, b := range n.blocks {
		if b.def.name == name {
			return b
		}
	}
	return &node{def: n.def.block(name)}
}

// all returns the blocks of that type in n.
func (n *node) all(name string) []*node {
	var of []*node
	for _, b := range n.blocks {
		if b.def.name == name {
			of = append(of, b)
		}
	}
	return of
}

// said returns the attribute if the file has it.
func (n *node) said(key string) *attr { return n.attrs[key] }

// bad tells whether a value of the key was reported.
func (n *node) bad(key string) bool {
	a := n.attrs[key]
	return a != nil && a.bad
}

// items returns the values of a key: the file's, or the default's.
func (n *node) items(name string) []item {
	if a := n.attrs[name]; a != nil {
		return a.items
	}
	k := n.def.key(name)
	if k.def == "" {
		return nil
	}
	e, diags := hclsyntax.ParseExpression([]byte(k.def), "default", hcl.InitialPos)
	if diags.HasErrors() {
		return nil
	}
	return new(checker).value(k, e).items
}

// list returns the values of a key.
func list[T any](n *node, name string) []T {
	var vs []T
	for _, it := range n.items(name) {
		if v, ok := it.val.(T); ok {
			vs = append(vs, v)
		}
	}
	return vs
}

// one returns the value of a key, or the zero value where there is none.
func one[T any](n *node, name string) T {
	var zero T
	if vs := list[T](n, name); len(vs) > 0 {
		return vs[0]
	}
	return zero
}

// collectNames is the first pass: who can be pointed at. A name that two have
// is reported here.
func (c *checker) collectNames(parts []part) {
	for _, k := range anywhere {
		c.names[k] = &names{at: make(map[string]hcl.Range)}
	}
	var collect func(def *block, b *hclsyntax.Body)
	collect = func(def *block, b *hclsyntax.Body) {
		for _, s := range b.Blocks {
			d := def.block(s.Type)
			if d == nil { // a slip in the type is told once, not at each that points here
				d = def.block(Nearest(s.Type, blockNames(def.blocks)))
			}
			if d == nil || d.later {
				continue
			}
			if d.kind != "" && len(s.Labels) > 0 {
				c.addName(d, s.Labels[0], s.LabelRanges[0])
			}
			collect(d, s.Body)
		}
	}
	for _, p := range parts {
		collect(language, p.body)
	}
}

func (c *checker) addName(d *block, label string, at hcl.Range) {
	ns := c.names[d.kind]
	if first, ok := ns.at[label]; ok {
		c.err(at, fmt.Sprintf("The other is in %s.", line(first, at)), "two of kind %s are called %q", d.kind, label)
		return
	}
	ns.at[label] = at
	ns.order = append(ns.order, label)
}

// kindWords is what a person calls one of a kind.
var kindWords = map[Kind]string{KindWAN: "WAN", KindLAN: "LAN", KindHost: "host", KindGroup: "group", KindSelf: "gateway"}

// noSuchName reports a reference to nobody.
func (c *checker) noSuchName(k Kind, name string, at hcl.Range) {
	if c.unreadWords[name] {
		return // it may be the name of one that could not be read
	}
	ns := c.names[k]
	detail := ""
	if near := Nearest(name, ns.order); near != "" {
		detail = fmt.Sprintf("Did you mean %s.%s? ", k, near)
	} else {
		for _, other := range anywhere {
			if _, ok := c.names[other].at[name]; ok {
				detail = fmt.Sprintf("Did you mean %s.%s? ", other, name)
			}
		}
	}
	const most = 8
	var here []string
	for _, n := range ns.order[:min(len(ns.order), most)] {
		here = append(here, fmt.Sprintf("%s (%s)", n, line(ns.at[n], at)))
	}
	if more := len(ns.order) - most; more > 0 {
		here = append(here, fmt.Sprintf("and %d more", more))
	}
	word := kindWords[k]
	switch {
	case c.unread != nil && detail != "": // others may be in what could not be read
		detail = strings.TrimSpace(detail)
	case c.unread != nil:
		detail = fmt.Sprintf("It would be a block: %s %q { ... }", k, name)
	case len(here) == 0 && k == KindHost:
		detail += fmt.Sprintf("The file has no host yet. In its LAN: host %q { ... }", name)
	case len(here) == 0:
		detail += fmt.Sprintf("The file has no %s yet: %s %q { ... }", word, k, name)
	default:
		detail += fmt.Sprintf("%ss here: %s.", sentence(word), strings.Join(here, ", "))
	}
	c.err(at, detail, "there is no %s %q", word, name)
}
