package config

import (
	_ "embed"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var (
	dnsLabelForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123, 2.1
	interfaceForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
)

// validDomain tells whether s is a domain of host names (RFC 1035, 2.3.4; 1123, 2.1).
func validDomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for l := range strings.SplitSeq(strings.ToLower(s), ".") {
		if !dnsLabelForm.MatchString(l) {
			return false
		}
	}
	return true
}

func (c *checker) domain(k *key, s string, at hcl.Range) (any, bool) {
	if t, ok := strings.CutSuffix(s, "."); ok && validDomain(t) {
		return c.wrong(k, at, strconv.Quote(s), fmt.Sprintf("Without the last dot: %q", t))
	}
	if !validDomain(s) {
		return c.wrong(k, at, strconv.Quote(s), `Labels of letters, digits and hyphens, with dots between: "home.arpa".`)
	}
	return strings.ToLower(s), true
}

func (c *checker) dnsLabel(k *key, s string, at hcl.Range) (any, bool) {
	if !dnsLabelForm.MatchString(strings.ToLower(s)) {
		return c.wrong(k, at, strconv.Quote(s), "Letters, digits and hyphens, at most 63, no hyphen first or last (RFC 1123).")
	}
	return strings.ToLower(s), true
}

// zones are the names of the tz database, one a line, sorted.
//
//go:embed zones.txt
var zones string

func (c *checker) zone(k *key, s string, at hcl.Range) (any, bool) {
	all := strings.Fields(zones)
	for _, z := range all {
		if z == s {
			return s, true
		}
	}
	detail := `It looks like "Europe/Berlin", as in the tz database.`
	if near := Nearest(s, all); near != "" {
		detail = fmt.Sprintf("Did you mean %q?", near)
	}
	return c.wrong(k, at, strconv.Quote(s), detail)
}

func (c *checker) iface(k *key, s string, at hcl.Range) (any, bool) {
	switch {
	case len(s) > 15:
		return c.wrong(k, at, strconv.Quote(s), "Linux has names of at most 15 bytes.")
	case s == "lo" || s == "all" || s == "default":
		return c.wrong(k, at, strconv.Quote(s), "Linux means something else by it. `ip link` shows the ports that there are.")
	case !interfaceForm.MatchString(s):
		return c.wrong(k, at, strconv.Quote(s), "`ip link` shows the ports that there are.")
	}
	return s, true
}

// place reads a reference, or, where the key takes them, an address or network.
func (c *checker) place(k *key, e hclsyntax.Expression) (any, bool) {
	at := e.Range()
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return c.reference(k, e.Traversal, at)
	case *hclsyntax.LiteralValueExpr, *hclsyntax.UnaryOpExpr, *hclsyntax.ObjectConsExpr:
		c.err(at, fmt.Sprintf("It takes %s.", takesPlaces(k)), "%s can't be that", k.name)
		return nil, false
	}
	s, ok := literalText(e)
	if !ok {
		c.computed(e)
		return nil, false
	}
	if a, ok := addr(s); ok && k.text {
		return Place{Prefix: netip.PrefixFrom(a, a.BitLen())}, true
	}
	if strings.Contains(s, "/") && k.text {
		p, ok := c.prefix(&key{name: k.name, typ: typePrefix}, s, at)
		if !ok {
			return nil, false
		}
		return Place{Prefix: p.(netip.Prefix)}, true
	}
	return nil, c.textForName(k, s, at)
}

