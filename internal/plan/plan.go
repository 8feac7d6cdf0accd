// Package plan compares what the kernel holds with what it should hold, and
// says in which steps the one becomes the other.
//
//	steps = Diff(actual, desired)
//
// Diff is pure. Its steps are in an order in which none opens a hole: a filter
// before what it filters, a policy before an address, a table before the rule
// that leads there; what destroys comes last, and flows are ended after that, when
// nothing can fail any more. internal/kernel carries them out.
package plan

import (
	"encoding/json"
	"net/netip"

	"weir/internal/desired"
	"weir/internal/ruleset"
)

// Plan is what a turn would do. The zero value does nothing.
type Plan struct {
	Steps []Step `json:"steps"`

	// Waiting says what has to appear first: "waiting for eth1: it isn't there
	// yet". What depends on it is not in Steps.
	Waiting []string `json:"waiting,omitempty"`

	// Refused says what can't be done here, and what to do about it. A plan with
	// any is not applied.
	Refused []string `json:"refused,omitempty"`

	Notes []string `json:"notes,omitempty"` // what is worth knowing and stops nothing

	// For internal/kernel: what it stores before the first step and after the last.
	Goal   desired.Desired `json:"-"`
	Found  Found           `json:"-"` // what these steps are the first to change, as it is now
	Forget Found           `json:"-"` // what these steps give back (only the keys count)
}

// Empty says that the kernel holds what it should, as far as that is possible now.
func (p Plan) Empty() bool { return len(p.Steps) == 0 && len(p.Refused) == 0 }

// MarshalJSON writes steps as a list even where there are none: `.steps[]` is no
// error for a plan that does nothing.
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	if p.Steps == nil {
		p.Steps = []Step{}
	}
	return json.Marshal(plain(p))
}

// Op is what a step does to an object, or what somebody else did to it.
type Op string

// The operations.
const (
	Add    Op = "add"
	Change Op = "change"
	Remove Op = "remove"
)

