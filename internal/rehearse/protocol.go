package rehearse

import (
	"weir/internal/config"
)

// Arg is the hidden subcommand by which this program is run again as pid 1 of a
// lab; see Inside.
const Arg = "lab-init"

// request is what the process in a lab is told, as a line of JSON.
type request struct {
	Files    []config.File `json:"files"`
	Dir      bool          `json:"dir"` // the file is a folder of them
	Run      string        `json:"run"` // "": tell only what can be had here
	Machine  Machine       `json:"machine"`
	Only     []string      `json:"only"`
	Keep     bool          `json:"keep"`
	Long     *Pace         `json:"long,omitempty"`
	Sabotage []string      `json:"sabotage,omitempty"` // tests only: see Saboteurs
}

// message is what it answers, each a line of JSON. One of its fields is set,
// but for what is told with another.
type message struct {
	Doing   string   `json:"doing,omitempty"`   // what is being done now
	Step    string   `json:"step,omitempty"`    // how far that is, with Doing
	Results []Result `json:"results,omitempty"` // of an act
	First   float64  `json:"first,omitempty"`   // seconds from the start to the first packet forwarded
	Machine *Machine `json:"machine,omitempty"`
	Kept    bool     `json:"kept,omitempty"` // all is done, and the lab stays
	Err     string   `json:"err,omitempty"`  // the lab could not be made, or the daemon not started
	Log     string   `json:"log,omitempty"`  // the daemon's, with Err
}
