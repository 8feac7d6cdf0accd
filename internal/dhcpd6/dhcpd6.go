// Package dhcpd6 is the DHCPv6 server of the LANs, a worker. It is stateless (RFC
// 8415, 6.1): devices have addresses by SLAAC, and ask here for the rest.
//
//	socket --> answer (pure) --> socket
//
// Nothing is remembered of who asked, so nothing is lost by a restart, and no
// number of devices is too many.
package dhcpd6

import (
	"net/netip"
	"os"

	"weir/internal/worker"
)

// Config is all that the server needs to know, sent whole whenever something
// changed.
type Config struct {
	DUID string // who the server is, in hex
	LANs []LAN  // those with a server; one that is missing is served no more
}

// LAN is a network that is served.
type LAN struct {
	Name string
	Link string // that the socket is bound to

	// Passed says that the socket comes with this message. Files are in the order of
	// the LANs that have it set.
	Passed bool

	DNS    []netip.Addr // option 23 (RFC 3646)
	Search []string     // option 24; no trailing dots
	NTP    []netip.Addr // options 56 (RFC 5908) and 31 (RFC 4075)
	Portal string       // option 103 (RFC 8910); "" is none
}

// Report is what the worker tells: nothing so far but that it has the Config.
type Report struct{}

// Worker is the server of all LANs. It takes Config and sends Report.
var Worker = worker.Kind{Name: "dhcpd6", Run: run}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // sockets
	}
}
