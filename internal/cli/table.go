package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in columns under headings, two spaces apart.
type table struct{ rows [][]string }

func newTable(headings ...string) *table { return &table{rows: [][]string{headings}} }

// row adds a row. An empty cell is shown as "-", but for the last column's, which
// is for remarks.
func (t *table) row(cells ...string) {
	for i := range cells[:len(cells)-1] {
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b bytes.Buffer
	for _, r := range t.rows {
		var line strings.Builder
		for i, c := range r {
			fmt.Fprintf(&line, "%-*s  ", widths[i], c)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return say(w, "%s", b.String())
}
