package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tapCable joins two machines by a pair of TAPs. Unlike a veth's, the carrier of
// a TAP goes through the kernel's linkwatch, which tells of losses at most once a
// second, as it does for real ports (net/core/link_watch.c).
type tapCable struct {
	near *os.File // the gateway's
	cut  atomic.Bool
}

// TAP says why TAPs can't be had here, or nil.
func TAP() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func (l *Lab) tapCable(gw, far Plug) (*tapCable, error) {
	a, err := openTAP(gw)
	if err != nil {
		return nil, err
	}
	b, err := openTAP(far)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	l.onClose(a.Close)
	l.onClose(b.Close)
	t := &tapCable{near: a}
	for _, way := range [][2]*os.File{{a, b}, {b, a}} {
		l.run(func() {
			buf := make([]byte, 65536)
			for {
				n, err := way[0].Read(buf)
				if errors.Is(err, os.ErrClosed) {
					return
				}
				if err != nil || t.cut.Load() {
					continue
				}
				// A link that is down takes no frame, as a real one.
				_, _ = way[1].Write(buf[:n])
			}
		})
	}
	return t, far.Host.Up(far.Dev)
}

// openTAP makes the TAP of a plug. The file is in the runtime's poller.
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

// carrier sets the carrier of the gateway's end. Without it no frame passes.
func (t *tapCable) carrier(on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	if !on {
		t.cut.Store(true)
	}
	raw, err := t.near.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.TUNSETCARRIER, uintptr(unsafe.Pointer(&v)))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	if on {
		t.cut.Store(false)
	}
	return wrap(err, "set the carrier of %s", t.near.Name())
}
