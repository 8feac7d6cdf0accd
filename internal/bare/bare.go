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
