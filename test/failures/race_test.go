package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A package is run again only if nothing but the race detector itself failed in it.
func TestDetectorThatDied(t *testing.T) {
	const died, ended = "ThreadSanitizer: CHECK failed: tsan_rtl.cpp:346\n", "FAIL\tweir/b\t1s\n"
	for _, c := range []struct {
		name, first, second string // what go test prints, and then
		status              int
		again               bool
	}{
		{"nothing", "", "", 0, false},
		{"died", "ok  \tweir/a\t1s\n" + died + ended + "FAIL\n", "", 0, true},
		{"died twice", died + ended, died + ended, 1, true},
		{"and found a race", "WARNING: DATA RACE\n" + died + ended, "", 1, false},
		{"and a test failed elsewhere", died + ended + "--- FAIL: TestX (1s)\nFAIL\tweir/a\t1s\n", "", 1, false},
		{"no build", "# weir/b\nb.go:1:1: no\nFAIL\tweir/b [build failed]\n", "", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"1": c.first, "2": c.second, "go": `#!/bin/sh
cd "` + dir + `"; echo "$@" >> asked; n=$(wc -l < asked); cat $n; [ ! -s $n ]
`} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "../race", "-run", "A|B", "weir/a", "weir/b")
			cmd.Env = append(os.Environ(), "GO="+dir+"/go")
			out, err := cmd.CombinedOutput()
			status := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil {
				t.Fatal(err)
			}
			want := "test -race -short -vet=off -run A|B weir/a weir/b\n"
			if c.again {
				want += "test -race -short -vet=off -run A|B weir/b\n"
			}
			if status != c.status || string(asked) != want {
				t.Errorf("status %d, want %d; asked %q, want %q; it said:\n%s", status, c.status, asked, want, strings.TrimSpace(string(out)))
			}
		})
	}
}
