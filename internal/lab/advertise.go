package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
)

// advertiser is an ISP's router advertisements (RFC 4861, 6.2).
type advertiser struct {
	isp  *ISP
	conn *ndp.Conn
	mac  net.HardwareAddr

	mu  sync.Mutex
	old netip.Prefix // deprecated: advertised with lifetimes 0
}

var allNodes = netip.MustParseAddr("ff02::1")

// The interval is short, so that a port that comes up late need not wait.
const advertiseEvery = 3 * time.Second

func (i *ISP) advertise() error {
	a := &advertiser{isp: i}
	err := i.Router.Do(func() error {
		ifi, err := net.InterfaceByName("cust0")
		if err != nil {
			return err
		}
		a.mac = ifi.HardwareAddr
		// Not ndp.LinkLocal: the link may have more than one such address.
		addr := ndp.LinkLocal
		if a.conn, _, err = ndp.Listen(ifi, addr); err != nil {
			return err
		}
		return a.conn.JoinGroup(netip.MustParseAddr("ff02::2"))
	})
	if err != nil {
		return fmt.Errorf("router advertisements of isp-%s: %w", i.Name, err)
	}
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	if err := a.conn.SetICMPFilter(&filter); err != nil {
		return err
	}
	i.ra = a
	i.lab.onClose(a.conn.Close)
	i.lab.run(func() {
		for {
			_, _, _, err := a.conn.ReadFrom()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err == nil:
				a.send()
			}
		}
	})
	i.lab.run(func() {
		tick := time.NewTicker(advertiseEvery)
		defer tick.Stop()
		for {
			a.send()
			select {
			case <-i.lab.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return nil
}

func (a *advertiser) send() {
	a.isp.mu.Lock()
	prefix := a.isp.Prefix6
	a.isp.mu.Unlock()
	a.mu.Lock()
	old := a.old
	a.mu.Unlock()
	ra := &ndp.RouterAdvertisement{
		CurrentHopLimit: 64,
		RouterLifetime:  30 * time.Minute,
		Options: []ndp.Option{
			&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: a.mac},
			&ndp.PrefixInformation{
				PrefixLength: uint8(prefix.Bits()), OnLink: true, AutonomousAddressConfiguration: true,
				ValidLifetime: 2 * time.Hour, PreferredLifetime: time.Hour, Prefix: prefix.Masked().Addr(),
			},
			&ndp.RecursiveDNSServer{Lifetime: 30 * time.Minute, Servers: []netip.Addr{routerIn(prefix)}},
		},
	}
	if old.IsValid() {
		ra.Options = append(ra.Options, &ndp.PrefixInformation{
			PrefixLength: uint8(old.Bits()), OnLink: true, AutonomousAddressConfiguration: true, Prefix: old.Masked().Addr(),
		})
	}
	// A link without carrier takes none; the next one comes soon.
	_ = a.conn.WriteTo(ra, nil, allNodes)
}

// routerIn is the router's own address in an advertised prefix.
func routerIn(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

// Renumber6 advertises another prefix in place of the present one, which is
// withdrawn (lifetimes 0) and leads nowhere from now on.
func (i *ISP) Renumber6(to netip.Prefix) error {
	i.mu.Lock()
	old := i.Prefix6
	i.Prefix6 = to
	i.given6 = append(i.given6, to.Masked())
	i.mu.Unlock()
	i.ra.mu.Lock()
	i.ra.old = old
	i.ra.mu.Unlock()
	err := first(i.noRouteTo(old), i.routeTo(to), i.Router.AddAddr("cust0", netip.PrefixFrom(routerIn(to), 128)))
	i.ra.send()
	return err
}

// Seen6 is the address by which the customer speaks in the prefix advertised
// now: the source of what it sends to the internet. It waits for such a packet.
func (i *ISP) Seen6(ctx context.Context, limit time.Duration) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen := make(chan netip.Addr, 1)
	stop := i.Wire.Watch(func(f Frame) {
		if f.Src.IsValid() && f.Src.Is6() && f.Proto != 0 && !f.Dst.IsMulticast() && !f.Dst.IsLinkLocalUnicast() && i.Owns(f.Src) {
			select {
			case seen <- f.Src:
			default:
			}
		}
	})
	defer stop()
	select {
	case a := <-seen:
		return a, nil
	case <-ctx.Done():
		return netip.Addr{}, fmt.Errorf("nothing came by IPv6 from an address in %s within %s", i.Prefix6, limit)
	}
}
