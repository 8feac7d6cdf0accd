package probe

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Message is what the parent sends: a Config, orders, or both (the Config is
// taken first).
type Message struct {
	Config *Config `json:"config,omitempty"`
	Probes []Order `json:"probes,omitempty"`
}

// Config names the lines. Sockets for echo requests come with it as files in the order of Lines,
// made by Open. A line that is not in it any more is closed; one that was there
// with the same ID goes on waiting for its replies on the new socket.
type Config struct {
	Lines []Line `json:"lines"`
}

// Line is one family of a WAN.
type Line struct {
	WAN  string `json:"wan"`
	IPv6 bool   `json:"ipv6,omitempty"`

	// ID is the line's ICMP identifier, but for its lowest four bits, which the
	// child changes when nobody answers. No other line's, and unforeseeable.
	ID uint16 `json:"id"`
}

func (l Line) key() key { return key{l.WAN, l.IPv6} }

type key struct {
	wan  string
	ipv6 bool
}

// Way is how a target is asked.
type Way string

// The ways; the zero value is an echo request.
const (
	Echo Way = ""
	TCP  Way = "tcp" // a handshake, broken off once it is answered
	DNS  Way = "dns" // a question over UDP
)

// Order is one probe to send. Its line is the WAN's of the target's family.
type Order struct {
	ID     uint64     `json:"id"` // names it in Events
	WAN    string     `json:"wan"`
	Target netip.Addr `json:"target"`
	Way    Way        `json:"way,omitempty"`
	Port   uint16     `json:"port,omitempty"` // TCP and DNS
	Name   string     `json:"name,omitempty"` // DNS: what is asked for; "" is the root

	// Wait is how long the answer to TCP or DNS is waited for, which takes a socket and
	// a goroutine; an echo's takes none. 0 is 10 s, and the most.
	Wait time.Duration `json:"wait,omitempty"`
}

// Report is what the child sends.
type Report struct {
	Events []Event `json:"events"`
}

// Kind is what happened to a probe. The zero value is invalid.
type Kind uint8

// The kinds of event.
const (
	_      Kind = iota
	Sent        // it was given to the kernel; told 40 ms later, and not at all if a Reply came by then
	Reply       // its reply came
	Failed      // it could not be sent, an ICMP error came back, or a DNS server said SERVFAIL
)

// Event is something that happened to a probe.
type Event struct {
	ID   uint64        `json:"id"` // of the Order
	Kind Kind          `json:"kind"`
	At   Monotonic     `json:"at"`
	RTT  time.Duration `json:"rtt,omitempty"` // Reply: from the call that sent to the packet's arrival in the kernel
	Why  string        `json:"why,omitempty"` // Failed: in words

	// Reopen says that the probe failed because the line has no socket, or one
	// that is of no use any more, its cable being gone: that is no news of the
	// line. Send the Config again, with sockets on the cable that is there now.
	Reopen bool `json:"reopen,omitempty"`
}

// Monotonic is a reading of CLOCK_MONOTONIC in nanoseconds, which parent and
// child have in common.
type Monotonic int64

func monotonic() Monotonic {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: the clock always exists
	return Monotonic(ts.Nano())
}

// Time is t as a time.Time of this process, with a monotonic reading.
func (t Monotonic) Time() time.Time {
	age := time.Duration(monotonic() - t) // before the other clock: being interrupted here makes it late, never early
	return time.Now().Add(-age)
}
