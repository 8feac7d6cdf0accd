package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// LeaseBehind gets a lease for a device of another network, as the relay at giaddr
// there (RFC 2131, 4.1): lan is the network that the client itself is in. Nothing of
// the lease is used.
func (c *Client) LeaseBehind(ctx context.Context, lan netip.Prefix, giaddr netip.Addr) (ack *dhcpv4.DHCPv4, err error) {
	fail := func(err error) (*dhcpv4.DHCPv4, error) {
		return nil, fmt.Errorf("relay at %s on %s: %w", giaddr, c.Host, err)
	}
	if err := first(c.Up("e0"), c.AddAddr("e0", netip.PrefixFrom(giaddr, giaddr.BitLen())), c.Route(lan.Masked(), netip.Addr{}, "e0")); err != nil {
		return fail(err)
	}
	var conn net.PacketConn
	if err := c.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), "relay")
		defer f.Close() // conn has its own
		if err := first(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1), unix.BindToDevice(fd, "e0"),
			unix.Bind(fd, &unix.SockaddrInet4{Port: dhcpv4.ServerPort, Addr: giaddr.As4()})); err != nil {
			return err
		}
		conn, err = net.FilePacketConn(f)
		return err
	}); err != nil {
		return fail(err)
	}
	defer conn.Close()
	device := net.HardwareAddr{2, 0, 0, 0x82, 0, byte(len(c.Name))}
	m, err := dhcpv4.NewDiscovery(device, dhcpv4.WithRelay(giaddr.AsSlice()), dhcpv4.WithRequestedOptions(dhcpv4.OptionRouter, dhcpv4.OptionSubnetMask))
	if err != nil {
		return fail(err)
	}
	offer, err := relayed(ctx, conn, m, dhcpv4.MessageTypeOffer)
	if err != nil {
		return fail(err)
	}
	if m, err = dhcpv4.NewRequestFromOffer(offer, dhcpv4.WithRelay(giaddr.AsSlice()), dhcpv4.WithRequestedOptions(dhcpv4.OptionRouter, dhcpv4.OptionSubnetMask)); err != nil {
		return fail(err)
	}
	if ack, err = relayed(ctx, conn, m, dhcpv4.MessageTypeAck); err != nil {
		return fail(err)
	}
	return ack, nil
}

// relayed sends a message to all servers of the link, each second, until one answers.
func relayed(ctx context.Context, conn net.PacketConn, m *dhcpv4.DHCPv4, want dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	to := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ServerPort}
	b := make([]byte, 1500)
	for ctx.Err() == nil {
		if _, err := conn.WriteTo(m.ToBytes(), to); err != nil {
			return nil, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			return nil, err
		}
		for {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				break // a second has passed
			}
			if r, err := dhcpv4.FromBytes(b[:n]); err == nil && r.TransactionID == m.TransactionID && r.MessageType() == want {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("no %s to a %s", want, m.MessageType())
}
