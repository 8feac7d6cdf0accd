package kernel

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Allowed returns why this process can't read and change the network of its
// namespace, nil where it can: what would fail later, half-way and one by one.
func Allowed() error {
	if capable(unix.CAP_NET_ADMIN) && capable(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return errors.New("this takes root (CAP_NET_ADMIN and CAP_SYS_ADMIN), and nothing was read or changed: try it with sudo; `weir check FILE` and `weir rehearse FILE` need no root")
}

// capable says whether the process has a capability (below 32) in its user namespace.
func capable(c int) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	return unix.Capget(&hdr, &caps[0]) == nil && caps[0].Effective&(1<<c) != 0
}
