package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Managers names the other programs that look after ports of the file:
// ifupdown, NetworkManager, systemd-networkd, and DHCP clients that run by
// themselves. What they set weir takes away, and what weir sets they take away,
// so each note says how to end it. root is the machine's file system; index
// gives a port's ifindex, 0 if it isn't there (networkd's and NetworkManager's
// files are called so). Files that can't be read say nothing.
func Managers(root fs.FS, ports []string, index func(port string) int) []string {
	var notes []string
	for _, p := range ports {
		if file := ifupdown(root, p); file != "" {
			notes = append(notes, fmt.Sprintf("%s is ifupdown's as well (%s): take its lines out there, else it is set up anew at boot", p, "/"+file))
		}
		i := index(p)
		if i == 0 {
			continue
		}
		if networkd(root, i) {
			notes = append(notes, fmt.Sprintf("%s is systemd-networkd's as well: write [Match] Name=%s and [Link] Unmanaged=yes to /etc/systemd/network/00-weir-%s.network, then networkctl reload", p, p, p))
		}
		if networkManager(root, i) {
			notes = append(notes, fmt.Sprintf("%s is NetworkManager's as well: nmcli device set %s managed no, and for good unmanaged-devices=interface-name:%s under [keyfile] in /etc/NetworkManager/conf.d/weir.conf", p, p, p))
		}
	}
	for _, c := range dhcpClients(root) {
		if slices.Contains(ports, c.port) {
			notes = append(notes, fmt.Sprintf("a DHCP client runs on %s besides: %s, pid %d; end it, and what starts it", c.port, c.name, c.pid))
		}
	}
	return notes
}

// ifupdown returns the file that configures a port (interfaces(5)), "" if none
// does. Sources are followed as far as names within /etc/network go.
func ifupdown(root fs.FS, port string) string {
	files := []string{"etc/network/interfaces"}
	for seen := 0; seen < len(files) && seen < 100; seen++ {
		b, err := fs.ReadFile(root, files[seen])
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			w := strings.Fields(line)
			if len(w) < 2 {
				continue
			}
			switch w[0] {
			case "iface":
				// "manual" leaves the port alone but for being up.
				if w[1] == port && (len(w) < 4 || w[3] != "manual") {
					return files[seen]
				}
			case "source", "source-directory":
				for _, pattern := range w[1:] {
					if !path.IsAbs(pattern) {
						pattern = "/etc/network/" + pattern
					}
					if w[0] == "source-directory" {
						pattern = path.Join(pattern, "*")
					}
					found, err := fs.Glob(root, strings.TrimPrefix(path.Clean(pattern), "/"))
					if err == nil {
						files = append(files, found...)
					}
				}
			}
		}
	}
	return ""
}

// networkd says whether systemd-networkd looks after a link: it keeps a file for
// each, which says how far it is with it.
func networkd(root fs.FS, index int) bool {
	b, err := fs.ReadFile(root, "run/systemd/netif/links/"+strconv.Itoa(index))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "ADMIN_STATE="); ok {
			return state != "unmanaged"
		}
	}
	return false
}

// networkManager says whether NetworkManager looks after a link, by its file in
// /run/NetworkManager/devices.
func networkManager(root fs.FS, index int) bool {
	b, err := fs.ReadFile(root, "run/NetworkManager/devices/"+strconv.Itoa(index))
	if err != nil {
		return false
	}
	managed := false
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "managed":
			if value == "false" || value == "0" {
				return false
			}
			managed = true
		case "connection-uuid":
			managed = true
		}
	}
	return managed
}

// client is a DHCP client of its own that runs on a port.
type client struct {
	name, port string
	pid        int
}

// elsewhere says that a process is known to be in another network namespace.
func elsewhere(root fs.FS, pid string) bool {
	own, err1 := fs.ReadLink(root, "proc/self/ns/net")
	its, err2 := fs.ReadLink(root, path.Join("proc", pid, "ns/net"))
	return err1 == nil && err2 == nil && own != its
}

// dhcpClients finds them among the machine's processes by what they were
// started with: the port is a word of its own.
func dhcpClients(root fs.FS) []client {
	procs, err := fs.ReadDir(root, "proc")
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		return nil
	}
	var out []client
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		if elsewhere(root, p.Name()) {
			continue // its eth0 is a container's
		}
		b, err := fs.ReadFile(root, path.Join("proc", p.Name(), "cmdline"))
		if err != nil || len(b) == 0 {
			continue
		}
		words := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
		name := path.Base(words[0])
		if name == "busybox" && len(words) > 1 {
			words = words[1:]
			name = path.Base(words[0])
		}
		// dhcpcd names itself "dhcpcd: eth0 [ip4]".
		if title, ok := strings.CutPrefix(words[0], "dhcpcd: "); ok {
			name = "dhcpcd"
			words = append([]string{name}, strings.Fields(title)...)
		}
		if !slices.Contains([]string{"dhclient", "dhcpcd", "udhcpc", "dhcp6c", "pump"}, name) {
			continue
		}
		for _, w := range words[1:] {
			if w = strings.TrimPrefix(w, "-i"); w != "" && !strings.HasPrefix(w, "-") && !strings.Contains(w, "/") {
				out = append(out, client{name, w, pid})
			}
		}
	}
	return out
}
