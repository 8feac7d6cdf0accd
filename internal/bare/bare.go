// Package bare has system calls that never wait, made without telling Go's
// scheduler, and an alarm that the scheduler need not watch for.
//
// A daemon that has something to look at twenty times a second as long as it
// runs pays for waking up, not for looking. Measured on an idle machine, at
// 20 Hz: 0.45 % of a processor for an empty time.Ticker, 0.10 % for an Alarm. The difference is the
// runtime's monitor thread (sysmon). It sleeps while nothing runs, but is woken
// by any system call (entersyscall) and by the next time.Timer, and then looks
// around each 20 us until all is quiet again, on another processor. So what runs in
// an idle weir sleeps by an Alarm, makes its calls here, and, where one processor
// is enough for it, says so by runtime.GOMAXPROCS(1), so that no second thread is
// woken to look for work.
//
// A call that waits would keep its processor from all other goroutines: pass a
// descriptor that does not block.
package bare

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read is read(2). The error, here and below, is a unix.Errno; EINTR is seen to.
func Read(fd int, b []byte) (int, error) {
	return call(unix.SYS_READ, fd, b, 0)
}

// Write is write(2).
func Write(fd int, b []byte) (int, error) {
	return call(unix.SYS_WRITE, fd, b, 0)
}

// Recv is recv(2): recvfrom(2) for whoever knows whom it is from. MSG_DONTWAIT
// need not be among the flags.
func Recv(fd int, b []byte, flags int) (int, error) {
	return call(unix.SYS_RECVFROM, fd, b, flags|unix.MSG_DONTWAIT)
}

// A Msg is what recvmsg(2) tells of what it received.
type Msg struct {
	N, OOBN int            // bytes of it, and of its control messages
	Flags   int            // MSG_CTRUNC, ...
	From    netip.AddrPort // invalid if the socket is not of the internet
	Type    uint8          // of a packet socket's: PACKET_HOST, ...
}

// Recvmsg is recvmsg(2) into b, with control messages into oob. MSG_DONTWAIT need not be
// among flags.
func Recvmsg(fd int, b, oob []byte, flags int) (Msg, error) {
	var from unix.RawSockaddrInet6 // the longer one
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	h := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&from)), Namelen: unix.SizeofSockaddrInet6, Iov: &iov, Control: unsafe.SliceData(oob)}
	h.SetIovlen(1)
	h.SetControllen(len(oob))
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags|unix.MSG_DONTWAIT))
		switch errno {
		case 0:
			m := Msg{N: int(n), OOBN: int(h.Controllen), Flags: int(h.Flags)}
			switch {
			case from.Family == unix.AF_INET && h.Namelen >= unix.SizeofSockaddrInet4:
				in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&from))
				m.From = netip.AddrPortFrom(netip.AddrFrom4(in.Addr), order(in.Port))
			case from.Family == unix.AF_INET6 && h.Namelen >= unix.SizeofSockaddrInet6:
				m.From = netip.AddrPortFrom(netip.AddrFrom16(from.Addr), order(from.Port))
			case from.Family == unix.AF_PACKET && h.Namelen >= unix.SizeofSockaddrLinklayer-2: // an Ethernet address has six bytes of eight
				m.Type = (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&from)).Pkttype
			}
			return m, nil
		case unix.EINTR:
		default:
			return Msg{}, errno
		}
	}
}

// Sendto is sendto(2) to an address of the internet; a zone is left out. MSG_DONTWAIT is among its flags.
func Sendto(fd int, b []byte, to netip.AddrPort) error {
	var name unsafe.Pointer
	var size uintptr
	if addr := to.Addr(); addr.Is4() {
		name, size = unsafe.Pointer(&unix.RawSockaddrInet4{Family: unix.AF_INET, Port: order(to.Port()), Addr: addr.As4()}), unix.SizeofSockaddrInet4
	} else {
		name, size = unsafe.Pointer(&unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: order(to.Port()), Addr: addr.As16()}), unix.SizeofSockaddrInet6
	}
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, uintptr(name), size)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// order has a port in the network's order, or back.
func order(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}

func call(trap uintptr, fd int, b []byte, flags int) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// Stat is statx(2), following links, of what mask asks for (STATX_INO, ...). The
// file is in memory: one of proc, sysfs or nsfs.
func Stat(path string, mask uint32) (unix.Statx_t, error) {
	var st unix.Statx_t
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return st, err
	}
	dir := unix.AT_FDCWD
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)), unix.AT_STATX_DONT_SYNC, uintptr(mask), uintptr(unsafe.Pointer(&st)), 0)
		switch errno {
		case 0:
			return st, nil
		case unix.EINTR:
		default:
			return st, errno
		}
	}
}
