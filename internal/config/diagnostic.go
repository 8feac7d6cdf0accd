package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
)

// Severity tells a mistake from a remark.
type Severity string

// The severities. A file with a SeverityError has no Config.
const (
	SeverityError Severity = "error"
	SeverityNote  Severity = "note"
)

// Diagnostic is one thing to say about a file. It is also the JSON form.
// Lines and columns count from 1, columns in what a reader sees as characters;
// the end is exclusive. Line 0 means the file as a whole.
type Diagnostic struct {
	Severity  Severity `json:"severity"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Column    int      `json:"column"`
	EndLine   int      `json:"end_line"`
	EndColumn int      `json:"end_column"`
	Summary   string   `json:"summary"`
	Detail    string   `json:"detail,omitempty"` // what would be right
}

// Error makes a Diagnostic an error: its first line.
func (d Diagnostic) Error() string {
	s := printable(d.File)
	switch d.Line {
	case 0:
	case d.EndLine:
		s += fmt.Sprintf(":%d,%d-%d", d.Line, d.Column, d.EndColumn)
	default:
		s += fmt.Sprintf(":%d,%d-%d,%d", d.Line, d.Column, d.EndLine, d.EndColumn)
	}
	if d.Severity == SeverityNote {
		return s + ": note: " + d.Summary
	}
	return s + ": " + d.Summary
}

// Diagnostics is all there is to say, in file order.
type Diagnostics []Diagnostic

// HasErrors tells whether the files cannot be used.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// sort puts ds into file order: files as they were given, then line and column.
func (ds Diagnostics) sort(files []File) {
	order := make(map[string]int, len(files))
	for i, f := range files {
		if _, ok := order[f.Name]; !ok {
			order[f.Name] = i
		}
	}
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
}

// first is ds without what comes after the first n, of which it tells how many.
func (ds Diagnostics) first(n int) Diagnostics {
	if len(ds) <= n {
		return ds
	}
	more := 0
	for _, d := range ds[n:] {
		if d.Severity == SeverityError {
			more++
		}
	}
	ds = slices.Clone(ds[:n])
	return append(ds, Diagnostic{Severity: SeverityError, File: ds[n-1].File, Summary: fmt.Sprintf("and %d mistakes more", more), Detail: "They are told when those above are mended."})
}

// Format renders ds for a terminal: where, what, the line itself, and what
// would be right. files are those that were parsed. Secrets in a quoted line
// are hidden.
func (ds Diagnostics) Format(files []File) string {
	src := make(map[string][]string, len(files))
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.Error())
		b.WriteByte('\n')
		if d.Line == 0 {
			if d.Detail != "" {
				fmt.Fprintf(&b, "       %s\n", d.Detail)
			}
			continue
		}
		lines, ok := src[d.File]
		if !ok {
			for _, f := range files {
				if f.Name == d.File {
					lines = strings.Split(string(hideSecrets(f.Src)), "\n")
				}
			}
			src[d.File] = lines
		}
		text := ""
		if d.Line <= len(lines) {
			text = printable(strings.TrimSuffix(lines[d.Line-1], "\r"))
		}
		text, d = excerpt(text, d)
		fmt.Fprintf(&b, "%4d | %s\n", d.Line, text)
		fmt.Fprintf(&b, "%*s | %s", max(4, digits(d.Line)), "", underline(text, d))
		if d.Detail != "" {
			b.WriteString("  " + d.Detail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// excerpt is the part of a long line that d is about, and d with the columns that
// it has there.
func excerpt(text string, d Diagnostic) (string, Diagnostic) {
	const most, before = 160, 60
	r := []rune(text)
	if len(r) <= most {
		return text, d
	}
	from := min(max(d.Column-1-before, 0), len(r))
	to := min(from+most, len(r))
	text = string(r[from:to])
	if from > 0 {
		text, from = "…"+text, from-1
	}
	if to < len(r) {
		text += "…"
	}
	d.Column -= from
	if d.EndColumn -= from; d.EndLine != d.Line || d.EndColumn > most+2 {
		d.EndLine, d.EndColumn = d.Line, max(d.Column+1, len([]rune(text)))
	}
	return text, d
}

// underline returns the carets under text; tabs stay tabs, so that they line up.
func underline(text string, d Diagnostic) string {
	var b strings.Builder
	col := 1
	for _, r := range text {
		if col >= d.Column {
			break
		}
		switch {
		case unicode.Is(unicode.Mn, r): // sits on the letter before it
			continue
		case r == '\t':
			b.WriteByte('\t')
		default:
			b.WriteByte(' ')
		}
		col++
	}
	for ; col < d.Column; col++ {
		b.WriteByte(' ')
	}
	end := d.EndColumn
	if d.EndLine != d.Line {
		end = len([]rune(text)) + 1
	}
	b.WriteString(strings.Repeat("^", max(1, end-d.Column)))
	return b.String()
}

// printable replaces what would act on a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

func digits(n int) int { return len(fmt.Sprint(n)) }

func (c *checker) say(s Severity, at hcl.Range, summary, detail string) {
	c.diags = append(c.diags, Diagnostic{
		Severity: s, File: at.Filename,
		Line: at.Start.Line, Column: at.Start.Column,
		EndLine: at.End.Line, EndColumn: at.End.Column,
		Summary: printable(summary), Detail: printable(detail),
	})
}

// err reports a mistake at a place of the files: what it is, and what would be right.
func (c *checker) err(at hcl.Range, detail, summary string, args ...any) {
	c.say(SeverityError, at, fmt.Sprintf(summary, args...), detail)
}

// note reports what is allowed and might still surprise.
func (c *checker) note(at hcl.Range, detail, summary string, args ...any) {
	c.say(SeverityNote, at, fmt.Sprintf(summary, args...), detail)
}

// line says where a thing is, seen from a message about another.
func line(at, from hcl.Range) string {
	if at.Filename != from.Filename {
		return fmt.Sprintf("line %d of %s", at.Start.Line, at.Filename)
	}
	return fmt.Sprintf("line %d", at.Start.Line)
}

// sentence makes the first letter of s a capital.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
