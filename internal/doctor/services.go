package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
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
	here, err := fs.ReadLink(m.Root, "proc/self/ns/net")
	names, _ := fs.Glob(m.Root, "proc/[0-9]*/comm")
	if _, hidden := fs.Stat(m.Root, "proc/1/comm"); err != nil || hidden != nil { // hidepid, proc(5)
		return []Finding{{Check: "services", State: Unseen, Seen: "the machine's processes can't be read", Do: "try it as root"}}
	}
	unsure := false
	for _, c := range clashes {
		for _, name := range names {
			b, err := fs.ReadFile(m.Root, name)
			// The kernel keeps 15 letters.
			if err != nil || strings.TrimSpace(string(b)) != c.process[:min(15, len(c.process))] {
				continue
			}
			dir := path.Dir(name)
			its, err := fs.ReadLink(m.Root, path.Join(dir, "ns/net"))
			if err == nil && its != here {
				continue // a container's, or in a namespace of a WAN
			}
			args, _ := fs.ReadFile(m.Root, path.Join(dir, "cmdline"))
			if strings.Contains(string(args), "/"+m.StateDir+"/") {
				continue // weir's own
			}
			f := Finding{Check: "service " + c.process, State: c.state, Seen: fmt.Sprintf("runs, pid %s: %s", path.Base(dir), c.does), Do: c.do}
			if err != nil {
				unsure = true
				f.Seen += " (if it is in this network: this user can't see that)"
			}
			out = append(out, f)
			break
		}
	}
	if b, err := fs.ReadFile(m.Root, "etc/ufw/ufw.conf"); err == nil && strings.Contains("\n"+string(b), "\nENABLED=yes") {
		out = append(out, Finding{Check: "service ufw", State: Wrong, Seen: "it is on: its rules stand beside weir's, and drop what weir lets pass", Do: "ufw disable"})
	}
	if len(out) == 0 {
		return ok("services", "none that clashes runs")
	}
	if unsure {
		out = append(out, Finding{Check: "services", State: Unseen, Seen: "whether they are in this network, or in a container's", Do: "try it as root"})
	}
	return out
}
