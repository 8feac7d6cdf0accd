package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/dhcpv6/nclient6"
	nl "github.com/mdlayher/netlink"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Client is a device on a LAN: a machine with one link, e0.
type Client struct {
	*Host
	Addr4, Addr6 netip.Addr // what it uses; invalid: none
	DNS          []netip.Addr
	Domain       string
}

// Join makes the machine name and plugs it into the switch. It has no address
// but IPv6 autoconfiguration at work.
func (l *Lab) Join(s *Switch, name, mac string) (*Client, error) {
	h, err := l.Add(name)
	if err != nil {
		return nil, err
	}
	return &Client{Host: h}, s.Plug(Plug{Host: h, Dev: "e0", MAC: mac})
}

// Static gives the client an address and a default route without asking anyone.
func (c *Client) Static(p netip.Prefix, gateway netip.Addr) error {
	if err := c.AddAddr("e0", p); err != nil {
		return err
	}
	if p.Addr().Is4() {
		c.Addr4 = p.Addr()
	} else {
		c.Addr6 = p.Addr()
	}
	if !gateway.IsValid() {
		return nil
	}
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if gateway.Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return c.Route(all, gateway, "e0")
}

// Lease asks by DHCP, without using what it gets; says are what its messages have
// besides.
func (c *Client) Lease(ctx context.Context, says ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	var nc *nclient4.Client
	err := c.Do(func() (err error) {
		nc, err = nclient4.New("e0", nclient4.WithTimeout(1500*time.Millisecond), nclient4.WithRetry(3))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dhcp client on %s: %w", c.Host, err)
	}
	defer nc.Close()
	lease, err := nc.Request(ctx, append([]dhcpv4.Modifier{dhcpv4.WithRequestedOptions(dhcpv4.OptionNTPServers,
		dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName),
		dhcpv4.WithOption(dhcpv4.OptHostName(c.Name))}, says...)...)
	if err != nil {
		return nil, err
	}
	return lease.ACK, nil
}

// Lease6 asks by DHCPv6 for an address, and for a prefix if its length is not 0,
// without using what it gets. The client must have its link-local address.
func (c *Client) Lease6(ctx context.Context, prefix int) (*dhcpv6.Message, error) {
	var nc *nclient6.Client
	err := c.Do(func() (err error) {
		nc, err = nclient6.New("e0", nclient6.WithTimeout(1500*time.Millisecond), nclient6.WithRetry(3))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dhcpv6 client on %s: %w", c.Host, err)
	}
	defer nc.Close()
	want := []dhcpv6.Modifier{dhcpv6.WithFQDN(0, c.Name)}
	if prefix > 0 {
		hint := &dhcpv6.OptIAPrefix{Prefix: &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(prefix, 128)}}
		want = append(want, dhcpv6.WithIAPD([4]byte{0, 0, 0, 1}, hint))
	}
	offer, err := nc.Solicit(ctx, want...)
	if err != nil {
		return nil, err
	}
	return nc.Request(ctx, offer, dhcpv6.WithFQDN(0, c.Name))
}

// Use configures what a lease says.
func (c *Client) Use(ack *dhcpv4.DHCPv4) error {
	ip, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok {
		return fmt.Errorf("the lease of %s has no address", c.Host)
	}
	ones, _ := ack.SubnetMask().Size()
	gw := netip.Addr{}
	if r := ack.Router(); len(r) > 0 {
		gw, _ = netip.AddrFromSlice(r[0].To4())
	}
	for _, a := range ack.DNS() {
		if d, ok := netip.AddrFromSlice(a.To4()); ok {
			c.DNS = append(c.DNS, d)
		}
	}
	c.Domain = ack.DomainName()
	return c.Static(netip.PrefixFrom(ip, ones), gw)
}

// Autoconfigured waits until the kernel has made an address and a default route
// from router advertisements, and returns the address. ok is false if it has not
// within limit.
func (c *Client) Autoconfigured(ctx context.Context, limit time.Duration) (a netip.Prefix, gateway netip.Addr, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// The kernel tells of both. To look every few milliseconds instead, by several
	// clients at once, takes a slow machine from the gateway that they wait for.
	var changes *nl.Conn
	err := c.Do(func() (err error) {
		changes, err = nl.Dial(unix.NETLINK_ROUTE, &nl.Config{
			Groups: 1<<(unix.RTNLGRP_IPV6_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1),
		})
		return err
	})
	if err != nil {
		c.lab.Log.Warn("can't hear of addresses", "host", c.Name, "err", err)
		return a, gateway, false
	}
	defer changes.Close()
	stop := context.AfterFunc(ctx, func() { changes.Close() })
	defer stop()
	for {
		if a, gateway = c.autoconfiguration(); a.IsValid() && gateway.IsValid() {
			return a, gateway, true
		}
		// ENOBUFS is that some were missed: then it has to be looked at as well.
		if _, err := changes.Receive(); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return a, gateway, false
		}
	}
}

// autoconfiguration is the address and the router that the client has from
// advertisements now; what there is none of is invalid.
func (c *Client) autoconfiguration() (a netip.Prefix, gateway netip.Addr) {
	list, err := c.Addrs("e0", true)
	if err != nil {
		return a, gateway
	}
	routes, err := c.nl.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return a, gateway
	}
	for _, r := range routes {
		if r.Gw != nil && (r.Dst == nil || r.Dst.IP.IsUnspecified()) {
			gateway, _ = netip.AddrFromSlice(r.Gw)
		}
	}
	for _, p := range list {
		if p.Addr() != c.Addr6 || !c.Addr6.IsValid() {
			a = p
		}
	}
	return a, gateway
}

// Resolve asks a server for a name from the machine.
func (h *Host) Resolve(ctx context.Context, server netip.Addr, name string, qtype uint16, limit time.Duration) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), qtype)
	q.AuthenticatedData = true // it wants to know (RFC 6840, 5.7)
	var last error
	for ctx.Err() == nil {
		c, err := h.Dial(ctx, "udp", netip.Addr{}, netip.AddrPortFrom(server, 53), limit)
		if err != nil {
			return nil, err
		}
		client := dns.Client{Timeout: limit / 3}
		m, _, err := client.ExchangeWithConn(q, &dns.Conn{Conn: c})
		c.Close()
		if err == nil {
			return m, nil
		}
		last = err
		if !os.IsTimeout(err) {
			break
		}
	}
	return nil, fmt.Errorf("%s asks %s for %s: %w", h, server, name, last)
}
