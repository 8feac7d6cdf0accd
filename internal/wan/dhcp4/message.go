package dhcp4

import (
	"time"

	"weir/internal/state"
)

// Names of the sockets in Config.Sockets.
const (
	SocketDHCP = "dhcp" // packet socket on the WAN's port, IPv4, udp port 68: Open
	SocketARP  = "arp"  // packet socket on the WAN's port, ARP: Open
	SocketUDP  = "udp"  // UDP port 68 in the WAN's namespace: unicast renewals leave by it
)

// Config is what the parent sends: at the start with Sockets, then whole again
// whenever something in it changed. A message with Sockets replaces those there
// were (the port was made anew); one without keeps them.
type Config struct {
	WAN  string // for logs
	Port string // for logs
	MAC  string // the port's Ethernet address. Another one starts from nothing

	ClientID string // option 61; "hex:..." for bytes; "" is the MAC
	Hostname string // option 12; "" sends none

	VendorClass string // option 60; "hex:..." for bytes; "" sends none

	// IgnoreClasslessRoutes does without options 121 and 249, and takes 3.
	IgnoreClasslessRoutes bool

	// Last is the lease of before, from the store or from the child before this
	// one; nil: none. It is asked for again (INIT-REBOOT), and held meanwhile
	// if it Holds. Looked at in the first message only.
	Last *state.Lease4

	// Confirm is a number that the parent raises when the lease should be
	// confirmed at once: the carrier came back, perhaps on another network.
	Confirm uint64

	// Release gives back what is held (RFC 2131, 4.4.6); no server answers that. The
	// Report whose State is Released comes when it is sent.
	Release bool

	Sockets []string // what the files with the message are, in order: Open
}

// Report is what the client tells: whenever Lease, State or Tries changed.
type Report struct {
	// Lease is what the kernel should have now; nil: nothing.
	Lease *state.Lease4

	State State
	Tries int    // messages sent in this state without an answer
	Event string // what happened, for people: "renewed by 192.0.2.1", "expired"
}

// A State is where the client stands (RFC 2131, figure 5). The zero value is
// invalid.
type State uint8

// The states. Probing is RFC 2131's "client checks the address" (4.4.1).
const (
	_ State = iota
	Init
	Selecting
	Requesting
	Probing
	Rebooting
	Bound
	Renewing
	Rebinding
	Released // at rest: nothing is held or asked for
)

var stateNames = [...]string{"", "init", "selecting", "requesting", "probing", "rebooting", "bound", "renewing", "rebinding", "released"}

// String is the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "invalid"
}

// Times of the protocol.
const (
	// startBackoff: RFC 2131, 4.1 says 4 s, doubling to 64 s. Links are faster
	// now, a house waits, and after an outage the line is wanted back.
	startBackoff = time.Second
	maxBackoff   = 16 * time.Second

	askTries = 4 // of REQUEST before starting over: 15 s

	// renewFloor: RFC 2131, 4.4.5 says half the time left, at least 60 s. With
	// leases of two minutes that would be one try.
	renewFloor = 10 * time.Second

	// Conflict check. RFC 5227 takes 5 to 7 s, which is a house offline for as
	// long after each outage; a host on the link answers within a few ms.
	probeTries = 3
	probeGap   = 100 * time.Millisecond

	declineWait = 10 * time.Second // RFC 2131, 3.1.5

	// A server that offers only taken addresses, or a box that answers every
	// ARP request: after so many the next one is taken as it comes.
	maxDeclines = 3

	minLease     = 5 * time.Second // shorter ones would be a loop of renewals
	defaultLease = time.Hour       // for an ACK without option 51, which RFC 2131 forbids
)
