package blocklist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// kind says what a rule does with a name.
type kind uint8

const (
	blockName  kind = 1 << iota // the name itself
	blockBelow                  // all below it
	passName
	passBelow
)

// names is rules by name: lower case, without trailing dot.
type names map[string]kind

// found is what a source holds.
type found struct {
	skipped int // rules that are none for DNS
	unread  int // lines that are no rule at all
}

// parse reads a source line by line, each by its own look:
//
//	0.0.0.0 ads.example      hosts(5): the names, and not what is below them
//	ads.example              the name; *.ads.example: it and all below it
//	||ads.example^           Adblock Plus: it and all below it; @@ before it lets it through
//	ads.example CNAME .      response policy zones: the name; *.ads.example: what is below it
//
// The error says why it is no list: it is too large, or there is no name in it.
func parse(r io.Reader, into names) (found, error) {
	var f found
	limited := &io.LimitedReader{R: r, N: maxBytes + 1}
	sc := bufio.NewScanner(limited)
	sc.Buffer(make([]byte, 0, maxLine), maxLine)
	sc.Split(shortLines)
	z, before := zone{}, len(into)
	rules := 0
	for first := true; sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" {
			continue
		}
		if first && line[0] == '<' {
			return f, errors.New("it is a web page and no list")
		}
		first = false
		switch took, known := z.line(line, into); {
		case took:
			rules++
		case known:
			f.skipped++
		default:
			f.unread++
		}
		if len(into)-before > maxNames {
			return f, fmt.Errorf("it has more than %d names", maxNames)
		}
	}
	switch err := sc.Err(); {
	case err != nil:
		return f, err
	case limited.N == 0:
		return f, fmt.Errorf("it has more than %d MB", maxBytes>>20)
	case rules == 0:
		return f, errors.New("there is no name in it that could be blocked")
	case f.unread > rules:
		return f, fmt.Errorf("it is no list: %d of its lines are rules, and %d are nothing that is known", rules, f.unread)
	}
	return f, nil
}

// shortLines splits into lines. What is longer than any rule comes in pieces, of
// which none is one.
func shortLines(data []byte, atEOF bool) (int, []byte, error) {
	advance, token, err := bufio.ScanLines(data, atEOF)
	if advance == 0 && len(data) >= maxLine {
		return len(data), []byte("(long)"), nil
	}
	return advance, token, err
}

// zone is what a response policy zone said so far.
type zone struct{ origin string }

// line takes a line in. took: it is a rule; known: it is none for us, or says
// nothing, but belongs into such files.
func (z *zone) line(s string, into names) (took, known bool) {
	switch s[0] {
	case '#', '!', ';', '[':
		return false, true
	case '$':
		if f := strings.Fields(s); len(f) == 2 && strings.EqualFold(f[0], "$ORIGIN") {
			z.origin = strings.ToLower(f[1])
		}
		return false, true
	case '|', '@':
		if strings.HasPrefix(s, "||") || strings.HasPrefix(s, "@@||") {
			return adblock(s, into), true
		}
		if s[0] == '@' && len(s) > 1 && s[1] != ' ' && s[1] != '\t' {
			return false, true // an exception for some pages
		}
	}
	if strings.Contains(s, "##") || strings.Contains(s, "#@#") || strings.Contains(s, "#?#") || strings.Contains(s, "#$#") || s[0] == '/' {
		return false, true // what a browser hides, a path, a regular expression
	}
	if i := strings.IndexAny(s, "#;"); i >= 0 {
		s = s[:i]
	}
	f := strings.Fields(s)
	switch {
	case len(f) == 0:
		return false, true
	case len(f) == 1:
		return plain(f[0], into), false
	case isAddress(f[0]):
		return hosts(f[1:], into)
	}
	return z.record(f, into)
}

func isAddress(s string) bool {
	s, _, _ = strings.Cut(s, "%")
	_, err := netip.ParseAddr(s)
	return err == nil
}

