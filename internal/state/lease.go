package state

import (
	"net/netip"
	"time"
)

// Lease is what a DHCP server of a LAN gave to a client. An address has at most
// one, which outlives its end: a client that comes back finds its address again,
// unless it was needed meanwhile.
//
// DHCPv6 leases the lower half of addresses, ::1005, which a device has in each
// network of its LAN, or a part of each prefix that there is to delegate.
type Lease struct {
	LAN      string
	Addr     netip.Addr // of a delegation: the router's link-local address
	Part     uint32     `json:",omitempty"` // which part of each prefix, from 1; 0: no delegation
	Client   string     // who has it: option 61 in hex, or "mac:" and the Ethernet address; by DHCPv6 the DUID in hex
	IAID     uint32     `json:",omitempty"` // which of the client's, by DHCPv6
	MAC      string     // "": not known
	Host     string     // the file's name for it; "" if the file doesn't know it
	Hostname string     // what it calls itself, made a DNS label (RFC 1123); "" if nothing

	Granted  time.Time     // wall clock
	Duration time.Duration // 0: ended, by RELEASE or by the file
	Boot     string        // Clock.Boot at the time of Granted
	Up       time.Duration // Clock.Up at the time of Granted
}

// Clock is the time in the three ways that a stored lease can be measured by:
// a house's gateway may have no clock chip, and start in 1970.
type Clock struct {
	Wall time.Time
	Boot string        // names the boot: /proc/sys/kernel/random/boot_id
	Up   time.Duration // since the boot, suspension included: CLOCK_BOOTTIME
}

// Remaining is how much of a lease is left; 0 or less: it has ended. Within a
// boot that is exact, whatever was done to the clock. Across boots the wall
// clock says it; if that went back before the lease was granted, nothing is
// known of the time between and the lease counts in full: rather honour one too
// many than give an address to two.
func (l Lease) Remaining(c Clock) time.Duration {
	if l.Duration == 0 {
		return 0
	}
	age, known := c.since(l.Granted, l.Boot, l.Up)
	if !known {
		return l.Duration
	}
	return l.Duration - age
}

// since is how long ago something was, of which the three readings are kept: exact
// within a boot, by the wall clock across boots. known is false if by that it is still to come.
func (c Clock) since(wall time.Time, boot string, up time.Duration) (age time.Duration, known bool) {
	if boot != "" && boot == c.Boot && c.Up >= up {
		return c.Up - up, true
	}
	age = c.Wall.Sub(wall)
	return max(age, 0), age >= 0
}

// Age is how long ago a line's lease was got. known is false where nothing says so: the
// wall clock, which is all there is across boots, shows an earlier time.
func (l Lease4) Age(c Clock) (age time.Duration, known bool) {
	return c.since(l.Obtained, l.Boot, l.Up)
}

// Holds says whether a stored lease may be used before its server was asked. One
// of an unknown age may not: its address may be another house's by now.
func (l Lease4) Holds(c Clock) bool {
	age, known := l.Age(c)
	return l.Duration == 0 || known && age < l.Duration
}
