package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// body checks the keys and blocks of b, which is n's, and hangs them into n.
func (c *checker) body(n *node, b *hclsyntax.Body) {
	for _, a := range b.Attributes {
		k := n.def.key(a.Name)
		switch {
		case k == nil:
			if meant := c.unknownKey(n, a); meant != nil && n.attrs[meant.name] == nil {
				n.attrs[meant.name] = &attr{def: meant, name: a.NameRange, value: a.Expr.Range(), bad: true}
			}
		case k.later:
			c.later(a.NameRange, a.Name)
		default:
			v := c.value(k, a.Expr)
			v.name, v.value = a.NameRange, a.Expr.Range()
			n.attrs[k.name] = v
		}
	}
	for _, s := range b.Blocks {
		if c.full {
			break
		}
		d := n.def.block(s.Type)
		switch {
		case d == nil:
			if meant := c.unknownBlock(n, s); meant != nil && !meant.later {
				c.block(n, meant, s)
				continue
			}
			c.secrets(nil, s.Body)
		case d.later:
			c.later(s.TypeRange, s.Type)
			c.secrets(d, s.Body)
		default:
			c.block(n, d, s)
		}
	}
	if n.def == language {
		return
	}
	c.takeLost(n)
	for _, k := range n.def.keys {
		if k.required && n.attrs[k.name] == nil && !c.broken {
			c.err(n.syntax.DefRange(), fmt.Sprintf("%s Say it: %s = %s", k.doc, k.name, k.example), "%s has no %s", n.called(), k.name)
		}
	}
}

// takeLost marks the keys of n that mending took out: something was told about
// them, so nothing is to be said about their being missing.
func (c *checker) takeLost(n *node) {
	within := func(at hcl.Range, s *hclsyntax.Block) bool {
		return at.Filename == s.TypeRange.Filename && s.OpenBraceRange.End.Byte <= at.Start.Byte && at.End.Byte <= s.CloseBraceRange.Start.Byte
	}
	for _, l := range c.lost {
		if !within(l.at, n.syntax) || slices.ContainsFunc(n.syntax.Body.Blocks, func(s *hclsyntax.Block) bool { return within(l.at, s) }) {
			continue
		}
		if k := n.def.key(l.key); k != nil && !k.later && n.attrs[l.key] == nil {
			n.attrs[l.key] = &attr{def: k, name: n.at(), value: n.at(), bad: true}
		}
	}
}

// block checks a block that the language has there.
func (c *checker) block(parent *node, d *block, s *hclsyntax.Block) {
	most := mostBlocks
	if d.kind == KindHost {
		most = mostHosts
	}
	if c.blocks == nil {
		c.blocks = map[*block]int{}
	}
	if c.blocks[d]++; c.blocks[d] > most {
		if !c.full {
			c.err(s.TypeRange, "What follows is not read.", "there are more than %d %s blocks", most, d.name)
		}
		c.full = true
		return
	}
	n := &node{def: d, syntax: s, attrs: make(map[string]*attr)}
	c.label(n)
	if d.once {
		if i := slices.IndexFunc(parent.blocks, func(o *node) bool { return o.def == d }); i >= 0 {
			where := "in a house"
			if parent.def != language {
				where = "in " + parent.called()
			}
			c.err(s.TypeRange, fmt.Sprintf("%s has it. Put both together.", sentence(line(parent.blocks[i].syntax.TypeRange, s.TypeRange))),
				"%s stands once %s", d.name, where)
		}
	}
	parent.blocks = append(parent.blocks, n)
	c.body(n, s.Body)
}

// later refuses by name what the language has and this release has not.
func (c *checker) later(at hcl.Range, name string) {
	c.err(at, "Take it out, or put # before it, until there is a weir that can.", "%s is in the language, but weir %s can't do it yet", name, Release)
}

// secrets refuses secrets in a block whose keys are not checked otherwise.
func (c *checker) secrets(d *block, b *hclsyntax.Body) {
	for _, a := range b.Attributes {
		if isSecret(a.Name) && (d == nil || d.key(a.Name) == nil) {
			c.secret(a)
		}
	}
	for _, s := range b.Blocks {
		var sub *block
		if d != nil {
			sub = d.block(s.Type)
		}
		c.secrets(sub, s.Body)
	}
}

