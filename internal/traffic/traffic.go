// Package traffic turns readings of counters into who sends how much: a Meter takes
// the conntrack entries of one moment after those of another, and tells how much each
// flow, each host of the LANs, and each line grew meanwhile. It reads nothing itself.
//
// Directions are the house's: down is towards a host, up from it; of a line, down is
// what the ISP sends.
package traffic

import (
	"net/netip"
	"time"
)

// Count are packets and bytes.
type Count struct{ Packets, Bytes uint64 }

func (c *Count) add(o Count) { c.Packets += o.Packets; c.Bytes += o.Bytes }

// Flow is a conntrack entry of main at one moment, with what it has counted since it
// was made: from IP's header on, and packets that travelled as one counted as one.
type Flow struct {
	// ID is the entry's (CTA_ID). Another flow between the same ends has another,
	// mostly: it is made of the place in memory, which the kernel gives anew.
	ID       uint32
	Protocol uint8 // IPPROTO_*
	Mark     uint32

	// Client began it, to Dialled; Server is who answers, and sees Seen. Ports are 0
	// where the protocol has none.
	Client, Dialled, Server, Seen netip.AddrPort

	Forth, Back Count // from Client on, and to it
	Counted     bool  // false: it was begun before nf_conntrack_acct was on
}

// Carried is what the fast path has carried of one direction of a flow, past conntrack
// and its counters, since the first flow was carried whose packets look so.
type Carried struct {
	Src, Dst netip.AddrPort // as its packets come in
	Protocol uint8
	Line     uint32 // by which they come in: its number in marks; 0: by a LAN
	Count
}

// Marks are the bits of a flow's mark: which line it goes by, and whether it came in
// by that.
type Marks struct{ Line, In uint32 }

// Line is a WAN at one moment.
type Line struct {
	Name  string
	Mark  uint32 // its number in its flows' mark
	In    Count  // by its port, as that counts them
	Out   Count
	Fates []Fate // of the packets that its shortcut met; nil: it has none
}

// Fate are packets by what became of them. Why "" is that they were carried fast.
type Fate struct {
	Why     string
	Packets uint64
}

// View is how the flows of a house are looked at.
type View struct {
	Where func(netip.Addr) Place
	Marks Marks
	By    Order // what the busiest are
	Most  int   // flows and hosts that are listed
}

// Order is what the busiest have most of; of two with the same it is all that they
// had.
type Order func(down, up Volume) uint64

// ByRate orders by bytes both ways since the reading before.
func ByRate(down, up Volume) uint64 { return down.Grew.Bytes + up.Grew.Bytes }

// ByDown orders by bytes towards the host since then.
func ByDown(down, _ Volume) uint64 { return down.Grew.Bytes }

// ByUp orders by bytes from it.
func ByUp(_, up Volume) uint64 { return up.Grew.Bytes }

// ByPackets orders by packets both ways since then.
func ByPackets(down, up Volume) uint64 { return down.Grew.Packets + up.Grew.Packets }

// ByAll orders by bytes both ways since what is counted began.
func ByAll(down, up Volume) uint64 { return down.All.Bytes + up.All.Bytes }

// Place is where an address is.
type Place struct {
	LAN    string  // "": in none
	Self   bool    // the gateway's
	Device *Device // whose it is; nil: not known
}

// Device is a host that may have several addresses.
type Device struct{ Name string }

// Volume is how much went one way.
type Volume struct {
	All  Count  // since what was counted began
	Grew Count  // since the reading before
	Fast uint64 // packets of Grew that the flows' fast path carried
}

func (v *Volume) add(o Volume) { v.All.add(o.All); v.Grew.add(o.Grew); v.Fast += o.Fast }

// Reading is what a Meter found.
type Reading struct {
	At   time.Duration // of the clock that the meter was told
	Over time.Duration // since the reading before; 0: there was none, and nothing has grown

	Lines []LineVolume // as they were told
	Hosts []Host       // the busiest first, those with nothing but old flows last
	Flows []FlowVolume // the busiest first; only such as grew

	HostCount, FlowCount int // of all, also those that are not listed
	Uncounted            int // flows that were begun before counting was on

	// Carries says that the flows' fast path is there, and Main what became of the
	// packets that it met.
	Carries bool
	Main    []FateVolume
}

// LineVolume is how much passed a line.
type LineVolume struct {
	Name     string
	Down, Up Volume // Fast is not told: Fates is
	Fates    []FateVolume
	Flows    int
}

// FateVolume is a Fate and how much it grew.
type FateVolume struct {
	Fate
	Grew uint64
}

// Host is a device of a LAN, or the gateway itself. What it sends to another host of
// a LAN counts for both.
type Host struct {
	Place
	Addrs    []netip.Addr // that it has flows with
	Down, Up Volume
	Flows    int
}

// FlowVolume is a flow as its host sees it: that of a LAN; of two who began it;
// without one the gateway.
type FlowVolume struct {
	Flow
	Host, Peer           netip.AddrPort
	HostPlace, PeerPlace Place
	Line                 string // "": by none
	Inbound              bool   // the peer began it
	Down, Up             Volume
}