func plain(s string, into names) bool {
	name, below := strings.CutPrefix(s, "*.")
	if !below {
		name, below = strings.CutPrefix(s, ".")
	}
	k := blockName
	if below {
		k |= blockBelow
	}
	return into.add(name, k)
}

// hosts takes the names of a line of a hosts file. Those that have no dot are the
// machine's own, which such lists begin with.
func hosts(of []string, into names) (took, known bool) {
	for _, n := range of {
		if strings.EqualFold(n, "localhost.localdomain") || !strings.Contains(strings.TrimSuffix(n, "."), ".") {
			known = true
			continue
		}
		if isAddress(n) {
			known = true // "0.0.0.0 0.0.0.0" stands in many
			continue
		}
		if into.add(n, blockName) {
			took = true
		}
	}
	return took, known
}

// adblock takes ||name^, with what says nothing against DNS behind it.
func adblock(s string, into names) bool {
	s, pass := strings.CutPrefix(s, "@@")
	s = strings.TrimPrefix(s, "||")
	s, options, limited := strings.Cut(s, "$")
	if limited && options != "important" && options != "all" && options != "document" {
		return false // for some pages, or some kinds of content
	}
	name, whole := strings.CutSuffix(strings.TrimSuffix(s, "|"), "^")
	if !whole {
		return false // a path, or the beginning of a name
	}
	name = strings.TrimPrefix(name, "*.")
	if pass {
		return into.add(name, passName|passBelow)
	}
	return into.add(name, blockName|blockBelow)
}

// record takes a record of a response policy zone (draft-vixie-dnsop-dns-rpz):
// NAME [TTL] [IN] TYPE DATA.
func (z *zone) record(f []string, into names) (took, known bool) {
	owner, f := strings.ToLower(f[0]), f[1:]
	if f[0] != "" && f[0][0] >= '0' && f[0][0] <= '9' && len(f) > 1 {
		f = f[1:]
	}
	if strings.EqualFold(f[0], "IN") && len(f) > 1 {
		f = f[1:]
	}
	rrtype := strings.ToUpper(f[0])
	switch rrtype {
	case "SOA":
		if strings.HasSuffix(owner, ".") && z.origin == "" {
			z.origin = owner
		}
		return false, true
	case "NS", "TXT", "DNAME":
		return false, true
	case "A", "AAAA", "CNAME":
	default:
		return false, false
	}
	if len(f) != 2 {
		return false, false
	}
	if absolute, ok := strings.CutSuffix(owner, "."); ok {
		rest, ok := strings.CutSuffix(absolute+".", "."+z.origin)
		if z.origin == "" || z.origin == "." || !ok {
			rest = absolute
		}
		owner = rest
	}
	for _, trigger := range []string{".rpz-ip", ".rpz-client-ip", ".rpz-nsip", ".rpz-nsdname"} {
		if strings.HasSuffix(owner, trigger) {
			return false, true
		}
	}
	name, below := strings.CutPrefix(owner, "*.")
	k := blockName
	if below {
		k = blockBelow
	}
	if rrtype == "CNAME" {
		switch strings.ToLower(f[1]) {
		case "rpz-passthru.":
			k <<= 2
		case "rpz-tcp-only.":
			return false, true
		}
	}
	return into.add(name, k), false
}

// add adds a rule, unless it is for no name: a whole top-level domain is none
// either, for a list that says "com" by mistake would end the internet.
func (n names) add(name string, k kind) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !validName(name) {
		return false
	}
	n[name] |= k
	return true
}

// validName tells whether a name, in lower case, can be one of two labels or more.
// What stands in DNS and in no host name (_dmarc) is one.
func validName(s string) bool {
	if len(s) > 253 {
		return false
	}
	label, dots, digits := 0, 0, true
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label, digits = 0, true
			dots++
			continue
		case c >= 'a' && c <= 'z', c == '-', c == '_':
			digits = false
		case c >= '0' && c <= '9':
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0 && dots > 0 && !digits // an address is no name
}
