package cases

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"weir/internal/lab"
)

// server is a program of others on an ISP's router.
type server struct {
	cmd *exec.Cmd
	log string // a file
}

// serve starts a server on a machine; what it says goes to a file, which is told
// if the case fails.
func (h *house) serve(on *lab.Host, name string, args ...string) *server {
	h.Helper()
	s := &server{cmd: exec.Command(sbin(name), args...), log: filepath.Join(h.dir, on.Name+"-"+name+".log")}
	f, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	h.must(err)
	defer f.Close()
	s.cmd.Stdout, s.cmd.Stderr = f, f
	h.must(on.Start(s.cmd))
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("%s on %s said:\n%s", name, on, s.said())
		}
	})
	return s
}

// sbin finds what is not on every user's path.
func sbin(name string) string {
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p := filepath.Join(dir, name); exists(p) {
			return p
		}
	}
	return name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (s *server) said() string {
	b, _ := os.ReadFile(s.log)
	return string(b)
}

// bare is what an ISP of the lab sells, without its own DHCP server: the address
// is the customer's all the same, and somebody else leases it.
func bare(l lab.Line) lab.Line {
	l.DHCP = false
	if l.Prefix6.IsValid() {
		l.Customer6, l.Prefix6 = []netip.Prefix{l.Prefix6}, netip.Prefix{}
	}
	return l
}

// dnsmasq leases an ISP's customer address. options are more of its arguments.
func (h *house) dnsmasq(i *lab.ISP, options ...string) *server {
	h.Helper()
	c := i.Customer4[0]
	h.must(i.Router.AddAddr("cust0", netip.PrefixFrom(i.Router4, c.Bits())))
	mask := netmask(c)
	return h.serve(i.Router, "dnsmasq", append([]string{
		"--no-daemon", "--conf-file=/dev/null", "--pid-file=", "--port=0", "--interface=cust0", "--bind-interfaces",
		"--log-dhcp", "--log-facility=-", "--dhcp-authoritative", "--no-ping", "--dhcp-leasefile=" + h.dir + "/" + i.Name + ".leases",
		fmt.Sprintf("--dhcp-range=%s,%s,%s,2m", c.Addr(), c.Addr(), mask),
	}, options...)...)
}

// dhcpd leases an ISP's customer address by ISC's server. more is put into the
// subnet's block of its configuration.
func (h *house) dhcpd(i *lab.ISP, more string) *server {
	h.Helper()
	c := i.Customer4[0]
	h.must(i.Router.AddAddr("cust0", netip.PrefixFrom(i.Router4, c.Bits())))
	conf, leases := h.dir+"/"+i.Name+".conf", h.dir+"/"+i.Name+".leases"
	h.must(os.WriteFile(conf, fmt.Appendf(nil, `
authoritative;
ping-check off;
subnet %s netmask %s {
  range %s;
  option routers %s;
  option domain-name-servers %s;
%s
}
`, c.Masked().Addr(), netmask(c), c.Addr(), i.Router4, i.Router4, more), 0o644))
	h.must(os.WriteFile(leases, nil, 0o644))
	return h.serve(i.Router, "dhcpd", "-4", "-f", "-d", "-cf", conf, "-lf", leases, "-pf", h.dir+"/"+i.Name+".pid", "cust0")
}

// radvd advertises an ISP's prefix.
func (h *house) radvd(i *lab.ISP, more string) *server {
	h.Helper()
	p := i.Customer6[0]
	h.must(i.Router.AddAddr("cust0", netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits())))
	conf := h.dir + "/" + i.Name + ".radvd"
	h.must(os.WriteFile(conf, fmt.Appendf(nil, `
interface cust0 {
  AdvSendAdvert on;
  MinRtrAdvInterval 3; MaxRtrAdvInterval 4;
  prefix %s { };
%s
};
`, p.Masked(), more), 0o644))
	return h.serve(i.Router, "radvd", "--nodaemon", "--config", conf, "--pidfile", h.dir+"/"+i.Name+".rpid", "--logmethod", "stderr")
}

func netmask(p netip.Prefix) string {
	m := ^uint32(0) << (32 - p.Bits())
	return fmt.Sprintf("%d.%d.%d.%d", byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}

// lines returns what holds all of parts.
func lines(text string, parts ...string) (found []string) {
next:
	for line := range strings.Lines(text) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}
