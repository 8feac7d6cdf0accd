package lab

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// TAP says why TAPs can't be had here, or nil.
func TAP() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// openTAP makes the TAP of a plug. The file is in the runtime's poller. Without
// IFF_VNET_HDR, and with no offload asked for by TUNSETOFFLOAD, the kernel hands
// over frames as a wire has them: cut to the MTU, checksums whole (drivers/net/tun.c,
// tun_net_fix_features).
func openTAP(p Plug) (*os.File, error) {
	fd := -1
	err := p.Host.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return fmt.Errorf("open /dev/net/tun: %w", err)
		}
		req, err := unix.NewIfreq(p.Dev)
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	})
	if err == nil && p.MAC != "" {
		err = setMAC(p)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("TAP %s on %s: %w", p.Dev, p.Host, err)
	}
	return os.NewFile(uintptr(fd), p.Dev), nil
}

func setMAC(p Plug) error {
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return err
	}
	link, err := p.Host.nl.LinkByName(p.Dev)
	if err != nil {
		return err
	}
	return p.Host.nl.LinkSetHardwareAddr(link, mac)
}
