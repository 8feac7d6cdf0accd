package config

import (
	"strings"
	"testing"
)

// Whatever nests, nests without end in somebody's file; Go's stack does not. With -short
// it nests less: far more than is read, and not enough for a stack to end.
func TestNestedWithoutEnd(t *testing.T) {
	n := 300000
	if testing.Short() {
		n = 10000
	}
	for name, text := range map[string]string{
		"lists":      "wan \"a\" { interface = " + strings.Repeat("[", n) + strings.Repeat("]", n) + " }\n",
		"open":       "a = " + strings.Repeat("[", n),
		"objects":    "a = " + strings.Repeat("{ b = ", n),
		"brackets":   "a = " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + "\n",
		"blocks":     strings.Repeat("wan {\n", n),
		"not":        "a = " + strings.Repeat("!", n) + "true\n",
		"minus":      "a = " + strings.Repeat("- ", n) + "1\n",
		"conditions": "a = " + strings.Repeat("true ? 1 : ", n) + "2\n",
		"templates":  "a = " + strings.Repeat("\"${", n),
		"ifs":        "a = \"" + strings.Repeat("%{if true}", n) + "\"\n",
		"functions":  "a = " + strings.Repeat("f(", n),
		"indexes":    "a = " + strings.Repeat("b[", n),
		"for":        "a = " + strings.Repeat("[for x in ", n),
	} {
		t.Run(name, func(t *testing.T) {
			cfg, diags := Parse(File{Name: "deep.hcl", Src: []byte(text)})
			if cfg != nil || len(diags) == 0 {
				t.Fatalf("read as %+v", cfg)
			}
			for _, d := range diags {
				if strings.Contains(d.Summary, "too deep") && d.Line > 0 {
					return
				}
			}
			t.Errorf("no word of it: %v", diags[0])
		})
	}
}

// Laying a file out parses it too.
func TestFormatNestedWithoutEnd(t *testing.T) {
	n := 1000000
	if testing.Short() {
		n = 30000
	}
	text := "a = " + strings.Repeat("[", n)
	if out := Format([]byte(text)); string(out) != text {
		t.Error("it is laid out")
	}
}
