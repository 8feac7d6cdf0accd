package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// part is a file, or what stands in one from one block to another.
type part struct {
	body   *hclsyntax.Body
	broken bool // and body is what could be made of it
}

// mostMendings bounds what is mended; a file with more mistakes is told the rest
// next time.
const mostMendings = 50

// syntax parses a file. The parser stops telling mistakes after the first; so
// that the others are seen too, what it can go on without is mended in a copy,
// byte for byte so that every place stays where it is, and parsed again. Where that
// can't be done the file is read block by block, and what is wrong with one costs the
// others nothing.
func (c *checker) syntax(f File) []part {
	src := slices.Clone(f.Src)
	if at, deep := tooDeep(src, f.Name); deep {
		c.err(at, "No value of a gateway's file needs so many brackets, signs or conditions.", "this nests too deep to be read")
		c.lose(src)
		c.lose(nil)
		return nil
	}
	left := mostMendings
	p, diags := c.mended(f, src, 0, len(src), &left)
	if diags == nil {
		return []part{p}
	}
	cuts := blockStarts(src)
	if cuts == nil {
		c.lose(nil)
		return c.unreadable(f, src, p, diags)
	}
	var parts []part
	for i, from := range cuts {
		to := len(src)
		if i+1 < len(cuts) {
			to = cuts[i+1]
		}
		p, diags := c.mended(f, src, from, to, &left)
		if diags == nil {
			parts = append(parts, p)
			continue
		}
		parts = append(parts, c.unreadable(f, src[from:to], p, diags)...)
	}
	return parts
}

// mended parses src from a byte to another, mending it until nothing is wrong any
// more, or what is wrong can't be mended.
func (c *checker) mended(f File, src []byte, from, to int, left *int) (part, hcl.Diagnostics) {
	for {
		start := hcl.Pos{Byte: from, Line: 1 + bytes.Count(src[:from], []byte("\n")), Column: 1}
		file, diags := hclsyntax.ParseConfig(src[from:to], f.Name, start)
		body, _ := file.Body.(*hclsyntax.Body)
		if !diags.HasErrors() {
			return part{body: body}, nil
		}
		if *left == 0 || !c.mend(f, src, diags[0]) {
			return part{body: body}, diags
		}
		*left--
	}
}

// unreadable reports what is wrong with the text of a part, and remembers what may be
// in it.
func (c *checker) unreadable(f File, text []byte, p part, diags hcl.Diagnostics) []part {
	if p.broken = c.syntaxErrors(f, diags); p.broken {
		c.lose(text)
	}
	if p.body == nil {
		return nil
	}
	return []part{p}
}

