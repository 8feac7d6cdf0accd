package plan

import (
	"strings"
	"testing"
)

// Whatever the texts, taking the removed lines from the old and putting in the
// added ones gives the new.
func FuzzEdits(f *testing.F) {
	f.Add("a b c d e", "a x c e f")
	f.Add("", "a")
	f.Add("a a a b", "a b a a")
	f.Add("a b", "")
	f.Fuzz(func(t *testing.T, old, new string) {
		a, b := strings.Fields(old), strings.Fields(new)
		var was, is []string
		for _, l := range edits(a, b) {
			if l[0] != '+' {
				was = append(was, l[2:])
			}
			if l[0] != '-' {
				is = append(is, l[2:])
			}
		}
		if strings.Join(was, " ") != strings.Join(a, " ") || strings.Join(is, " ") != strings.Join(b, " ") {
			t.Errorf("%q -> %q gives %q", a, b, edits(a, b))
		}
	})
}

func TestLineDiffIsShort(t *testing.T) {
	old := "table inet weir {\n chain a {\n  1\n  2\n  3\n  4\n  5\n  6\n }\n chain b {\n  1\n  2\n }\n}\n"
	got := strings.Join(lineDiff(old, strings.Replace(old, "  5\n", "  five\n", 1)), "\n")
	want := "   chain a {\n  ...\n    3\n    4\n-   5\n+   five\n    6\n   }"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
