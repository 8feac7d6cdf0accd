package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// Command is this program run again with args as pid 1 of a new lab. There it
// calls Enter before anything else.
//
// The process dies with the thread that starts it (PDEATHSIG): lock the
// goroutine to its thread until Wait returns.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if !admin() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// admin says whether the process has CAP_SYS_ADMIN in its user namespace.
func admin() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// managers are what in /etc another network manager reads. A lab's gateway is a
// machine that nobody else manages.
var managers = []string{"network", "netplan", "NetworkManager", "systemd", "wpa_supplicant", "nftables.conf"}

// Enter furnishes the new namespaces of a process that Command started: mounts
// that nobody else sees, /proc and /sys of the lab, an empty /run, an /etc that
// may be written to, has no resolver and names no other network manager.
func Enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the lab's mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the lab's /proc: %w", err)
	}
	// Where /sys can't be had, what lies under it is the outer machine's: only
	// programs that look there for links mind, and the lab has none.
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("mount the lab's /sys: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount the lab's /run: %w", err)
	}
	if err := os.Mkdir(netns.Dir, 0o755); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("lab")); err != nil {
		return fmt.Errorf("name the lab's machine: %w", err)
	}
	return ownEtc()
}

// ownEtc lays an /etc of links to the machine's one over it, so that programs
// under trial may write there (the resolver's file is replaced by rename, which
// a file mounted in its place would refuse).
func ownEtc() error {
	const below = "/run/etc"
	if err := os.Mkdir(below, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/etc", below, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep the machine's /etc in sight: %w", err)
	}
	if err := unix.Mount("tmpfs", "/etc", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount the lab's /etc: %w", err)
	}
	entries, err := os.ReadDir(below)
	if err != nil {
		return err
	}
	hidden := "," + strings.Join(managers, ",") + ",resolv.conf,"
	for _, e := range entries {
		if strings.Contains(hidden, ","+e.Name()+",") {
			continue
		}
		if err := os.Symlink(filepath.Join(below, e.Name()), filepath.Join("/etc", e.Name())); err != nil {
			return err
		}
	}
	return os.WriteFile("/etc/resolv.conf", []byte("# the lab's machine has no resolver yet\n"), 0o644)
}
