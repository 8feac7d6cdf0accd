package config

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// value checks an expression against its key's type. Every mistake in it is
// reported at the narrowest place; what is right is kept.
func (c *checker) value(k *key, e hclsyntax.Expression) *attr {
	a := &attr{def: k}
	if l, ok := e.(*hclsyntax.LiteralValueExpr); ok && !l.Val.IsKnown() {
		a.bad = true // what the parser puts where it could not read a value
		return a
	}
	exprs := []hclsyntax.Expression{e}
	if l, ok := e.(*hclsyntax.TupleConsExpr); ok {
		exprs = l.Exprs
		if !k.list && k.typ != typeOptions {
			c.err(e.Range(), fmt.Sprintf("%s takes one %s.", k.name, typeWords[k.typ].name), "a list can't stand here")
			a.bad = true
			return a
		}
		if len(exprs) == 0 && !k.empty {
			detail := "Say at least one."
			if !k.required {
				detail = fmt.Sprintf("Say at least one, or leave it out for: %s.", k.meaning())
			}
			c.err(e.Range(), detail, "%s can't be none", k.name)
			a.bad = true
		}
	}
	for i, e := range exprs {
		if i == mostValues {
			c.err(e.Range(), "What follows is not read.", "%s has more than %d values", k.name, mostValues)
			a.bad = true
			break
		}
		if l, ok := e.(*hclsyntax.TupleConsExpr); ok {
			c.err(l.Range(), "One list holds them all.", "a list in a list can't stand here")
			a.bad = true
			continue
		}
		v, ok := c.single(k, e)
		if !ok {
			a.bad = true
			continue
		}
		if c.twice(a, v, e.Range()) {
			continue
		}
		a.items = append(a.items, item{v, e.Range()})
	}
	return a
}

// twice reports a value that the list has already, whole or in part.
func (c *checker) twice(a *attr, v any, at hcl.Range) bool {
	if a.def.typ == typeOptions {
		return false
	}
	for _, o := range a.items {
		same := o.val == v
		if r, ok := v.(PortRange); ok {
			same = r.overlaps(o.val.(PortRange))
		}
		if same {
			c.err(at, fmt.Sprintf("%s has it. Once is enough.", sentence(line(o.at, at))), "%s holds this twice", a.def.name)
			a.bad = true
			return true
		}
	}
	return false
}

// meaning is what leaving the key out means, in words.
func (k *key) meaning() string {
	if k.unsaid != "" {
		return k.unsaid
	}
	return strings.Trim(k.def, `"`)
}

// single checks one value.
func (c *checker) single(k *key, e hclsyntax.Expression) (any, bool) {
	switch k.typ {
	case typeFlag:
		return c.flag(k, e)
	case typeInt:
		return c.int(k, e)
	case typePort:
		return c.port(k, e)
	case typeProtocol:
		return c.protocol(k, e)
	case typeRef, typePlace:
		return c.place(k, e)
	case typeServer:
		if t, ok := e.(*hclsyntax.ScopeTraversalExpr); ok {
			p, ok := c.reference(k, t.Traversal, e.Range())
			if !ok {
				return nil, false
			}
			return Server{Line: p.(Place).Ref}, true
		}
	case typeOptions:
		return c.options(k, e)
	case typeDuration:
		if n, ok := number(e); ok {
			c.noUnit(n, e.Range())
			return nil, false
		}
	}
	s, ok := c.text(k, e)
	if !ok {
		return nil, false
	}
	return c.fromText(k, s, e.Range())
}

