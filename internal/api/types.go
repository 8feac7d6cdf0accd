// Package api is how the command line and others talk to a running weir: HTTP
// on a unix socket under the runtime directory, versioned under /v1/.
//
// The shapes are documented in docs/api.md. Within a version fields are added
// and never change their meaning; a reader ignores what it does not know.
// Durations are numbers with their unit in the name, times are RFC 3339, and an
// unknown value is left out.
package api

import (
	"encoding/json"
	"time"
)

// Status is the whole gateway at one moment: GET /v1/status.
type Status struct {
	Version  string    `json:"version"`
	Gateway  string    `json:"gateway"` // the file's name for it
	Started  time.Time `json:"started"` // of this daemon; the kernel may have forwarded longer
	File     File      `json:"file"`
	Turn     Turn      `json:"turn"`
	IPv4     Use       `json:"ipv4"`
	IPv6     Use       `json:"ipv6"`
	Choice   *Choice   `json:"choice,omitempty"` // left out: nobody chose, failover does
	WANs     []WAN     `json:"wans"`             // in file order
	LANs     []LAN     `json:"lans"`             // in file order
	Forwards []Forward `json:"forwards"`         // in file order
	Time     *Time     `json:"time,omitempty"`   // left out: nobody keeps it

	BlockLists []BlockList `json:"block_lists,omitempty"` // in file order

	Services []Service `json:"services"`
	Unstored string    `json:"unstored,omitempty"` // why what changes can't be stored at the moment; left out: it can
	Notes    []string  `json:"notes,omitempty"`    // what is worth knowing and stops nothing
}

// File says which file is in force and since when.
type File struct {
	Names []string  `json:"names"`
	From  string    `json:"from"` // the path it was read from, as the user wrote it
	By    string    `json:"by"`   // "run", "apply", "rollback", "unconfirmed" or "recovered"
	Who   string    `json:"who,omitempty"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since"`

	// ConfirmBy is when the file before comes back if nobody confirms this one. Left
	// out: this one is there to stay.
	ConfirmBy time.Time `json:"confirm_by,omitzero"`
}

// Past is a file that was in force, or is: GET /v1/history has them, the newest first.
type Past struct {
	File
	Back  int `json:"back"`  // how many changes ago; 0 is in force
	Bytes int `json:"bytes"` // of text
}

// Turn is the last time that the kernel was compared with the file.
type Turn struct {
	At     time.Time `json:"at"`
	TookMS float64   `json:"took_ms"`
	Count  uint64    `json:"count"`              // turns since the start
	Error  string    `json:"error,omitempty"`    // why the last one failed; it is tried again
	Retry  time.Time `json:"retry_at,omitzero"`  // when
	Failed uint64    `json:"failures,omitempty"` // in a row
}

// Use says which line new connections of a family take.
type Use struct {
	WAN   string    `json:"wan,omitempty"` // empty: none
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`

	// Address is the one that the house appears as in this family: the first that
	// the line in use has. It is what a dynamic DNS client publishes.
	Address string `json:"address,omitempty"`
}

// Choice is a person's choice of a line: POST /v1/use. New connections take it
// while it works.
type Choice struct {
	WAN   string    `json:"wan"` // in the request: "" leaves it to failover
	By    string    `json:"by"`  // who chose
	Since time.Time `json:"since,omitzero"`
}

// Used is what became of a choice.
type Used struct {
	IPv4   Use     `json:"ipv4"`
	IPv6   Use     `json:"ipv6"`
	Choice *Choice `json:"choice,omitempty"`
}

// WAN is one line.
type WAN struct {
	Name      string `json:"name"`
	Interface string `json:"interface"` // of the file
	Link      string `json:"link"`      // the link's name in the namespace
	Namespace string `json:"namespace"`
	Cable     string `json:"cable"` // the cable's end in main
	Mark      uint8  `json:"mark"`  // low byte of ct mark
	Present   bool   `json:"present"`
	Carrier   bool   `json:"carrier"`
	MTU       int    `json:"mtu,omitempty"`
	IPv4      Line   `json:"ipv4"`
	IPv6      Line   `json:"ipv6"`

	FastPath    string `json:"fast_path"`               // the form on the port: "tc" or "off"
	FastPathWhy string `json:"fast_path_why,omitempty"` // why it is off

	Flows *Flows `json:"flows,omitempty"` // left out: none left the line since the start
}

// Flows is what became of the flows that left a line the last time any did: it was
// lost, a preferred one is used again, or its address changed.
type Flows struct {
	At      time.Time `json:"at"`
	Moved   int       `json:"moved"`   // go on by another line: UDP, ICMP, what had no answer yet. About: by how much conntrack's table shrank
	Prodded int       `json:"prodded"` // TCP connections whose client was told that theirs is gone
	Reset   int       `json:"reset"`   // resets that clients were sent upon that, by the rules' counters
}

// The verdicts of a line.
const (
	VerdictUp        = "up"        // answers
	VerdictDegraded  = "degraded"  // works, but loses or delays more than the file's thresholds
	VerdictSuspect   = "suspect"   // a probe was lost and a burst is asking again
	VerdictDown      = "down"      // silent, or without carrier
	VerdictReturning = "returning" // answers again, but not yet for the hold-down
	VerdictUntried   = "untried"   // has an address, and was not asked yet
	VerdictAbsent    = "absent"    // no port, no address or no default route
	VerdictOff       = "off"       // the file does not want this family here
)

// Line is one family of a WAN.
type Line struct {
	Method    string    `json:"method"`
	Verdict   string    `json:"verdict"`
	Why       string    `json:"why,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Used      bool      `json:"used"` // new connections take it
	Addresses []string  `json:"addresses,omitempty"`
	Gateway   string    `json:"gateway,omitempty"`
	DNS       []string  `json:"dns,omitempty"`
	LossPct   *float64  `json:"loss_percent,omitempty"` // of the last 64 probes that went by the clock
	LatencyMS *float64  `json:"latency_ms,omitempty"`   // median round trip of the last probes
	Lease     *WANLease `json:"lease,omitempty"`

	// Delegated are the prefixes that the ISP leased for the LANs (DHCPv6), the one
	// for new connections first.
	Delegated []string `json:"delegated,omitempty"`

	// HoldDownS is the unbroken good time, in seconds, that the line owes until it
	// is preferred again, and GoodAt when it will have served it, if all goes well.
	// NextHoldDownS is what it would owe if it failed now, which grows with each of
	// the Relapses of late.
	HoldDownS     float64   `json:"hold_down_s,omitempty"`
	GoodAt        time.Time `json:"good_at,omitzero"`
	NextHoldDownS float64   `json:"next_hold_down_s,omitempty"`
	Relapses      int       `json:"relapses,omitempty"`

	Deaf []string `json:"deaf,omitempty"` // targets that do not answer while others do

	// DNSError is why the resolvers that the ISP named give no answer, while it is
	// so; others are asked first then. Left out: they answer, or nobody asks them.
	DNSError string `json:"dns_error,omitempty"`
}

