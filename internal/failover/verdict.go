package failover

import "fmt"

// A Verdict says whether a line may carry new connections. The zero value is
// invalid, so that a field nobody set shows. The picture is in the package's
// comment.
type Verdict uint8

// The verdicts.
const (
	_         Verdict = iota
	Absent            // no address or no default route: there is no line to judge
	Untried           // never judged yet: it has an address, and the first probes are under way
	Up                // answers
	Degraded          // works, but loses or delays more than the thresholds
	Suspect           // did not answer a probe in time; a burst is under way
	Down              // silent, or without carrier
	Returning         // answers again, but not yet for the hold-down
)

var verdictName = [...]string{Absent: "absent", Untried: "untried", Up: "up", Degraded: "degraded", Suspect: "suspect", Down: "down", Returning: "returning"}

func (v Verdict) String() string {
	if v == 0 || int(v) >= len(verdictName) {
		return fmt.Sprintf("verdict(%d)", uint8(v))
	}
	return verdictName[v]
}

// MarshalText is the word of String; the zero value is an error.
func (v Verdict) MarshalText() ([]byte, error) {
	if v == 0 || int(v) >= len(verdictName) {
		return nil, fmt.Errorf("%v has no name", v)
	}
	return []byte(verdictName[v]), nil
}

// UnmarshalText reads what MarshalText writes.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, name := range verdictName {
		if i > 0 && name == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("no verdict is called %q", b)
}

// Works says that a line can carry connections as far as is known.
func (v Verdict) Works() bool {
	return v == Up || v == Degraded || v == Suspect || v == Returning || v == Untried
}

// Family is an address family. The zero value is invalid.
type Family uint8

// The families, as users call them.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

func (f Family) String() string { return fmt.Sprintf("IPv%d", uint8(f)) }

// LineID names a line: one family of one WAN.
type LineID struct {
	WAN    string `json:"wan"`
	Family Family `json:"family"`
}

func (id LineID) String() string { return id.WAN + " " + id.Family.String() }
