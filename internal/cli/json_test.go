package cli

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
	"weir/internal/doctor"
	"weir/internal/plan"
	"weir/internal/rehearse"
)

// TestDocumentedJSON holds docs/json.md against what is printed, field by field.
func TestDocumentedJSON(t *testing.T) {
	b, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(b), "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	for title, shape := range map[string]reflect.Type{
		"weir status":                reflect.TypeFor[api.Status](),
		"weir top":                   reflect.TypeFor[api.Traffic](),
		"weir use":                   reflect.TypeFor[api.Used](),
		"weir doctor":                reflect.TypeFor[[]doctor.Finding](),
		"weir history":               reflect.TypeFor[[]api.Past](),
		"weir leases":                reflect.TypeFor[[]api.Lease](),
		"weir why":                   reflect.TypeFor[api.Why](),
		"weir log":                   reflect.TypeFor[api.Refused](),
		"weir log --dns":             reflect.TypeFor[api.Asked](),
		"weir plan, apply, rollback": reflect.TypeFor[plan.Plan](),
		"weir rehearse":              reflect.TypeFor[rehearse.Report](),
	} {
		t.Run(title, func(t *testing.T) {
			var example any
			if err := json.Unmarshal([]byte(exampleOf(sections[title])), &example); err != nil {
				t.Fatalf("the example is no JSON but for its remarks: %v", err)
			}
			documented, open := map[string]bool{}, map[string]bool{}
			inExample("", example, documented, open)
			printed := map[string]bool{}
			inType("", shape, printed)
			within := func(path string) bool { // of an object that the example leaves open: {...}
				for o := range open {
					if strings.HasPrefix(path, o+".") {
						return true
					}
				}
				return false
			}
			maps.DeleteFunc(printed, func(p string, _ bool) bool {
				return within(p) || strings.HasPrefix(p, ".drills.promise") // taken out before it is printed: .promises
			})
			if d := cmp.Diff(slices.Sorted(maps.Keys(printed)), slices.Sorted(maps.Keys(documented))); d != "" {
				t.Errorf("-printed +documented\n%s", d)
			}
		})
	}
}

// remark is what stands behind a line of an example.
var remark = regexp.MustCompile(`^(\s*\S.*?[],{}["\w.])\s{2,}\S.*$`)

// exampleOf is a section's first indented block, without its remarks.
func exampleOf(section string) string {
	var out strings.Builder
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "    ") {
			if out.Len() > 0 {
				break
			}
			continue
		}
		line = remark.ReplaceAllString(strings.TrimRight(line, "\n"), "$1")
		out.WriteString(strings.ReplaceAll(line, "{...}", "{}") + "\n")
	}
	return out.String()
}

// inExample gathers the paths of all fields, and those of empty objects.
func inExample(at string, v any, paths, open map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			open[at] = true
		}
		for name, v := range v {
			paths[at+"."+name] = true
			inExample(at+"."+name, v, paths, open)
		}
	case []any:
		for _, v := range v {
			inExample(at, v, paths, open)
		}
	}
}

// inType gathers the paths of all fields that a type prints.
func inType(at string, t reflect.Type, paths map[string]bool) {
	switch {
	case t == reflect.TypeFor[time.Time]():
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]():
		inType(at, t.Elem(), paths)
	case t.Kind() == reflect.Struct:
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if f.Anonymous && name == "" { // its fields are printed as the outer one's
				inType(at, f.Type, paths)
				continue
			}
			if name == "" {
				name = f.Name
			}
			paths[at+"."+name] = true
			inType(at+"."+name, f.Type, paths)
		}
	}
}
