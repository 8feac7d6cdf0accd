package config

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const referencePath = "../../docs/reference.hcl"

func TestReferenceIsMadeFromTheTable(t *testing.T) {
	if *update {
		if err := os.WriteFile(referencePath, Reference(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(read(t, referencePath).Src), string(Reference())); d != "" {
		t.Errorf("docs/reference.hcl is stale (-file +table); run with -update:\n%s", d)
	}
}

// same compares what two files mean: places in the file are left out.
var same = cmp.Options{
	cmpopts.IgnoreTypes(Pos{}),
	cmp.Comparer(func(a, b interface{ String() string }) bool { return a.String() == b.String() }),
}

func TestReferenceIsTheDefaults(t *testing.T) {
	ref := read(t, referencePath)
	with, diags := Parse(ref)
	if with == nil {
		t.Fatal(diags.Format([]File{ref}))
	}
	bare := File{Name: "bare.hcl", Src: withoutDefaults(t, ref.Src)}
	without, diags := Parse(bare)
	if without == nil {
		t.Fatal(diags.Format([]File{bare}))
	}
	if d := cmp.Diff(without, with, same); d != "" {
		t.Errorf("what the reference calls defaults are not (-unsaid +said):\n%s", d)
	}
	if n, all := bytes.Count(bare.Src, []byte(" = ")), bytes.Count(ref.Src, []byte("\n")); n > 18 || all < 100 {
		t.Errorf("the bare file still says %d things:\n%s", n, bare.Src)
	}
}

// withoutDefaults takes all keys out of src whose default can be written, and
// the blocks that are empty then, and all comments.
func withoutDefaults(t *testing.T, src []byte) []byte {
	t.Helper()
	f, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var b strings.Builder
	var walk func(d *block, body *hclsyntax.Body) bool
	walk = func(d *block, body *hclsyntax.Body) bool {
		said := false
		for _, a := range body.Attributes {
			if k := d.key(a.Name); k.def == "" {
				r := a.Expr.Range()
				b.WriteString(a.Name + " = " + string(src[r.Start.Byte:r.End.Byte]) + "\n")
				said = true
			}
		}
		for _, s := range body.Blocks {
			before := b.Len()
			b.WriteString(s.Type)
			for _, l := range s.Labels {
				b.WriteString(` "` + l + `"`)
			}
			b.WriteString(" {\n")
			if !walk(d.block(s.Type), s.Body) {
				kept := b.String()[:before]
				b.Reset()
				b.WriteString(kept)
				continue
			}
			b.WriteString("}\n")
			said = true
		}
		return said
	}
	walk(language, f.Body.(*hclsyntax.Body))
	return Format([]byte(b.String()))
}

// TestReferenceExamples takes the # from each key that stands behind one: the
// example must be right too.
func TestReferenceExamples(t *testing.T) {
	lines := strings.Split(string(Reference()), "\n")
	example := regexp.MustCompile(`^( *)# ([a-z_0-9]+ = .*)$`)
	tried := 0
	for i, l := range lines {
		m := example.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		tried++
		try := slices.Clone(lines)
		try[i] = m[1] + m[2]
		key, _, _ := strings.Cut(m[2], " ")
		if key == "address" || key == "gateway" { // of a static line: both, and nothing beside them
			for j := i; !strings.HasSuffix(try[j], "{"); j-- {
				if strings.Contains(try[j], " method ") {
					try[j] = ""
				}
				if e := example.FindStringSubmatch(try[j]); e != nil && strings.HasPrefix(e[2], "address") {
					try[j] = e[1] + e[2]
				}
			}
			for j := i; strings.TrimSpace(try[j]) != "}"; j++ {
				if e := example.FindStringSubmatch(try[j]); e != nil && strings.HasPrefix(e[2], "gateway") {
					try[j] = e[1] + e[2]
				}
			}
		}
		if key == "only" || key == "never" { // in the place of prefer
			for j := i; !strings.HasSuffix(try[j], "{"); j-- {
				if strings.HasPrefix(strings.TrimSpace(try[j]), "prefer ") {
					try[j] = ""
				}
			}
			try = append(try, `wan "lte" { interface = "eth9" }`) // there has to be another
		}
		switch key {
		case "cname": // in the place of the address
			for j := i; !strings.HasSuffix(try[j], "{"); j-- {
				if strings.HasPrefix(strings.TrimSpace(try[j]), "address ") {
					try[j] = ""
				}
			}
		case "forward": // another zone, and nothing else in it
			for j := i; !strings.HasSuffix(try[j], "{"); j-- {
				try[j-1] = strings.Replace(try[j-1], "home.arpa", "branch.example", 1)
			}
			for j := i + 1; try[j] != "  }"; j++ {
				try[j] = ""
			}
		}
		f := File{Name: "reference.hcl", Src: []byte(strings.Join(try, "\n"))}
		if _, diags := Parse(f); diags.HasErrors() {
			t.Errorf("line %d, %s:\n%s", i+1, m[2], diags.Format([]File{f}))
		}
	}
	if tried < 20 {
		t.Errorf("only %d examples found", tried)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	ref := string(Reference())
	var walk func(d *block)
	walk = func(d *block) {
		for _, k := range d.keys {
			if !k.later && !regexp.MustCompile(`(?m)^ *(# )?`+k.name+` += `).MatchString(ref) {
				t.Errorf("%s of %s is not in the reference", k.name, d.name)
			}
			if !k.later && (k.doc == "" || !k.required && k.meaning() == "" || k.def == "" && k.example == "") {
				t.Errorf("%s of %s is not explained", k.name, d.name)
			}
			if !strings.Contains(ref, k.name) {
				t.Errorf("%s of %s is not even named", k.name, d.name)
			}
		}
		for _, s := range d.blocks {
			if !d.later && !strings.Contains(ref, s.name) {
				t.Errorf("block %s is not named", s.name)
			}
			if !s.later {
				walk(s)
			}
		}
	}
	walk(language)
}

func TestHelp(t *testing.T) {
	for _, name := range Topics() {
		text, ok := Help(name)
		if !ok || !strings.Contains(text, name) {
			t.Errorf("Help(%q) = %q, %v", name, text, ok)
		}
	}
	if text, ok := Help("tunnel"); !ok || !strings.Contains(text, "can't do it yet") {
		t.Errorf("Help of what comes later: %q, %v", text, ok)
	}
	if _, ok := Help("nonsense"); ok {
		t.Error("there is help for nonsense")
	}
}
