package dhcpd

import (
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/commit"
	"weir/internal/ether"
	"weir/internal/state"
	"weir/internal/worker"
)

// Names of the sockets in LAN.Sockets.
const (
	SocketDHCP = "dhcp" // packet socket on the LAN's link, IPv4, udp port 67
	SocketARP  = "arp"  // packet socket on the LAN's link, ARP
	SocketUDP  = "udp"  // UDP port 67 on the link: keeps the kernel from answering "port unreachable"
)

// Order is a message of the parent: one of its fields is set. At the start
// Leases come first, in as many messages as they need, and then Config; Setup
// does both.
type Order struct {
	Leases []state.Lease // stored ones
	Config *Config
	Kept   *commit.Kept // answers a Report with an ID
}

// Config is what the server is to do: sent whole whenever something changed.
type Config struct {
	LANs []LAN // those with a server; one that is missing is served no more
}

// LAN is a network that is served.
type LAN struct {
	Name    string
	Link    string       // for logs
	MAC     string       // of the link: the replies' source
	Address netip.Prefix // the gateway's own with its network; also the server identifier

	Pool  []Range
	Lease time.Duration // the longest; a client may ask for less, down to 2 minutes

	BOOTP     bool // clients that speak BOOTP only are answered (RFC 951, 1534)
	KnownOnly bool // clients that are no host of the LAN are not answered

	Router netip.Addr   // option 3; invalid: none
	DNS    []netip.Addr // option 6
	Domain string       // option 15; "" is none
	MTU    int          // option 26; 0 is none

	// Options replace those above with the same code. No Data: not sent at all.
	Options []Option
	Boot    Boot

	Classes []Class // the first that a client is of goes before Options and Boot
	Subnets []Subnet

	Hosts []Host

	// Sockets says which files of this LAN come with the message, in order: as
	// Open returns them. The LANs' files follow each other in the LANs' order.
	// None: those of before are kept, if Link is the same.
	Sockets []string
}

// Range is an inclusive range of IPv4 addresses.
type Range struct{ From, To netip.Addr }

// Option is an option as it goes on the wire.
type Option struct {
	Code uint8
	Data []byte
}

// Boot is what a client that boots over the network loads (RFC 2131, 2).
type Boot struct {
	Server netip.Addr // siaddr; invalid: none
	File   string     // the field file, and option 67 if it is asked for; at most 127 bytes
}

// Class is clients that say something of themselves: all that is set must fit,
// and of each list one.
type Class struct {
	Vendor []string // option 60 begins so
	User   []string // option 77 (RFC 3004) is or holds this
	Arch   []uint16 // option 93 (RFC 4578) holds this

	Options []Option
	Boot    Boot
}

// Subnet is a network behind a relay of the LAN: clients are in it whose relay
// (giaddr), or the link that it names (RFC 3527), is.
type Subnet struct {
	Prefix  netip.Prefix
	Pool    []Range
	Router  netip.Addr // option 3; invalid: the relay's own address
	Options []Option   // before the LAN's
}

// Host is a device that the file knows. One without an address has a lease from
// the pool.
type Host struct {
	Name     string     // the file's
	DNSName  string     // option 12 for it; "" sends none
	Addr     netip.Addr // reserved; invalid: none
	MAC      []string   // the first that asks has Addr; the others get pool addresses meanwhile
	ClientID []string   // in hex: option 61 of a client whose MAC is no host's
}

// Report is what the server tells.
type Report struct {
	// Keep are leases that changed: to be stored and answered with Kept, if ID
	// is not 0. A Duration of 0 says that the lease ended. Each lease that a
	// client has was in a Keep or in Order.Leases before.
	ID   uint64
	Keep []state.Lease

	LANs []Status // nil: as before
}

// Status is how a LAN is doing.
type Status struct {
	LAN         string
	Pool        int    // addresses that clients may get, the hosts' own apart
	Leased      int    // of those, leased at the moment
	Quarantined int    // in use by somebody who did not get them here
	Note        string // one line: what needs a person; "" is nothing
}

// Setup sends a fresh child what it needs: for worker.Options.Setup. The files
// are those of cfg's LANs.
func Setup(c *worker.Conn, leases []state.Lease, cfg Config, files ...*os.File) error {
	for len(leases) > 0 {
		n := min(len(leases), commit.MaxLeases)
		if err := c.Send(Order{Leases: leases[:n]}); err != nil {
			return err
		}
		leases = leases[n:]
	}
	return c.Send(Order{Config: &cfg}, files...)
}

// Open opens the sockets that serve the LAN on link, in the order of names for
// LAN.Sockets. The files are the caller's to close once they are sent.
func Open(link string) (names []string, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			names, files = nil, nil
		}
	}()
	for _, s := range []struct {
		name string
		open func() (*os.File, error)
	}{
		{SocketDHCP, func() (*os.File, error) { return ether.Open(link, ether.TypeIPv4, ether.ToUDP(dhcpv4.ServerPort)) }},
		{SocketARP, func() (*os.File, error) { return ether.Open(link, ether.TypeARP, ether.Nothing()) }},
		{SocketUDP, func() (*os.File, error) { return ether.OpenUDP(dhcpv4.ServerPort, link) }},
	} {
		f, err := s.open()
		if err != nil {
			return names, files, err
		}
		names, files = append(names, s.name), append(files, f)
	}
	return names, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // sockets
	}
}