func (c *checker) secret(a *hclsyntax.Attribute) {
	c.err(a.Expr.Range(), fmt.Sprintf("Put it into a file that only root can read (mode 0600) and name that file: %s_file = \"secrets/%s\".", a.Name, a.Name),
		"secrets are not written here")
}

// unknownKey says which key was meant, and returns it if that is plain: then
// nothing is said about its being missing.
func (c *checker) unknownKey(n *node, a *hclsyntax.Attribute) *key {
	at, name := a.NameRange, a.Name
	if isSecret(name) && n.def.key(name+"_file") != nil {
		c.secret(a)
		return nil
	}
	what := fmt.Sprintf("%s has no key %q", n.called(), name)
	if d := n.def.block(name); d != nil {
		c.err(at, fmt.Sprintf("A thing is a block: %s { ... }, without =", blockHead(d)), "%s is no key", name)
		return nil
	}
	var have []string
	for _, k := range n.def.keys {
		if !k.later {
			have = append(have, k.name)
		}
	}
	if near := n.def.key(Nearest(name, keyNames(n.def.keys))); near != nil {
		detail := fmt.Sprintf("Did you mean %q?", near.name)
		if near.list {
			detail += " It takes one or a list."
		}
		c.err(at, detail, "%s", what)
		return near
	}
	if c.broken && len(ownersOf(language, name)) > 0 {
		return nil // a brace that is missing puts it here
	}
	for _, d := range n.def.blocks {
		if k := d.key(name); k != nil && !k.later && !d.later {
			c.err(at, fmt.Sprintf("It belongs into %s: %s { %s = ... }", d.name, blockHead(d), name), "%s", what)
			return nil
		}
	}
	if owners := ownersOf(language, name); len(owners) > 0 {
		c.err(at, fmt.Sprintf("That is a key of %s.", strings.Join(owners, ", ")), "%s", what)
		return nil
	}
	detail := "It has blocks only."
	if len(have) > 0 {
		detail = fmt.Sprintf("It has: %s.", strings.Join(have, ", "))
	}
	c.err(at, detail, "%s", what)
	return nil
}

