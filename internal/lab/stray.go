package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// listen hears the customer on the ISP's link, and keeps what should not be
// there.
func (i *ISP) listen() (*Wire, error) {
	w, err := i.Router.Listen("cust0")
	if err != nil {
		return nil, err
	}
	w.Watch(func(f Frame) {
		if why := i.stray(f); why != "" {
			i.strays.add(fmt.Sprintf("%s: %s", why, f))
		}
	})
	return w, nil
}

// strays are the frames that a customer must not send, the first few of them
// in words.
type strays struct {
	mu    sync.Mutex
	count int
	first []string
}

func (s *strays) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if len(s.first) < 5 {
		s.first = append(s.first, text)
	}
}

// Strays tells how many frames came from the gateway with a source address that
// the ISP has never given it (link-local and unspecified ones may be), or asked
// by ARP for an address off the link; and describes the first few.
func (i *ISP) Strays() (count int, first []string) {
	i.strays.mu.Lock()
	defer i.strays.mu.Unlock()
	return i.strays.count, append([]string(nil), i.strays.first...)
}

func (i *ISP) stray(f Frame) string {
	switch f.Type {
	case unix.ETH_P_ARP:
		if !f.Src.IsUnspecified() && !i.Gave(f.Src) {
			return "ARP in the name of an address that is not the line's"
		}
		if !i.onLink(f) {
			return "ARP for an address off the link"
		}
	case unix.ETH_P_IP:
		// Before there is an address: DHCP, and IGMP of the kernel (RFC 3376, 4.2.13).
		if f.Src.IsUnspecified() && (f.Proto == unix.IPPROTO_UDP && f.DPort == 67 || f.Proto == unix.IPPROTO_IGMP) {
			return ""
		}
		if !i.Gave(f.Src) {
			return "source address that is not the line's"
		}
	case unix.ETH_P_IPV6:
		if !f.Src.IsUnspecified() && !f.Src.IsLinkLocalUnicast() && !i.Gave(f.Src) {
			return "source address that is not the line's"
		}
	}
	return ""
}

// onLink says whether an ARP request asks for what may be on the link.
func (i *ISP) onLink(f Frame) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if f.Dst == i.Router4 {
		return true
	}
	for _, p := range i.Customer4 {
		if p.Contains(f.Dst) {
			return true
		}
	}
	// Of an address it had before it may still ask for its neighbours.
	for _, p := range i.routers4 {
		if p == f.Dst {
			return true
		}
	}
	for _, a := range i.given4 {
		if a == f.Dst {
			return true
		}
	}
	return false
}

// isClosed says whether a read ended because the socket was closed.
func isClosed(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EBADF)
}