// WANLease is what an ISP leased to us.
type WANLease struct {
	Server  string    `json:"server"`
	Since   time.Time `json:"since"`
	Renew   time.Time `json:"renew_at,omitzero"`
	Expires time.Time `json:"expires_at,omitzero"` // left out: never
	Note    string    `json:"note,omitempty"`
}

// LAN is a network of the house.
type LAN struct {
	Name      string   `json:"name"`
	Interface []string `json:"interface"` // of the file
	Link      string   `json:"link"`
	Present   bool     `json:"present"`
	Addresses []string `json:"addresses"`
	Leases    int      `json:"leases"`

	FastPath    string `json:"fast_path"`               // the form for established flows: "tc" or "off"
	FastPathWhy string `json:"fast_path_why,omitempty"` // why it is off
}

// Forward is a port that is open to the outside.
type Forward struct {
	Name     string   `json:"name"`
	Protocol []string `json:"protocol"`
	Port     []string `json:"port"`
	To       []string `json:"to"`
	Answers  []string `json:"answers"` // what answers from outside now: "198.51.100.10 by fiber"
}

// Time is the clock, and who sets it.
type Time struct {
	Synchronised bool         `json:"synchronised"`
	SetsClock    bool         `json:"sets_clock"` // false: the machine's clock is not weir's, which knows the time beside it
	Served       bool         `json:"served"`     // the LANs may ask
	Source       string       `json:"source,omitempty"`
	Address      string       `json:"address,omitempty"`
	Stratum      int          `json:"stratum,omitempty"`   // of the gateway
	BehindMS     *float64     `json:"behind_ms,omitempty"` // the clock; negative: ahead
	Updated      time.Time    `json:"updated,omitzero"`    // when the source was last heard
	Sources      []TimeSource `json:"sources"`
	Error        string       `json:"error,omitempty"`
}

// TimeSource is a time server.
type TimeSource struct {
	Name     string   `json:"name"`
	Address  string   `json:"address,omitempty"`
	State    string   `json:"state"` // "selected", "combined", "good", "wrong", "variable", "unreachable"
	Stratum  int      `json:"stratum"`
	Reach    int      `json:"reach"` // the last eight requests as bits, the latest lowest
	BehindMS *float64 `json:"behind_ms,omitempty"`
}

// BlockList is names that are not resolved.
type BlockList struct {
	Name    string    `json:"name"`
	LANs    []string  `json:"lans"`             // whose questions it is for
	Names   int       `json:"names"`            // that are blocked; one with all below it counts once
	Skipped int       `json:"skipped"`          // rules of its sources that say nothing to DNS
	Updated time.Time `json:"updated,omitzero"` // when it was last found to be what its sources have; left out: never
	Error   string    `json:"error,omitempty"`  // what of its sources could not be had; what was had before stays in force
}