var (
	lineStart = regexp.MustCompile(`(?m)^[a-z_]+\b[ \t]*[^= \t\n]`)
	firstWord = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z_]+)\b[ \t]*(=?)`)
	anyWord   = regexp.MustCompile(`(\.?)([A-Za-z0-9_-]+)`)
)

// blockStarts are where the blocks of the file itself begin, if they do at the
// beginnings of lines, as fmt has it, the first being 0; nil where that can't be told
// without reading the file from its start.
func blockStarts(src []byte) []int {
	if bytes.Contains(src, []byte("/*")) || bytes.Contains(src, []byte("<<")) {
		return nil
	}
	cuts := []int{0}
	for _, m := range lineStart.FindAllIndex(src, -1) {
		word := string(firstWord.FindSubmatch(src[m[0]:m[1]])[1])
		if language.block(word) != nil && m[0] > 0 {
			cuts = append(cuts, m[0])
		}
	}
	if len(cuts) == 1 || len(cuts) > mostBlocks {
		return nil
	}
	return cuts
}

// lose remembers what may be in a text that can't be read: of none at all, anything.
func (c *checker) lose(text []byte) {
	if c.unread == nil {
		c.unread, c.unreadWords = map[string]bool{}, map[string]bool{}
	}
	known := false
	for _, m := range firstWord.FindAllSubmatch(text, -1) {
		word := string(m[1])
		if language.block(word) == nil {
			word = Nearest(word, blockNames(language.blocks))
		}
		if len(m[2]) == 0 && word != "" {
			c.unread[word], known = true, true
		}
	}
	if !known {
		c.unread[""] = true
	}
	for _, m := range anyWord.FindAllSubmatch(text, -1) {
		if len(m[1]) == 0 { // else it is a reference
			c.unreadWords[string(m[2])] = true
		}
	}
}

// hidden says whether a block of one of these types may be in what could not be read.
func (c *checker) hidden(types ...string) bool {
	return c.unread[""] || slices.ContainsFunc(types, func(t string) bool { return c.unread[t] })
}

// syntaxErrors reports what could not be mended. Where one mistake makes the
// parser say several things, only the first is passed on; of a file that is no
// text at all the beginning is enough. broken says that not all of it was read.
func (c *checker) syntaxErrors(f File, diags hcl.Diagnostics) (broken bool) {
	const most = 20
	var last *hcl.Diagnostic
	said := 0
	for _, d := range diags {
		broken = broken || d.Summary != keyTwice
		if last != nil && (last.Subject.Start == d.Subject.Start || last.Summary == d.Summary && (d.Summary == textOpen || last.Subject.Start.Line == d.Subject.Start.Line)) {
			continue
		}
		last = d
		if said++; said <= most {
			c.syntaxError(f, d)
		}
	}
	return broken
}

// What the parser calls them.
const (
	keyTwice = "Attribute redefined"
	textOpen = "Invalid multi-line string"
)

// lost is a key that mending took out of a file: it is there, and not known.
type lost struct {
	at  hcl.Range
	key string
}

// loses takes keys out of src.
func (c *checker) loses(src []byte, file string, from, to int) {
	for _, m := range keyAndValue.FindAllSubmatchIndex(src[from:to], -1) {
		at := hcl.Range{Filename: file, Start: hcl.Pos{Byte: from + m[2]}, End: hcl.Pos{Byte: from + m[3]}}
		c.lost = append(c.lost, lost{at, string(src[from+m[2] : from+m[3]])})
	}
	blank(src[from:to])
}

var (
	keyAndValue = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_-]*)[ \t]*=`)
	statement   = regexp.MustCompile(`^[ \t]*(?:[a-z0-9_]+(?:[ \t]+"[^"\n]*")?[ \t]*\{[ \t]*)?([A-Za-z_][A-Za-z0-9_-]*)[ \t]*=`)
)

// structural are mistakes in how blocks stand in each other: they say nothing
// about a single line that could be left out.
var structural = []string{
	"Unclosed configuration block", "Invalid block definition", "Argument definition required", "Argument or block definition required",
	"Missing newline after block definition", keyTwice,
}

// mendLine reports a value that cannot be read and takes its line out of src.
func (c *checker) mendLine(f File, src []byte, d *hcl.Diagnostic) bool {
	from := bytes.LastIndexByte(src[:d.Subject.Start.Byte], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[from:], '\n'); i >= 0 {
		to = from + i
	}
	line := src[from:to]
	m := statement.FindSubmatchIndex(line)
	if m == nil || slices.Contains(structural, d.Summary) {
		return false
	}
	if bytes.IndexByte(line[:m[2]], '{') >= 0 { // in a block on one line
		end := bytes.LastIndexByte(line, '}')
		if end < m[1] {
			return false
		}
		to = from + end
	}
	value := src[from+m[1] : to]
	if bytes.Contains(value, []byte("<<")) || bytes.Count(value, []byte("[")) != bytes.Count(value, []byte("]")) || bytes.Count(value, []byte("{")) != bytes.Count(value, []byte("}")) {
		return false // it goes on in the next line
	}
	if strings.HasSuffix(d.Summary, "separator") && !bytes.ContainsAny(value, "[{") {
		return false // the list that lacks it began before
	}
	if key := string(line[m[2]:m[3]]); !c.unquoted(f, key, value, from+m[1], *d.Subject) {
		c.syntaxError(f, d)
	}
	c.loses(src, f.Name, from+m[2], to)
	return true
}

