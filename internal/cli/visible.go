package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// visible replaces what would act on a terminal: names of files, a person's name,
// what a service said last and the like are others' words.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// say writes text for a person to read.
func say(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, visible(fmt.Sprintf(format, args...)))
	return err
}