// Service is a child process of the daemon.
type Service struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // "running", "starting", "waiting"
	PID       int       `json:"pid,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Restarts  int       `json:"restarts"`
	LastError string    `json:"last_error,omitempty"`
}

// Lease is an address that a LAN's client holds: GET /v1/leases.
type Lease struct {
	LAN     string    `json:"lan"`
	Address string    `json:"address"`
	MAC     string    `json:"mac"`
	DUID    string    `json:"duid,omitempty"`   // by DHCPv6
	Router  string    `json:"router,omitempty"` // the address is a prefix that is routed to it
	Name    string    `json:"name,omitempty"`
	Static  bool      `json:"static"` // the file gives it
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires_at,omitzero"` // left out: never
}

// Why is what becomes of a connection that somebody would open now: GET
// /v1/why?from=SRC&to=DST[:PORT]&protocol=tcp.
type Why struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Protocol string `json:"protocol"` // "tcp", "udp" or "icmp"
	Port     uint16 `json:"port,omitempty"`
	Ways     []Way  `json:"ways"` // one for each family that it can have
}

// Way is what becomes of it in one family.
type Way struct {
	Family      int    `json:"family"`          // 4 or 6
	Verdict     string `json:"verdict"`         // "leaves", "delivered", "reached", "refused" or "dropped"
	By          string `json:"by"`              // what decided: "allow.print", "lan.home.reach", "forward.web", "route.work", "wan.fiber.closed"
	WAN         string `json:"wan,omitempty"`   // the line it leaves or comes by
	LAN         string `json:"lan,omitempty"`   // where it is delivered
	Route       string `json:"route,omitempty"` // the route of the file that matches
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"` // both as the far end sees them, where translation changes them
	Steps       []Step `json:"steps"`                 // what bears on it, in order
}

// Step is one thing that bears on a connection.
type Step struct {
	What string `json:"what"`         // "source", "forward", "rule", "reach", "route", "line", "translation", "flow", "note"
	Text string `json:"text"`         // for people
	At   string `json:"at,omitempty"` // where the file says so: "gateway.hcl:14"
}

// Source is a file's text as it goes to the daemon.
type Source struct {
	Name string `json:"name"` // as messages shall name it
	Text string `json:"text"`
	Dir  string `json:"dir,omitempty"` // absolute: what paths in it begin at
}

// Change asks for a file to be planned or put in force: POST /v1/plan, /v1/apply.
type Change struct {
	From  string   `json:"from"` // the path, as the user wrote it
	Files []Source `json:"files"`

	Who  string `json:"who,omitempty"`  // believed of root; others are who they are
	Why  string `json:"why,omitempty"`  // for the history
	Back int    `json:"back,omitempty"` // rollback: how many changes; 0 is 1
	Base uint64 `json:"base,omitempty"` // Outcome.Base of the plan that the caller saw; 0: they saw none

	// ConfirmS is how many seconds the file is on trial: then the one before comes
	// back, unless somebody confirms it. 0: it is there to stay.
	ConfirmS float64 `json:"confirm_s,omitempty"`

	// Session is the ssh connection that the caller types in, if any. The daemon
	// refuses to cut it but by a trial.
	Session *Session `json:"session,omitempty"`
}

// Session is an ssh connection: the far end, and the address of this machine that
// it goes to.
type Session struct {
	Peer  string `json:"peer"`
	Local string `json:"local"`
}

// Outcome is what a change does or did.
type Outcome struct {
	Plan    json.RawMessage `json:"plan"`              // docs/json.md, "plan"
	Text    string          `json:"text"`              // the plan as a person reads it
	Empty   bool            `json:"empty"`             // nothing is to be done
	Applied bool            `json:"applied"`           // false for a plan
	Base    uint64          `json:"base,omitempty"`    // of a plan: which entry was in force
	Remarks string          `json:"remarks,omitempty"` // on the file, as `weir check` prints them
	Notes   []string        `json:"notes,omitempty"`   // on this machine: another manager of a port

	ConfirmBy time.Time `json:"confirm_by,omitzero"` // see File
}

// Refused is one packet that policy did not let through: GET /v1/log streams
// them, one JSON object a line.
type Refused struct {
	At       time.Time `json:"at"`
	Rule     string    `json:"rule"` // the rule's name as the ruleset has it
	In       string    `json:"in,omitempty"`
	Out      string    `json:"out,omitempty"`
	From     string    `json:"from"`
	To       string    `json:"to"`
	Protocol string    `json:"protocol"`
}

// Asked is a question for a name: GET /v1/asked streams them, one JSON object a
// line, where the file has dns { log = true }.
type Asked struct {
	At     time.Time `json:"at"`
	Client string    `json:"client,omitempty"`
	Name   string    `json:"name,omitempty"`
	Type   string    `json:"type,omitempty"`
	Answer string    `json:"answer,omitempty"` // a code, or who blocked it; BIND tells only the latter, in an object of its own
	Missed int       `json:"missed,omitempty"` // questions that there were too many of; then there is nothing else
}

// Problem is the body of every answer that is not 2xx.
type Problem struct {
	Title       string `json:"title"`
	Diagnostics string `json:"diagnostics,omitempty"` // 422: as `weir check` prints them
	Plan        string `json:"plan,omitempty"`        // the plan that was not, or not wholly, carried out
}
