package dhcp6

import (
	"time"

	"weir/internal/state"
)

// Config is what the parent sends: at the start with its socket, then whole again
// whenever something in it changed. A message with a socket (Passed) replaces the
// one there was; one without keeps it.
type Config struct {
	WAN  string // for logs
	Port string // the link that the socket is bound to

	DUID    string // who we say we are (RFC 8415, 11), in hex. Another one starts from nothing
	IAID    uint32 // which of our identities; stable for a WAN
	Address bool   // ask for an address of the line (IA_NA)
	Prefix  int    // ask for a prefix of this length (IA_PD); 0 asks for none

	// Last is the lease of before, from the store or from the child before this
	// one; nil: none. It is held, and verified, unless it has ended. Looked at in
	// the first message only.
	Last *state.Lease6

	// Confirm is a number that the parent raises when the lease should be verified
	// at once: the carrier came back, perhaps on another network.
	Confirm uint64

	// Info asks for what there is without a lease, a resolver above all, while no lease
	// brings one.
	Info bool

	// Release gives back to its server what Address and Prefix ask for no more; without
	// it that is forgotten. A Report says when that is done.
	Release bool

	Passed bool // the socket comes with this message
}

// Report is what the client tells, whenever something of it changed.
type Report struct {
	// Lease is what is held now; nil: nothing.
	Lease *state.Lease6

	// Info is what was told without a lease; nil: nothing, or a lease has it.
	Info *Info

	State    State
	Tries    int    // messages sent in this state without an answer
	Event    string // what happened, for people: "renewed by fe80::1", "the lease ended"
	Released bool   // as Config.Release asked for: nothing is being given back any more
}

// A State is where the client stands. The zero value is invalid.
type State uint8

// The states.
const (
	_    State = iota
	Idle       // there is nothing to ask for
	Soliciting
	Requesting
	Verifying
	Bound
	Renewing
	Rebinding
	Releasing
)

var stateNames = [...]string{"", "idle", "soliciting", "requesting", "verifying", "bound", "renewing", "rebinding", "releasing"}

// String is the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// retransmission is how a message is repeated (RFC 8415, 15): IRT, MRT, MRC. Of
// MRT and MRC 0 is no limit.
type retransmission struct {
	first, max time.Duration
	count      int
}

// The constants of RFC 8415, 7.6.
const (
	solMaxDelay = time.Second
	solMaxRT    = time.Hour // unless a server says otherwise: option 82
	cnfMaxDelay = time.Second
	cnfMaxRD    = 10 * time.Second
	infMaxDelay = time.Second
	infMaxRT    = time.Hour
	irtDefault  = 24 * time.Hour
	irtMinimum  = 10 * time.Minute
)

var (
	sol = retransmission{first: time.Second, max: solMaxRT}
	req = retransmission{first: time.Second, max: 30 * time.Second, count: 10}
	cnf = retransmission{first: time.Second, max: 4 * time.Second}
	ren = retransmission{first: 10 * time.Second, max: 600 * time.Second}
	reb = retransmission{first: 10 * time.Second, max: 600 * time.Second}
	rel = retransmission{first: time.Second, count: 4}
	inf = retransmission{first: time.Second, max: infMaxRT}
)

// after is the retransmission time that follows on rt, 0 before the first; random is
// any number (RFC 8415, 15: RAND is between -0.1 and 0.1).
func (r retransmission) after(rt time.Duration, random uint32) time.Duration {
	jitter := func(d time.Duration) time.Duration { return time.Duration(random)%(d/5) - d/10 }
	if rt == 0 {
		rt = r.first + jitter(r.first)
	} else {
		rt = 2*rt + jitter(rt)
	}
	if r.max > 0 && rt > r.max {
		rt = r.max + jitter(r.max)
	}
	return rt
}

// late is a random for after whose RAND, of the first time, is not below 0.
func (r retransmission) late(random uint32) uint32 {
	tenth := uint32(r.first / 10)
	return tenth + random%tenth
}

// Ours.
const (
	// Bounds of options 82 and 83 (RFC 8415, 21.24, 21.25); what lies outside is ignored.
	minMaxRT = time.Minute
	maxMaxRT = 24 * time.Hour

	irtMaximum = 7 * 24 * time.Hour // of what a server says: what was told wrongly is over in a week

	// With something held and nobody to verify it, so many Solicits look for
	// another server before the lease goes on as it was.
	lookTries = 4

	// Every second Solicit after this many does without rapid commit: there are
	// relays and servers that drop what they don't know.
	rapidTries = 3

	// A server that has nothing for us is asked again after this, then twice as
	// late each time, up to SOL_MAX_RT. RFC 8415, 18.2.10.1 leaves it to the client.
	nothingWait = 10 * time.Second

	// Leases that are renewed sooner would be a loop.
	minT1 = 5 * time.Second
)