// text takes the words between quotes out of e.
func (c *checker) text(k *key, e hclsyntax.Expression) (string, bool) {
	if s, ok := literalText(e); ok {
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			c.err(e.Range(), "One line of text, without control characters.", "%s can't hold that", k.name)
			return "", false
		}
		return s, true
	}
	shape := typeWords[k.typ]
	example := shape.example
	if k.typ == typeWord {
		example = quotedWords(k, " or ")
	}
	if k.typ == typeText {
		example = k.example
	}
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		src := traversalText(e.Traversal)
		detail := fmt.Sprintf("Write %s = %s", k.name, example)
		if k.typ == typeWord || len(e.Traversal) == 1 {
			detail = fmt.Sprintf("Write %q, with quotes.", src)
		}
		if k.typ == typeWord && !slices.ContainsFunc(k.words, func(w word) bool { return w.text == src }) {
			detail = fmt.Sprintf("Write %s", example)
		}
		c.err(e.Range(), detail, "%s is a name, and %s takes %s", src, k.name, article(shape.name))
	case *hclsyntax.LiteralValueExpr, *hclsyntax.UnaryOpExpr:
		c.err(e.Range(), fmt.Sprintf("Write %s = %s", k.name, example), "%s takes %s, in quotes", k.name, article(shape.name))
	case *hclsyntax.ObjectConsExpr:
		c.err(e.Range(), fmt.Sprintf("Write %s = %s", k.name, example), "%s takes no map", k.name)
	default:
		c.computed(e)
	}
	return "", false
}

// computed refuses whatever is not written out.
func (c *checker) computed(e hclsyntax.Expression) {
	detail := "Write the value out: there are no variables, functions or templates here, so that the file says what it says."
	if w, ok := e.(*hclsyntax.TemplateWrapExpr); ok {
		if t, ok := w.Wrapped.(*hclsyntax.ScopeTraversalExpr); ok {
			detail = fmt.Sprintf("Write %s, without quotes and braces.", traversalText(t.Traversal))
		}
	}
	if b, ok := e.(*hclsyntax.BinaryOpExpr); ok {
		from, okFrom := number(b.LHS)
		to, okTo := number(b.RHS)
		if okFrom && okTo && b.Op == hclsyntax.OpSubtract {
			detail = fmt.Sprintf("A range stands in quotes: \"%s-%s\"", from, to)
		}
	}
	if _, ok := e.(*hclsyntax.SplatExpr); ok {
		detail = "wan alone is all WANs, lan alone all LANs."
	}
	c.err(e.Range(), detail, "nothing is computed in this file")
}

// wrong reports a value that is not of its key's type.
func (c *checker) wrong(k *key, at hcl.Range, got, detail string) (any, bool) {
	name := typeWords[k.typ].name
	if detail == "" {
		detail = fmt.Sprintf("It looks like %s.", typeWords[k.typ].example)
	}
	c.err(at, detail, "%s is no %s", got, name)
	return nil, false
}