// unquoted reports an address, a time and the like without quotes: to the parser
// they are numbers and names with something odd between.
func (c *checker) unquoted(f File, key string, value []byte, at int, near hcl.Range) bool {
	text, _, _ := bytes.Cut(value, []byte("#"))
	v := bytes.TrimSpace(text)
	if len(v) == 0 || isSecret(key) || !plainText.Match(v) {
		return false
	}
	start := at + bytes.Index(value, v)
	r := hcl.Range{Filename: f.Name, Start: near.Start, End: near.Start}
	r.Start.Column = 1 + len([]rune(string(f.Src[bytes.LastIndexByte(f.Src[:start], '\n')+1:start])))
	r.Start.Byte = start
	r.End.Column, r.End.Byte = r.Start.Column+len(v), start+len(v)
	c.err(r, fmt.Sprintf("Write %s = \"%s\"", key, v), "%s stands in quotes", v)
	return true
}

var plainText = regexp.MustCompile(`^[A-Za-z0-9.:/-]+$`)

// mend reports a mistake that parsing can go on without, and takes it out of src.
func (c *checker) mend(f File, src []byte, d *hcl.Diagnostic) bool {
	at := *d.Subject
	switch {
	case d.Summary == "Invalid single-argument block definition" && (startsKey(src[at.Start.Byte:]) || bytes.HasPrefix(src[at.Start.Byte:], []byte(","))):
		// ipv6 { method = "slaac" translate = "nat66" }
		end := bytes.IndexAny(src[at.Start.Byte:], "}\n")
		if end < 0 || src[at.Start.Byte+end] != '}' {
			return false
		}
		c.err(at, "Give each key a line of its own.", "a block on one line holds one key")
		c.loses(src, f.Name, at.Start.Byte, at.Start.Byte+end)
		return true
	case d.Summary == "Argument or block definition required":
		// interface : "eth1"
		rest := src[at.End.Byte:]
		colon := len(rest) - len(bytes.TrimLeft(rest, " \t"))
		if colon == len(rest) || rest[colon] != ':' || !isName(src[at.Start.Byte:at.End.Byte]) {
			return false
		}
		from := at.End
		from.Byte += colon
		from.Column += colon
		to := from
		to.Byte++
		to.Column++
		c.err(hcl.Range{Filename: at.Filename, Start: from, End: to}, "Write KEY = VALUE.", `":" does not join a key and its value`)
		rest[colon] = '='
		return true
	case d.Summary == "Unexpected comma after argument", d.Summary == "Invalid character" && bytes.HasPrefix(src[at.Start.Byte:], []byte(";")):
		// a = 1,
		w := syntaxWords[d.Summary]
		c.err(at, w[1], "%s", w[0])
		blank(src[at.Start.Byte:at.End.Byte])
		return true
	case d.Summary == "Missing newline after argument" && startsKey(src[at.Start.Byte:]):
		// a = 1 b = 2
		c.err(at, "Give each key a line of its own.", "a line holds one key")
		end := bytes.IndexByte(src[at.Start.Byte:], '\n')
		if end < 0 {
			end = len(src) - at.Start.Byte
		}
		c.loses(src, f.Name, at.Start.Byte, at.Start.Byte+end)
		return true
	}
	return c.mendLine(f, src, d)
}

// startsKey tells whether b begins with a key and its equals sign.
func startsKey(b []byte) bool {
	m := keyAndValue.FindIndex(b)
	return m != nil && m[0] == 0
}

func isName(b []byte) bool { return hclsyntax.ValidIdentifier(string(b)) }

