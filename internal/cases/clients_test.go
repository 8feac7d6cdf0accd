package cases

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestOthersClients: the DHCP clients that people have get address, route,
// resolver and domain, and their names are known; ping, dig and curl work on
// them as on any network.
func TestOthersClients(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhclient", "dhcpcd", "udhcpc", "systemd-networkd", "ping", "dig", "curl")
		h.needRoot()
		fiber := h.connect(fiberLine())
		h.serveHTTP(fiber.Inet, 8080)
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)

		devices := map[string]*device{}
		for i, p := range programs {
			d := h.device(p.name, fmt.Sprintf("02:00:00:00:01:%02x", i), p.files)
			h.startOn(d, p.args...)
			devices[p.name] = d
		}
		for _, p := range programs {
			d := devices[p.name]
			h.until(p.name+" has a lease", 20*time.Second, func() bool {
				as, err := d.Addrs("e0", false)
				return err == nil && len(as) > 0 && strings.Contains(h.sh(d.Host, "ip -4 route show default"), "via 172.31.0.1")
			})
			as, err := d.Addrs("e0", false)
			h.must(err)
			own := as[0]
			if a := own.Addr(); own.Bits() != 24 || a.Less(addr("172.31.0.100")) || addr("172.31.0.200").Less(a) {
				h.Errorf("%s: address %s", p.name, own)
			}
			h.until(p.name+" has an IPv6 address and route", 20*time.Second, func() bool {
				as, err := d.Addrs("e0", true)
				return err == nil && slices.ContainsFunc(as, func(p netip.Prefix) bool { return pfx("fd00::/64").Contains(p.Addr()) }) &&
					strings.Contains(h.sh(d.Host, "ip -6 route show default"), "via fe80::")
			})
			h.until(p.name+" knows resolver and domain", 5*time.Second, func() bool {
				s := d.resolv(p.resolv)
				return strings.Contains(s, "172.31.0.1") && strings.Contains(s, "local") && (!p.v6 || strings.Contains(s, "fd00::1"))
			})
			h.until(p.name+"'s name is known", 5*time.Second, func() bool {
				return strings.TrimSpace(h.sh(pc.Host, "dig @172.31.0.1 +short "+p.name+".local")) == own.Addr().String()
			})
			if got := strings.TrimSpace(h.sh(pc.Host, "dig @fd00::1 +short -x "+own.Addr().String())); got != p.name+".local." {
				h.Errorf("%s's address is called %q", p.name, got)
			}
			for _, cmd := range []string{
				"ping -c 1 -W 2 8.8.8.8", "ping -c 1 -W 2 2001:db8:80::80", "ping -c 1 -W 2 172.31.0.1",
				"dig @172.31.0.1 +short www.example.com | grep -qx 192.0.2.80",
				"dig @172.31.0.1 +tcp +short www.example.com AAAA | grep -qx 2001:db8:80::80",
				"test $(curl -sS --max-time 3 http://192.0.2.80:8080/) = 198.51.100.10",
				"curl -sS --max-time 3 'http://[2001:db8:80::80]:8080/' | grep -q ^2001:db8:1:",
			} {
				if out, err := d.Run(h.Context(), "sh", "-ec", cmd); err != nil {
					h.Errorf("%s: %s: %v %s", p.name, cmd, err, out)
				}
			}
		}
		if n, first := fiber.Strays(); n > 0 {
			h.Errorf("%d frames that the line must not see: %q", n, first)
		}
	})
}

// resolv is what a device's program has found out about resolvers.
func (d *device) resolv(path string) string {
	if path == "" {
		path = "etc/resolv.conf"
	}
	path = filepath.Join(d.dir, path)
	files := []string{path}
	if more, err := filepath.Glob(path + "/*"); err == nil {
		files = append(files, more...)
	}
	var b strings.Builder
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			b.Write(text)
		}
	}
	return b.String()
}

// serveHTTP has a machine answer HTTP with the address that asked.
func (h *house) serveHTTP(on *lab.Host, port int) {
	h.Helper()
	var l net.Listener
	h.must(on.Do(func() (err error) { l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); return err }))
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, err := netip.ParseAddrPort(r.RemoteAddr)
		if err == nil {
			fmt.Fprint(w, a.Addr().Unmap())
		}
	})}
	go func() { _ = s.Serve(l) }()
	h.Cleanup(func() { _ = s.Shutdown(context.Background()) })
}
