package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What breaks one block so that the parser can't go on, by the block's text.
var breaks = map[string]func(string) string{
	"its last brace is missing":     func(s string) string { return s[:len(s)-1] },
	"a brace too many":              func(s string) string { return s + "\n}" },
	"its brace is on the next line": func(s string) string { return strings.Replace(s, "{", "\n{", 1) },
	"a key in quotes":               func(s string) string { return s[:len(s)-1] + "\n  \"a\" = 1\n}" },
	"a list that is never closed":   func(s string) string { return s[:len(s)-1] + "\n  a = [1,\n}" },
	"a block that is never closed":  func(s string) string { return s[:len(s)-1] + "\n  a {\n}" },
	"no text at all":                func(s string) string { return s[:len(s)-1] + "\n  \xff ?? )\n}" },
}

// A block that can't be read costs the others nothing: their mistakes are told at once,
// and nothing is said to be missing that may stand in it.
func TestWhatIsWrongWithOneBlockHidesNothingOfTheOthers(t *testing.T) {
	const others = "allow \"planted-name\" { to = host.is-not-there }\nallow \"planted-type\" { to = self\nport = \"ssh\" }\n" +
		"group \"planted-circle\" { member = group.planted-circle }\n"
	planted := []string{`there is no host "is-not-there"`, `"ssh"`, `group "planted-circle" is in itself`}
	wrecks := 0
	for _, f := range validFiles(t) {
		parsed, diags := hclsyntax.ParseConfig(f.Src, "", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		others := strings.ReplaceAll(others, "{ to = self\nport = \"ssh\" }", "{\n  to   = self\n  port = \"ssh\"\n}")
		for _, b := range parsed.Body.(*hclsyntax.Body).Blocks {
			from, to := b.TypeRange.Start, b.CloseBraceRange.End
			if from.Line == to.Line || testing.Short() && wrecks > 50 {
				continue
			}
			for what, wreck := range breaks {
				broken := wreck(string(f.Src[from.Byte:to.Byte]))
				src := string(f.Src[:from.Byte]) + broken + string(f.Src[to.Byte:]) + "\n"
				wrecks++
				last := from.Line + strings.Count(broken, "\n") + 1
				own := len(strings.Split(src, "\n"))
				_, diags := sound(t, File{Name: f.Name, Src: []byte(src + others)})
				in := false
				var told []string
				for _, d := range diags {
					switch {
					case d.Severity != SeverityError:
					case d.Line >= own:
						told = append(told, d.Summary)
					case from.Line <= d.Line && d.Line <= last:
						in = true
					default:
						t.Errorf("%s, %s of line %d, %s: a mistake is found that is none:\n%s", f.Name, b.Type, from.Line, what, Diagnostics{d}.Format([]File{{Name: f.Name, Src: []byte(src)}}))
					}
				}
				if !in {
					t.Errorf("%s, %s of line %d, %s: it is not told", f.Name, b.Type, from.Line, what)
				}
				for _, p := range planted {
					if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, p) }) {
						t.Errorf("%s, %s of line %d, %s: of the others %q is not told, but %q", f.Name, b.Type, from.Line, what, p, told)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d blocks were broken", wrecks)
	if wrecks < 40 {
		t.Error("too few to tell anything")
	}
}