func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// syntaxWords puts the parser's commonest messages into ours. What it says
// otherwise is passed on.
var syntaxWords = map[string][2]string{
	"Unclosed configuration block":               {"this block is never closed", "A } is missing, here or in a block inside."},
	"Attribute redefined":                        {"this key stands twice in its block", "Keep one. Several values are a list: [..., ...]"},
	"Missing newline after block definition":     {"something follows the block on its line", "Give it a line of its own."},
	"Missing newline after argument":             {"something follows the value on its line", "Give it a line of its own; text stands in quotes."},
	"Unexpected comma after argument":            {"a comma can't stand here", "Each key has a line of its own. Several values are a list: [..., ...]"},
	"Invalid single-argument block definition":   {"a block on one line is also closed on it", "Write NAME { KEY = VALUE }, or give { and } lines of their own."},
	"Argument definition required":               {"a block on one line holds one key", "Give the inner block a line of its own."},
	"Argument or block definition required":      {"a key or a block is expected here", `Write KEY = VALUE or NAME "LABEL" { ... }`},
	"Invalid argument name":                      {"a key is written without quotes", "Write KEY = VALUE."},
	"Invalid expression":                         {"a value is expected here", `Text in quotes, a number, true, false, a name or a list.`},
	"Missing expression":                         {"a value is expected here", `Text in quotes, a number, true, false, a name or a list.`},
	"Unterminated tuple constructor expression":  {"this list is never closed", "A ] is missing."},
	"Missing item separator":                     {"a comma is missing in this list", "Write [a, b]."},
	"Unterminated object constructor expression": {"this map is never closed", "A } is missing."},
	"Invalid multi-line string":                  {"this text is never closed", `A " is missing.`},
	"Unterminated template string":               {"this text is never closed", `A " is missing.`},
	"Unterminated string literal":                {"this text is never closed", `A " is missing.`},
	"Invalid block definition":                   {`a block starts with NAME { or NAME "LABEL" {`, "All of it on one line, without =."},
	"Invalid character encoding":                 {"this is not UTF-8", "Save the file as UTF-8."},
	"Invalid character":                          {"this character means nothing here", "Outside of quotes there are names, numbers, and = { } [ ] , . #"},
}

// firstAt finds the line of the first in the parser's message about a second.
var firstAt = regexp.MustCompile(`:(\d+),\d+-\d+\. Each`)

// syntaxError reports what the parser found, in our words.
func (c *checker) syntaxError(f File, d *hcl.Diagnostic) {
	at := *d.Subject
	if at.End.Line == at.Start.Line+1 && at.End.Column == 1 { // the line's end
		at.End = at.Start
		at.End.Column++
	}
	if d.Summary == keyTwice {
		where := "It was said before"
		if m := firstAt.FindStringSubmatch(d.Detail); m != nil {
			where = fmt.Sprintf("Line %s has it", m[1])
		}
		c.err(at, where+". Several values are a list: [..., ...]", "this key stands twice in its block")
		return
	}
	if rest := f.Src[min(at.Start.Byte, len(f.Src)):]; d.Summary == "Missing item separator" && statement.Match(rest) {
		c.err(at, "A ] is missing before this line.", "a list before it is never closed")
		return
	}
	if w, ok := syntaxWords[d.Summary]; ok {
		c.err(at, w[1], "%s", w[0])
		return
	}
	if hidden := hideSecrets(f.Src); at.End.Byte <= len(hidden) && !bytes.Equal(hidden[at.Start.Byte:at.End.Byte], f.Src[at.Start.Byte:at.End.Byte]) {
		c.err(at, `Write KEY = "VALUE".`, "this can't be read")
		return
	}
	detail, _, _ := strings.Cut(d.Detail, "\n")
	c.err(at, detail, "%s", strings.ToLower(d.Summary[:1])+d.Summary[1:])
}
