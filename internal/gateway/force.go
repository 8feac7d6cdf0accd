package gateway

import (
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
)

// version of a file: what was put in force, by whom and when.
type version struct {
	From  string       `json:"from"` // the path, as the user wrote it
	By    string       `json:"by"`   // run, apply, rollback
	Since time.Time    `json:"since"`
	Files []api.Source `json:"files"`
}

// force is the file in force and the one before it, as they are stored.
//
// The newest word counts: what was applied stays in force through restarts until
// something else is applied, or the text of the file that `weir run` names is not
// what it was when a start last took it.
type force struct {
	Current  version `json:"current"`
	Previous version `json:"previous"`
	// Run is the text that the last start read from the file that `weir run`
	// names, whether it was put in force then or not.
	Run []api.Source `json:"run"`
}

// start says which version a start with the file run takes, and what is stored
// from then on. why is for the log: empty if the file is simply the one in force.
func (f force) start(run version) (next force, why string) {
	next = f
	next.Run = run.Files
	switch {
	case len(f.Current.Files) == 0:
		next.Current = run
	case sameText(run.Files, f.Current.Files):
		// Keep since and by: nothing changed.
	case sameText(run.Files, f.Run) && f.Current.By != "run":
		why = "the file is the one of the last start, and another was put in force since: that one stays"
	default:
		next.Previous, next.Current = f.Current, run
		why = "the file has changed since the last start"
	}
	return next, why
}

// put is f after v was put in force.
func (f force) put(v version) force {
	if sameText(v.Files, f.Current.Files) {
		f.Current.From, f.Current.By, f.Current.Since = v.From, v.By, v.Since
		return f
	}
	f.Previous, f.Current = f.Current, v
	return f
}

// sameText says whether two versions say the same, whatever their files are called.
func sameText(a, b []api.Source) bool {
	return slices.EqualFunc(a, b, func(x, y api.Source) bool { return x.Text == y.Text })
}

func files(src []api.Source) []config.File {
	out := make([]config.File, len(src))
	for i, s := range src {
		out[i] = config.File{Name: s.Name, Src: []byte(s.Text)}
	}
	return out
}

func sources(fs []config.File) []api.Source {
	out := make([]api.Source, len(fs))
	for i, f := range fs {
		out[i] = api.Source{Name: f.Name, Text: string(f.Src)}
	}
	return out
}