// unknownBlock says which block was meant, and returns it if that is plain: what
// is in it is checked as if it were that.
func (c *checker) unknownBlock(n *node, s *hclsyntax.Block) *block {
	at := s.TypeRange
	if k := n.def.key(s.Type); k != nil {
		c.err(at, fmt.Sprintf("A fact is a key: %s = ...", s.Type), "%s is no block", s.Type)
		return nil
	}
	where := n.called()
	if near := n.def.block(Nearest(s.Type, blockNames(n.def.blocks))); near != nil {
		c.err(at, fmt.Sprintf("Did you mean %s?", near.name), "%s has no block %q", where, s.Type)
		return near
	}
	if homes := homesOf(language, s.Type); len(homes) > 0 {
		if c.broken {
			return nil // a brace that is missing puts it here
		}
		if onlyLater(language, s.Type) {
			c.later(at, s.Type) // to say where it stands would be to have it refused there
			return nil
		}
		c.err(at, fmt.Sprintf("It stands in %s.", strings.Join(homes, " or ")), "%s has no block %q", where, s.Type)
		return nil
	}
	detail := "It has keys only."
	now := slices.DeleteFunc(slices.Clone(n.def.blocks), func(b *block) bool { return b.later })
	if bs := blockNames(now); len(bs) > 0 {
		detail = fmt.Sprintf("It has: %s.", strings.Join(bs, ", "))
	}
	c.err(at, detail, "%s has no block %q", where, s.Type)
	return nil
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// pointing are the words by which a file points at things: nothing that can be
// pointed at is called so.
var pointing = map[string]string{
	string(KindSelf):  "In the file self is the gateway.",
	string(KindWAN):   "In the file wan is every WAN.",
	string(KindLAN):   "In the file lan is every LAN.",
	string(KindHost):  "In the file host. stands before a host's name.",
	string(KindGroup): "In the file group. stands before a group's name.",
	"tunnel":          "In the file tunnel. stands before a tunnel's name.",
	"peer":            "In the file peer. stands before the name of a tunnel's peer.",
}

// label checks what stands between a block's type and its brace.
func (c *checker) label(n *node) {
	s, d := n.syntax, n.def
	if d.label == labelNone {
		if len(s.Labels) > 0 {
			c.err(s.LabelRanges[0], fmt.Sprintf("Write %s { ... }", d.name), "%s has no name", d.name)
		}
		return
	}
	if len(s.Labels) == 0 {
		c.err(s.TypeRange, fmt.Sprintf("Write %s %q { ... }", d.name, d.example), "this %s needs a name", d.name)
		return
	}
	if len(s.Labels) > 1 {
		c.err(s.LabelRanges[1], fmt.Sprintf("Write %s %q { ... }", d.name, d.example), "%s has one name", d.name)
	}
	n.label = s.Labels[0]
	at := s.LabelRanges[0]
	if at.End.Byte-at.Start.Byte == len(n.label) {
		c.err(at, fmt.Sprintf("Write %s %q { ... }", d.name, n.label), "the name of a block stands in quotes")
	}
	switch d.label {
	case labelDomain:
		if low, ok := c.domain(&key{name: d.name, typ: typeDomain}, n.label, at); ok {
			n.label = low.(string)
		}
		return
	case labelRecord:
		n.label = strings.ToLower(n.label)
		if !validRecordName(n.label) {
			c.err(at, `A name in the zone, without the zone: "printer", "_sip._tcp", "*.apps"; "@" is the zone itself.`, "%q is no record's name", n.label)
		}
		return
	}
	if why := pointing[n.label]; why != "" && d.kind != "" {
		c.err(at, why, "no %s can be called %q", kindWords[d.kind], n.label)
		return
	}
	form := "Small letters, digits and hyphens, a letter first, no hyphen last"
	switch {
	case len(n.label) > d.maxName && d.kind == KindWAN, len(n.label) > d.maxName && d.kind == KindLAN:
		c.err(at, "It becomes a link's name, and Linux has no longer ones.", "a %s's name has at most %d letters", kindWords[d.kind], d.maxName)
	case len(n.label) > d.maxName:
		c.err(at, "Longer ones don't fit into DNS, nor on a screen.", "a %s's name has at most %d letters", d.name, d.maxName)
	case !nameForm.MatchString(n.label):
		detail := form + "."
		if could := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(n.label), "-"), "-0123456789"); nameForm.MatchString(could) {
			detail = fmt.Sprintf("%s: %q?", form, could)
		}
		c.err(at, detail, "%q is no name", n.label)
	}
}

func keyNames(ks []*key) []string {
	ns := make([]string, len(ks))
	for i, k := range ks {
		ns[i] = k.name
	}
	return ns
}

func blockNames(bs []*block) []string {
	ns := make([]string, len(bs))
	for i, b := range bs {
		ns[i] = b.name
	}
	return ns
}

// blockHead is how a block starts.
func blockHead(d *block) string {
	if d.label == labelNone {
		return d.name
	}
	return d.name + ` "NAME"`
}

// ownersOf names the blocks that have a key of that name.
func ownersOf(b *block, name string) []string {
	var of []string
	for _, s := range b.blocks {
		if s.later {
			continue
		}
		if s.key(name) != nil && !slices.Contains(of, s.name) {
			of = append(of, s.name)
		}
		for _, o := range ownersOf(s, name) {
			if !slices.Contains(of, o) {
				of = append(of, o)
			}
		}
	}
	return of
}

// onlyLater says whether no block of that name, wherever it stands, is there yet.
func onlyLater(b *block, name string) bool {
	if d := b.block(name); d != nil && !d.later && !b.later {
		return false
	}
	return !slices.ContainsFunc(b.blocks, func(s *block) bool { return !s.later && !onlyLater(s, name) })
}

// homesOf names the blocks that hold a block of that name.
func homesOf(b *block, name string) []string {
	var in []string
	if b.block(name) != nil {
		if b == language {
			in = append(in, "the file itself, in no block")
		} else {
			in = append(in, b.name)
		}
	}
	for _, s := range b.blocks {
		in = append(in, homesOf(s, name)...)
	}
	return in
}