// Step is one thing done to one object.
type Step struct {
	Op     Op     `json:"op"`
	Drift  bool   `json:"drift,omitempty"` // mends what somebody else changed
	NS     string `json:"namespace"`       // "" is main
	Object string `json:"object"`          // "link", "address", "route", "rule", "sysctl", "nft table", "nft sets", "flows", "namespace", "fast path"
	Name   string `json:"name"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
	Why    string `json:"why,omitempty"`

	// Detail is text of several lines: a ruleset, or how one changes, each
	// line led by "+ ", "- " or two spaces.
	Detail []string `json:"detail,omitempty"`

	Do Action `json:"-"`
}

// Action is what the kernel is asked to do: one of the types below. Each
// carries what is needed to undo it.
type Action interface{ action() }

// CreateNamespace makes a namespace, with lo up.
type CreateNamespace struct{ Name string }

// DeleteNamespace removes an empty one (its ports have been moved out).
type DeleteNamespace struct{ Name string }

// AddLink makes a link (a veth with its other end), down, marked with Alias.
type AddLink struct {
	NS   string
	Link desired.Link
}

// DeleteLink removes a link that weir made. Lost goes with it.
type DeleteLink struct {
	NS   string
	Link desired.Link
	Lost Lost
}

// Lost is what the kernel drops of itself when a link goes or moves.
type Lost struct {
	Up      bool
	Addrs   []Addr
	Routes  []Route
	Members []string // of a bridge
	Sysctls []desired.Sysctl
	MAC     string
	MTU     int
	Master  string
	AddrGen uint8
	Far     *Lost // what the other end of a cable loses
}

// MoveLink moves a port to another namespace. It arrives down and bare.
type MoveLink struct {
	Link     string
	From, To string
	Lost     Lost
}

// SetLink changes attributes of a link. A zero field of New (nil for Up and
// Master) is left alone.
type SetLink struct {
	NS, Link string
	Old, New LinkAttrs
	Bounce   bool // the link is up and has to go down for it
	Lost     Lost // if it goes down
}

// LinkAttrs are attributes of a link that can be set.
type LinkAttrs struct {
	Up      *bool
	MTU     int
	MAC     string
	Master  *string // "" is none
	AddrGen *uint8
	Alias   string // Alias, where somebody took it off
}

// PutAddr puts New on a link, after taking away Old: the same address with
// another length.
type PutAddr struct {
	NS  string
	Old *Addr // nil: there is none
	New Addr
}

// RouteAddr puts back the routes that the kernel made for an address.
type RouteAddr struct {
	NS   string
	Addr Addr
}

// DeleteAddr takes an address from a link. Other addresses of its network stay.
type DeleteAddr struct {
	NS   string
	Addr Addr
	Lost []Route // routes that have it as source
}

// PutRoute adds New, or puts it in Old's place without a gap.
type PutRoute struct {
	NS  string
	Old *Route // nil: there is none
	New Route
}

// DeleteRoute removes a route.
type DeleteRoute struct {
	NS    string
	Route Route
}

// PutRule adds New, and then removes Old if there is one.
type PutRule struct {
	NS  string
	Old *Rule
	New Rule
}

// DeleteRule removes a rule.
type DeleteRule struct {
	NS   string
	Rule Rule
}

// SetSysctl writes a value. Old is what it was; "" if it only comes to be
// with an earlier step.
type SetSysctl struct {
	NS, Key, Old, New string
	Raise             bool // only if it is less than New
	Found             bool // as it is when the step comes, so it was before weir
}

// LoadTable makes New the nft table of the namespace, in one transaction: rules
// are replaced, named counters and what was learned live on. The table goes if
// New.Text is "".
type LoadTable struct {
	NS  string
	Old Table
	New ruleset.Table
}

// SetElements changes elements of named sets and maps, in one transaction.
type SetElements struct {
	NS      string
	Changes []SetChange
	Old     Table
	New     ruleset.Table
}

// SetChange is what changes in one set. With Flush all that is there goes first.
type SetChange struct {
	Name        string
	Delete, Add []string
	Flush       bool
}

// DeleteFlows deletes the conntrack entries of main whose mark under Mask is
// Mark, in one request. It cannot be undone: flows come back by themselves.
type DeleteFlows struct {
	Mark, Mask uint32
	Family     int  // 4, 6, or 0 for both
	Unanswered bool // only those of which nothing came back yet

	// Prod says that the clients of TCP connections that went out are prodded: what
	// only listens would never notice.
	Prod bool
}

// PutShortcut attaches the fast path's programs, or changes what they know; with
// New nil it detaches them.
type PutShortcut struct {
	NS       string
	Old, New *desired.Shortcut // Old is nil where what was there is not to be put back
}

// PutFlows has the program of the flows on these links of a namespace, and on no other
// of its links.
type PutFlows struct {
	NS       string
	Old, New []string
}

func (CreateNamespace) action() {}
func (DeleteNamespace) action() {}
func (AddLink) action()         {}
func (DeleteLink) action()      {}
func (MoveLink) action()        {}
func (SetLink) action()         {}
func (PutAddr) action()         {}
func (RouteAddr) action()       {}
func (DeleteAddr) action()      {}
func (PutRoute) action()        {}
func (DeleteRoute) action()     {}
func (PutRule) action()         {}
func (DeleteRule) action()      {}
func (SetSysctl) action()       {}
func (LoadTable) action()       {}
func (SetElements) action()     {}
func (DeleteFlows) action()     {}
func (PutShortcut) action()     {}
func (PutFlows) action()        {}

// place names a namespace as people read it.
func place(ns string) string {
	if ns == "" {
		return "main"
	}
	return ns
}

// isDefault says whether p is everything.
func isDefault(p netip.Prefix) bool { return p.Bits() == 0 }
