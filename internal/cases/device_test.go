package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"weir/internal/lab"
)

// device is a client whose network is configured by a program of others, as on
// a machine of its own: what the program writes under /etc, /var/lib and /run
// nobody else sees.
type device struct {
	*lab.Client
	dir string
	cmd *exec.Cmd
}

// alone gives a program its own view of those directories. Of /etc it has a
// copy, which can be looked at from outside.
const alone = `
mkdir -p "$0/etc" "$0/run" "$0/lib"
cp -a /etc/. "$0/etc/"
: >"$0/etc/resolv.conf.new"; mv "$0/etc/resolv.conf.new" "$0/etc/resolv.conf"
mount --bind "$0/etc" /etc
for d in dhcp dhcpcd systemd; do
  if [ -d /var/lib/$d ]; then mount -t tmpfs -o mode=755 none /var/lib/$d; fi
done
for d in dhcpcd systemd; do
  mkdir -p /run/$d "$0/run/$d"; mount --bind "$0/run/$d" /run/$d
done
exec "$@"
`

// device plugs a device in and prepares its directory. files are written below
// it, by name.
func (h *house) device(name, mac string, files map[string]string) *device {
	h.Helper()
	d := &device{Client: h.join(name, mac), dir: filepath.Join(h.dir, name)}
	h.must(os.MkdirAll(d.dir, 0o755))
	for name, text := range files {
		p := filepath.Join(d.dir, name)
		h.must(os.MkdirAll(filepath.Dir(p), 0o755))
		h.must(os.WriteFile(p, []byte(text), 0o644))
	}
	return d
}

// start starts the device's program; "DIR" in its arguments is the device's
// directory.
func (h *house) startOn(d *device, args ...string) {
	h.Helper()
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", d.dir)
	}
	d.cmd = exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-ec", alone, d.dir}, args...)...)
	log, err := os.Create(d.dir + "/log")
	h.must(err)
	defer log.Close()
	d.cmd.Stdout, d.cmd.Stderr = log, log
	h.must(d.Start(d.cmd))
	h.Cleanup(func() {
		if h.Failed() {
			b, _ := os.ReadFile(d.dir + "/log")
			h.Logf("%s said:\n%s", args[0], b)
		}
	})
}

// programs are the DHCP clients that people have, each as its users run it.
var programs = []struct {
	name, binary string
	files        map[string]string
	args         []string
	v6           bool   // does IPv6 by itself, and not the kernel
	resolv       string // the file that its resolvers end up in; "" is etc/resolv.conf
}{
	{
		name: "dhclient", binary: "dhclient",
		files: map[string]string{"dhclient.conf": `send host-name "dhclient"; request subnet-mask, broadcast-address, routers, domain-name, domain-name-servers, interface-mtu;`},
		args:  []string{"dhclient", "-4", "-d", "-cf", "DIR/dhclient.conf", "-lf", "DIR/leases", "-pf", "DIR/pid", "e0"},
	},
	{
		name: "dhcpcd", binary: "dhcpcd", v6: true,
		files: map[string]string{"dhcpcd.conf": "hostname dhcpcd\noption domain_name_servers, domain_name, domain_search, interface_mtu, rapid_commit\nrequire dhcp_server_identifier\nslaac hwaddr\n"},
		args:  []string{"dhcpcd", "--nobackground", "--config", "DIR/dhcpcd.conf", "e0"},
	},
	{
		name: "udhcpc", binary: "udhcpc",
		args: []string{"udhcpc", "-f", "-i", "e0", "-x", "hostname:udhcpc", "-s", "/etc/udhcpc/default.script"},
	},
	{
		name: "networkd", binary: "systemd-networkd", v6: true, resolv: "run/systemd/netif/links",
		files: map[string]string{
			"etc/systemd/network/e0.network": "[Match]\nName=e0\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=yes\n[DHCPv4]\nHostname=networkd\nClientIdentifier=mac\nUseDomains=yes\n[IPv6AcceptRA]\nUseDomains=yes\n",
		},
		args: []string{"sh", "-ec", "mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp; chown -R systemd-network: /run/systemd/netif; exec /lib/systemd/systemd-networkd"},
	},
}
