package kernel_test

import (
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/sys/unix"
)

// setCarrier plugs a TAP in or out.
func setCarrier(fd interface{ Fd() uintptr }, on bool) error {
	v := 0
	if on {
		v = 1
	}
	return unix.IoctlSetPointerInt(int(fd.Fd()), unix.TUNSETCARRIER, v)
}

// router makes eth1's other end a router's.
func (b *bench) router() {
	b.Helper()
	b.run("outside", "ip link set port1 down; ip link set port1 addrgenmode none; ip link set port1 up; ip addr add fe80::1/64 dev port1 nodad")
}

// advertise sends one router advertisement to eth1.
func (b *bench) advertise() {
	b.Helper()
	b.in("outside", func() error {
		ifi, err := net.InterfaceByName("port1")
		if err != nil {
			return err
		}
		c, _, err := ndp.Listen(ifi, ndp.Addr("fe80::1"))
		if err != nil {
			return err
		}
		defer c.Close()
		return c.WriteTo(&ndp.RouterAdvertisement{
			CurrentHopLimit: 64, RouterLifetime: time.Hour,
			Options: []ndp.Option{
				&ndp.PrefixInformation{PrefixLength: 64, OnLink: true, AutonomousAddressConfiguration: true,
					ValidLifetime: time.Hour, PreferredLifetime: time.Hour, Prefix: netip.MustParseAddr("2001:db8:1::")},
				ndp.NewMTU(1400),
				&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: ifi.HardwareAddr},
			},
		}, nil, netip.MustParseAddr("ff02::1"))
	})
}
