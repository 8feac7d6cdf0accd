package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// Resolvers is what a router advertised of DNS servers (RDNSS; RFC 8106, 5.1). The kernel
// passes it on as it came, once for each advertisement that it took, and keeps nothing.
type Resolvers struct {
	Index    int // the link's, in its namespace
	DNS      []netip.Addr
	Lifetime time.Duration // from now on; 0: they are no more; Forever: without end
}

// Forever is a lifetime without end.
const Forever = time.Duration(1<<63 - 1)

const (
	sizeofNDUserOpt = 16 // struct nduseroptmsg, linux/rtnetlink.h
	icmpAdvertises  = 134
	optRDNSS        = 25 // RFC 8106
)

// parseResolvers reads an option of a router advertisement. ok is false for all others.
func parseResolvers(b []byte) (r Resolvers, ok bool) {
	if len(b) < sizeofNDUserOpt || b[0] != unix.AF_INET6 || b[8] != icmpAdvertises {
		return r, false
	}
	r.Index = int(int32(native.Uint32(b[4:])))
	opts := b[sizeofNDUserOpt:]
	if n := int(native.Uint16(b[2:])); n <= len(opts) {
		opts = opts[:n]
	}
	// Type, length in units of 8 bytes, two of nothing, the lifetime in seconds, addresses.
	if len(opts) < 24 || opts[0] != optRDNSS || int(opts[1])*8 > len(opts) || opts[1] < 3 {
		return r, false
	}
	r.Lifetime = time.Duration(binary.BigEndian.Uint32(opts[4:])) * time.Second
	if binary.BigEndian.Uint32(opts[4:]) == 0xffffffff {
		r.Lifetime = Forever
	}
	for a := opts[8 : int(opts[1])*8]; len(a) >= 16; a = a[16:] {
		r.DNS = append(r.DNS, netip.AddrFrom16([16]byte(a[:16])))
	}
	return r, true
}

// Solicit asks the routers on a link to advertise themselves (RFC 4861, 4.1), as the kernel
// does when the link comes up.
func Solicit(ns string, index int) error {
	err := netns.Do(ns, func() error {
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255), // others are not heard
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index))
		if err == nil {
			all := netip.MustParseAddr("ff02::2").As16()
			err = unix.Sendto(fd, []byte{133, 0, 0, 0, 0, 0, 0, 0}, 0, &unix.SockaddrInet6{ZoneId: uint32(index), Addr: all}) // the kernel sums it
		}
		return errors.Join(err, unix.Close(fd))
	})
	if err != nil {
		return fmt.Errorf("solicit routers on link %d in %s: %w", index, place(ns), err)
	}
	return nil
}
