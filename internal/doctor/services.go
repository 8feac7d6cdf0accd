package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// A clash is a service that does what weir does, or undoes it.
type clash struct {
	process string // its name, as in /proc/PID/comm
	does    string
	do      string
	state   string
}

var clashes = []clash{
	{"NetworkManager", "it sets up ports that weir has as well", "leave it those that are not in the file: unmanaged-devices=interface-name:PORT under [keyfile] in /etc/NetworkManager/conf.d/weir.conf; or systemctl disable --now NetworkManager", Note},
	{"systemd-networkd", "it sets up ports that weir has as well", "for each port of the file write [Match] Name=PORT and [Link] Unmanaged=yes to /etc/systemd/network/00-weir-PORT.network, then networkctl reload", Note},
	{"systemd-resolved", "it answers names on this machine beside weir, and rewrites /etc/resolv.conf", "systemctl disable --now systemd-resolved", Note},
	{"dnsmasq", "it answers DHCP and names, which are weir's in the LANs", "systemctl disable --now dnsmasq", Wrong},
	{"dhcpd", "it answers DHCP, which is weir's in the LANs", "systemctl disable --now isc-dhcp-server", Wrong},
	{"kea-dhcp4", "it answers DHCP, which is weir's in the LANs", "systemctl disable --now kea-dhcp4-server", Wrong},
	{"radvd", "it sends router advertisements beside weir's", "systemctl disable --now radvd", Wrong},
	{"unbound", "it answers on port 53, which is weir's", "systemctl disable --now unbound", Note},
	{"named", "a named that weir did not start has port 53", "systemctl disable --now named", Note},
	{"chronyd", "a chronyd that weir did not start keeps the clock", "systemctl mask --now chrony", Note},
	{"ntpd", "it keeps the clock beside weir's chronyd", "systemctl disable --now ntpsec", Note},
	{"systemd-timesyncd", "it keeps the clock beside weir's chronyd", "systemctl disable --now systemd-timesyncd", Note},
	{"firewalld", "its rules stand beside weir's, and drop what weir lets pass", "systemctl disable --now firewalld", Wrong},
	{"dockerd", "it drops what is forwarded and not its own (policy of iptables' FORWARD)", "let the LANs pass, at each boot: iptables -I DOCKER-USER -j ACCEPT; or run it on another machine", Wrong},
}

func services(m Machine) (out []Finding) {
	names, _ := fs.Glob(m.Root, "proc/[0-9]*/comm")
	if _, hidden := fs.Stat(m.Root, "proc/1/comm"); hidden != nil { // hidepid, proc(5)
		return []Finding{{Check: "services", State: Unseen, Seen: "the machine's processes can't be read", Do: "try it as root"}}
	}
	for _, c := range clashes {
		if f, ok := c.found(m, names); ok {
			out = append(out, f)
		}
	}
	if b, err := fs.ReadFile(m.Root, "etc/ufw/ufw.conf"); err == nil && strings.Contains("\n"+string(b), "\nENABLED=yes") {
		out = append(out, Finding{Check: "service ufw", State: Wrong, Seen: "it is on: its rules stand beside weir's, and drop what weir lets pass", Do: "ufw disable"})
	}
	if len(out) == 0 {
		return ok("services", "none that clashes runs")
	}
	return out
}

// found looks for the service among the processes whose names are in the files names:
// one in this network, that is not weir's. Of one that may be elsewhere nothing is
// claimed.
func (c clash) found(m Machine, names []string) (f Finding, ok bool) {
	for _, name := range names {
		if !runs(m.Root, name, c.process) {
			continue
		}
		dir := path.Dir(name)
		switch here := inThisNetwork(m.Root, dir); {
		case here == elsewhere: // a container's, or in a namespace of a WAN
		case weirs(m, dir):
		case here == unknown:
			f, ok = Finding{Check: "service " + c.process, State: Unseen, Do: "try it as root",
				Seen: fmt.Sprintf("pid %s runs, and whether in this network or in a container's is not to be seen", path.Base(dir))}, true
		default:
			return Finding{Check: "service " + c.process, State: c.state, Seen: fmt.Sprintf("runs, pid %s: %s", path.Base(dir), c.does), Do: c.do}, true
		}
	}
	return f, ok
}

// runs says whether the process whose name is in a file is one of that program.
func runs(root fs.FS, file, program string) bool {
	b, err := fs.ReadFile(root, file)
	return err == nil && strings.TrimSpace(string(b)) == program[:min(15, len(program))] // the kernel keeps 15 letters
}

// network is where a process is.
type network int

const (
	unknown network = iota
	elsewhere
	here
)

// inThisNetwork says whether the process with the folder dir in /proc is in our network
// namespace. Whose namespaces an ordinary user may not look at, of those the files in
// net are: they are the same, by their numbers, to all in one network.
func inThisNetwork(root fs.FS, dir string) network {
	ours, err1 := fs.ReadLink(root, "proc/self/ns/net")
	its, err2 := fs.ReadLink(root, path.Join(dir, "ns/net"))
	if err1 != nil || err2 != nil {
		ours, its = inode(root, "proc/self/net/dev"), inode(root, path.Join(dir, "net/dev"))
	}
	switch {
	case ours == "" || its == "":
		return unknown
	case ours != its:
		return elsewhere
	}
	return here
}

// inode is the number of a file; "" if it can't be had.
func inode(root fs.FS, name string) string {
	st, err := fs.Stat(root, name)
	if err != nil {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatUint(sys.Ino, 10)
}

// weirs says whether the process with the folder dir in /proc was started by a running
// weir, wherever that keeps its files; or on a file of the state directory.
func weirs(m Machine, dir string) bool {
	const most = 16 // generations
	for up, i := dir, 0; i < most; i++ {
		b, err := fs.ReadFile(m.Root, path.Join(up, "status"))
		if err != nil {
			break
		}
		_, parent, _ := strings.Cut(string(b), "\nPPid:")
		parent, _, _ = strings.Cut(parent, "\n")
		if parent = strings.TrimSpace(parent); parent == "" || parent == "0" {
			break
		}
		up = path.Join("proc", parent)
		if args := commandLine(m.Root, up); len(args) > 1 && path.Base(args[0]) == "weir" && args[1] == "run" {
			return true
		}
	}
	return strings.Contains(strings.Join(commandLine(m.Root, dir), " "), "/"+m.StateDir+"/")
}

func commandLine(root fs.FS, dir string) []string {
	b, err := fs.ReadFile(root, path.Join(dir, "cmdline"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}