func (c *checker) flag(k *key, e hclsyntax.Expression) (any, bool) {
	if l, ok := e.(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.Bool && !l.Val.IsNull() {
		return l.Val.True(), true
	}
	detail := fmt.Sprintf("Write %s = true or %s = false", k.name, k.name)
	if s, ok := literalText(e); ok && (s == "true" || s == "false") {
		detail = fmt.Sprintf("Write %s, without quotes.", s)
	}
	c.err(e.Range(), detail, "%s is true or false", k.name)
	return nil, false
}

func (c *checker) int(k *key, e hclsyntax.Expression) (any, bool) {
	s, ok := number(e)
	if !ok {
		detail := fmt.Sprintf("Write %s = %s", k.name, k.example)
		if t, ok := literalText(e); ok {
			if _, err := strconv.Atoi(t); err == nil {
				detail = fmt.Sprintf("Write %s, without quotes.", t)
			}
		}
		c.err(e.Range(), detail, "%s takes a number", k.name)
		return nil, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < k.min || n > k.max {
		c.err(e.Range(), fmt.Sprintf("%s is %d to %d.", k.name, k.min, k.max), "%s is out of range", s)
		return nil, false
	}
	return int(n), true
}

// fromText reads what stands between quotes.
func (c *checker) fromText(k *key, s string, at hcl.Range) (any, bool) {
	switch k.typ {
	case typeWord:
		return c.word(k, s, at)
	case typeDuration:
		return c.duration(k, s, at)
	case typeText:
		if n := int64(len(s)); k.max > 0 && (n < k.min || n > k.max) {
			c.err(at, fmt.Sprintf("It has %d to %d bytes.", k.min, k.max), "%q is no %s", s, k.name)
			return nil, false
		}
		return s, true
	case typeFile:
		return c.file(k, s, at)
	case typeDomain:
		return c.domain(k, s, at)
	case typeLabel:
		return c.dnsLabel(k, s, at)
	case typeZone:
		return c.zone(k, s, at)
	case typeIP:
		return c.ip(k, s, at)
	case typeIPLen:
		return c.ipLen(k, s, at)
	case typePrefix:
		return c.prefix(k, s, at)
	case typeMAC:
		return c.mac(k, s, at)
	case typeRange:
		return c.ipRange(k, s, at)
	case typeRange6:
		return c.ipRange6(k, s, at)
	case typeTarget:
		return c.target(k, s, at)
	case typeServer:
		if s == "wan" || strings.HasPrefix(s, "wan.") {
			return nil, c.textForName(k, s, at)
		}
		return c.server(k, s, at)
	case typeTimeServer:
		return c.timeServer(k, s, at)
	case typeInterface:
		return c.iface(k, s, at)
	}
	return c.wrong(k, at, fmt.Sprintf("%q", s), "")
}

func quotedWords(k *key, join string) string {
	var q []string
	for _, w := range k.words {
		if !w.later {
			q = append(q, strconv.Quote(w.text))
		}
	}
	return strings.Join(q, join)
}

func (c *checker) word(k *key, s string, at hcl.Range) (any, bool) {
	var all []string
	for _, w := range k.words {
		if w.text == s && w.later {
			c.later(at, fmt.Sprintf("%s = %q", k.name, s))
			return nil, false
		}
		if w.text == s {
			return s, true
		}
		all = append(all, w.text)
	}
	detail := fmt.Sprintf("It is %s.", quotedWords(k, " or "))
	if near := Nearest(s, all); near != "" {
		detail = fmt.Sprintf("Did you mean %q?", near)
	}
	c.err(at, detail, "%s can't be %q", k.name, s)
	return nil, false
}

// literalText returns the text of a quoted string without templates.
func literalText(e hclsyntax.Expression) (string, bool) {
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for _, p := range t.Parts {
		l, ok := p.(*hclsyntax.LiteralValueExpr)
		if !ok || l.Val.Type() != cty.String || l.Val.IsNull() || !l.Val.IsKnown() {
			return "", false
		}
		b.WriteString(l.Val.AsString())
	}
	return b.String(), true
}

// number returns the digits of a whole number, with its sign.
func number(e hclsyntax.Expression) (string, bool) {
	sign := ""
	if u, ok := e.(*hclsyntax.UnaryOpExpr); ok && u.Op == hclsyntax.OpNegate {
		sign, e = "-", u.Val
	}
	l, ok := e.(*hclsyntax.LiteralValueExpr)
	if !ok || l.Val.IsNull() || !l.Val.IsKnown() || l.Val.Type() != cty.Number {
		return "", false
	}
	f := l.Val.AsBigFloat()
	if exp := f.MantExp(nil); f.IsInf() || exp > 128 || exp < -128 {
		return "this number", true // out of any range; 1e999999999 would take hours to write out
	}
	if n, acc := f.Int(nil); acc == big.Exact {
		return sign + n.String(), true
	}
	return sign + f.Text('g', 6), true
}

// traversalText is how a reference was written.
func traversalText(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		default:
			b.WriteString("[...]")
		}
	}
	return b.String()
}

// article puts a or an before a type's name.
func article(s string) string {
	if s == "text" || strings.HasPrefix(s, "true") {
		return s
	}
	if strings.ContainsRune("aeiou", rune(s[0])) {
		return "an " + s
	}
	return "a " + s
}