// textForName reports text where a reference belongs. It always returns false.
func (c *checker) textForName(k *key, s string, at hcl.Range) bool {
	var meant []string
	for _, kind := range k.kinds {
		if s == string(kind) && (kind == KindWAN || kind == KindLAN || kind == KindSelf) {
			meant = append(meant, s)
		}
		name := strings.TrimPrefix(s, string(kind)+".")
		if _, ok := c.names[kind]; !ok {
			continue
		}
		if _, ok := c.names[kind].at[name]; ok {
			meant = append(meant, fmt.Sprintf("%s.%s", kind, name))
		}
	}
	if len(meant) == 0 && c.unread == nil {
		for _, kind := range k.kinds {
			if ns := c.names[kind]; ns != nil {
				if near := Nearest(strings.TrimPrefix(s, string(kind)+"."), ns.order); near != "" {
					meant = append(meant, fmt.Sprintf("%s.%s", kind, near))
				}
			}
		}
	}
	switch {
	case len(meant) > 0:
		c.err(at, "Write "+strings.Join(meant, " or "), "%q is text; a name is written without quotes", s)
	case k.text:
		c.err(at, fmt.Sprintf("It takes %s.", takesPlaces(k)), "%q is no address and no name", s)
	default:
		c.err(at, fmt.Sprintf("It takes %s.", takesPlaces(k)), "%q is text; a name is written without quotes", s)
	}
	return false
}

// takesPlaces lists what a place may be.
func takesPlaces(k *key) string {
	var of []string
	for _, kind := range k.kinds {
		switch kind {
		case KindWAN, KindLAN:
			of = append(of, fmt.Sprintf("%s.NAME", kind), string(kind))
		case KindSelf:
			of = append(of, "self")
		default:
			of = append(of, fmt.Sprintf("%s.NAME", kind))
		}
	}
	if k.text {
		of = append(of, `an address or a network in quotes`)
	}
	return strings.Join(of, ", ")
}

// reference reads wan.fiber, wan, self.
func (c *checker) reference(k *key, t hcl.Traversal, at hcl.Range) (any, bool) {
	root := t.RootName()
	kind := Kind(root)
	allowed := false
	for _, a := range k.kinds {
		allowed = allowed || a == kind
	}
	switch {
	case root == "tunnel" || root == "peer":
		c.later(at, root)
		return nil, false
	case kindWords[kind] == "":
		return nil, c.unknownRoot(k, t, at)
	case !allowed:
		c.err(at, fmt.Sprintf("It takes %s.", takesPlaces(k)), "%s can't stand here", traversalText(t))
		return nil, false
	case len(t) == 1 && (kind == KindSelf || kind == KindWAN || kind == KindLAN):
		return Place{Ref: Ref{Kind: kind}}, true
	case len(t) == 1:
		c.err(at, fmt.Sprintf("Write %s.NAME.", kind), "which %s?", kind)
		return nil, false
	}
	step, ok := t[1].(hcl.TraverseAttr)
	if !ok || len(t) != 2 || kind == KindSelf {
		c.err(at, "A name has one dot: host.nas. Nothing can be read out of a block.", "%s points at nothing", traversalText(t))
		return nil, false
	}
	name := step.SrcRange // includes the dot
	name.Start.Column++
	name.Start.Byte++
	if ns := c.names[kind]; ns != nil {
		if _, ok := ns.at[step.Name]; !ok {
			c.noSuchName(kind, step.Name, name)
			return nil, false
		}
	}
	return Place{Ref: Ref{kind, step.Name}}, true
}

// unknownRoot reports a name that is none of the kinds. It always returns false.
func (c *checker) unknownRoot(k *key, t hcl.Traversal, at hcl.Range) bool {
	root := t.RootName()
	detail := ""
	for _, kind := range k.kinds {
		if ns := c.names[kind]; ns != nil && len(t) == 1 {
			if _, ok := ns.at[root]; ok {
				detail = fmt.Sprintf("Write %s.%s", kind, root)
			}
		}
	}
	if detail == "" {
		var kinds []string
		for _, kind := range k.kinds {
			kinds = append(kinds, string(kind))
		}
		if near := Nearest(root, kinds); near != "" {
			detail = fmt.Sprintf("Did you mean %s? ", strings.Replace(traversalText(t), root, near, 1))
		}
		detail += fmt.Sprintf("It takes %s.", takesPlaces(k))
	}
	c.err(at, detail, "%s is no kind of thing", root)
	return false
}
