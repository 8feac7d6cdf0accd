package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestFormat reads testdata/format: a file, and how it is laid out.
func TestFormat(t *testing.T) {
	paths, _ := filepath.Glob("testdata/format/*.txtar")
	if len(paths) == 0 {
		t.Fatal("no cases")
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil || len(a.Files) != 2 {
				t.Fatalf("%s: %v, %d files", path, err, len(a.Files))
			}
			got := Format(a.Files[0].Data)
			if *update {
				a.Files[1].Data = got
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(a.Files[1].Data), string(got)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// formatKeeps checks what Format promises of any text.
func formatKeeps(t *testing.T, src []byte) {
	t.Helper()
	out := Format(src)
	if again := Format(out); string(again) != string(out) {
		t.Errorf("formatting twice changes more:\n%q\n%q\n%q", src, out, again)
	}
	a, da := Parse(File{Name: "f.hcl", Src: src})
	b, db := Parse(File{Name: "f.hcl", Src: out})
	if d := cmp.Diff(a, b, same); d != "" {
		t.Errorf("formatting %q changes what it means:\n%s", src, d)
	}
	if len(da) != len(db) {
		t.Errorf("formatting changes what is said about it:\n%q\n%v\n%v", src, da, db)
	}
}

// TestFormatLineEnds wants one kind of line's end in a file from elsewhere.
func TestFormatLineEnds(t *testing.T) {
	const in = "# a\r\nlan \"home\" { // b\r\n  /* c\r\nd */\r\n  address = \"192.0.2.1/24\" # e\r\n}\r\n"
	const want = "# a\nlan \"home\" { // b\n  /* c\nd */\n  address = \"192.0.2.1/24\" # e\n}\n"
	if d := cmp.Diff(want, string(Format([]byte(in)))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestExamplesAreFormatted(t *testing.T) {
	paths, _ := filepath.Glob("../../examples/*.hcl")
	for _, p := range append(paths, referencePath) {
		f := read(t, p)
		if d := cmp.Diff(string(f.Src), string(Format(f.Src))); d != "" {
			t.Errorf("%s (-file +formatted):\n%s", p, d)
		}
		formatKeeps(t, f.Src)
		formatKeeps(t, []byte(strings.ReplaceAll(string(f.Src), "\n", "\n\n\n")))
		formatKeeps(t, []byte(strings.ReplaceAll(string(f.Src), "  ", "\t")))
		formatKeeps(t, []byte(strings.ReplaceAll(string(f.Src), "\n", "\r\n")))
	}
}
