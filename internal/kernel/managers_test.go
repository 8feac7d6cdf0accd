package kernel

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
)

func TestManagers(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	link := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s), Mode: fs.ModeSymlink} }
	root := fstest.MapFS{
		"proc/self/ns/net": link("net:[1]"),
		"proc/812/ns/net":  link("net:[1]"),
		"proc/818/ns/net":  link("net:[2]"), // in a container, whose eth0 is another
		"proc/818/cmdline": file("dhclient\x00eth0\x00"),
		"etc/network/interfaces": file(`# The loopback network interface
auto lo
iface lo inet loopback
source /etc/network/interfaces.d/*
allow-hotplug eth1
iface eth1 inet dhcp
`),
		"etc/network/interfaces.d/lan":      file("iface eth0 inet static\n  address 192.168.1.5/24\niface eth7 inet manual\n"),
		"run/systemd/netif/links/4":         file("# This is private data. Do not parse.\nADMIN_STATE=configured\nOPER_STATE=routable\n"),
		"run/systemd/netif/links/5":         file("ADMIN_STATE=unmanaged\n"),
		"run/NetworkManager/devices/6":      file("[device]\nmanaged=true\nperm-hw-addr-fake=1\n"),
		"run/NetworkManager/devices/5":      file("[device]\nmanaged=false\n"),
		"proc/812/cmdline":                  file("/sbin/dhclient\x00-4\x00-v\x00-i\x00-pf\x00/run/dhclient.eth1.pid\x00eth1\x00"),
		"proc/813/cmdline":                  file("dhcpcd: eth2 [ip4]\x00"),
		"proc/814/cmdline":                  file("busybox\x00udhcpc\x00-ieth3\x00"),
		"proc/815/cmdline":                  file("/usr/bin/vi\x00dhclient\x00eth0\x00"),
		"proc/816/cmdline":                  file(""),
		"proc/self/cmdline":                 file("dhclient\x00eth0\x00"),
		"proc/817/cmdline":                  file("dhclient\x00wlan0\x00"),
		"etc/network/interfaces.d/ignored~": file(""),
	}
	index := map[string]int{"eth0": 2, "eth1": 3, "eth2": 4, "eth3": 5, "eth4": 6}
	got := Managers(root, []string{"eth0", "eth1", "eth2", "eth3", "eth4", "eth7"}, func(p string) int { return index[p] })
	want := []string{
		"eth0 is ifupdown's as well (/etc/network/interfaces.d/lan): take its lines out there, else it is set up anew at boot",
		"eth1 is ifupdown's as well (/etc/network/interfaces): take its lines out there, else it is set up anew at boot",
		"eth2 is systemd-networkd's as well: write [Match] Name=eth2 and [Link] Unmanaged=yes to /etc/systemd/network/00-weir-eth2.network, then networkctl reload",
		"eth4 is NetworkManager's as well: nmcli device set eth4 managed no, and for good unmanaged-devices=interface-name:eth4 under [keyfile] in /etc/NetworkManager/conf.d/weir.conf",
		"a DHCP client runs on eth1 besides: dhclient, pid 812; end it, and what starts it",
		"a DHCP client runs on eth2 besides: dhcpcd, pid 813; end it, and what starts it",
		"a DHCP client runs on eth3 besides: udhcpc, pid 814; end it, and what starts it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if got := Managers(fstest.MapFS{}, []string{"eth0"}, func(string) int { return 1 }); got != nil {
		t.Errorf("an empty machine: %q", got)
	}
}

// A file that sources itself ends.
func TestIfupdownInACircle(t *testing.T) {
	root := fstest.MapFS{"etc/network/interfaces": &fstest.MapFile{Data: []byte("source interfaces\nsource-directory /etc/network\n")}}
	if got := ifupdown(root, "eth0"); got != "" {
		t.Error(got)
	}
}
