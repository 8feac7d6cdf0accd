package gateway

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir/internal/api"
)

func say(by, text string) version {
	return version{From: "/etc/weir.hcl", By: by, Files: []api.Source{{Name: "weir.hcl", Text: text}}}
}

// TestTheNewestWordCounts follows houses through starts, applies and rollbacks;
// each step says which text is in force after it.
func TestTheNewestWordCounts(t *testing.T) {
	type step struct{ do, text, want string }
	for name, steps := range map[string][]step{
		"a start takes the file":                       {{"run", "A", "A"}},
		"started again":                                {{"run", "A", "A"}, {"run", "A", "A"}},
		"edited, then started":                         {{"run", "A", "A"}, {"run", "B", "B"}},
		"applied from elsewhere survives a restart":    {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "A", "B"}, {"run", "A", "B"}},
		"edited in place and applied":                  {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "B", "B"}},
		"applied from elsewhere, then the file edited": {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "C", "C"}},
		"rolled back survives a restart":               {{"run", "A", "A"}, {"apply", "B", "B"}, {"rollback", "", "A"}, {"run", "A", "A"}},
		"edited, applied, rolled back, started":        {{"run", "A", "A"}, {"apply", "B", "B"}, {"run", "B", "B"}, {"rollback", "", "A"}, {"run", "B", "A"}},
		"a start with another file can be rolled back": {{"run", "A", "A"}, {"run", "B", "B"}, {"rollback", "", "A"}},
		"rolled back twice":                            {{"run", "A", "A"}, {"apply", "B", "B"}, {"rollback", "", "A"}, {"rollback", "", "B"}},
		"applied twice the same":                       {{"run", "A", "A"}, {"apply", "B", "B"}, {"apply", "B", "B"}, {"rollback", "", "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			var f force
			for i, s := range steps {
				switch s.do {
				case "run":
					f, _ = f.start(say("run", s.text))
				case "apply":
					f = f.put(say("apply", s.text))
				case "rollback":
					v := f.Previous
					v.By = "rollback"
					f = f.put(v)
				}
				if got := f.Current.Files[0].Text; got != s.want {
					t.Fatalf("step %d, %s %s: %s is in force, want %s", i+1, s.do, s.text, got, s.want)
				}
			}
		})
	}
}

func TestFilesAndSourcesAreTheSame(t *testing.T) {
	want := []api.Source{{Name: "a.hcl", Text: "a"}, {Name: "b.hcl", Text: "b"}}
	if d := cmp.Diff(want, sources(files(want))); d != "" {
		t.Error(d)
	}
}
