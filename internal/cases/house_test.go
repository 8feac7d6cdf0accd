package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
	"weir/internal/lab/labtest"
	"weir/internal/netns/netnstest"
)

var (
	addr = netip.MustParseAddr
	pfx  = netip.MustParsePrefix
	at   = netip.MustParseAddrPort
)

// base is the house that most complaints happen in. Its names are the forwarder's:
// the lines' resolvers are part of what happens.
const base = unsaidDNS + `dns { engine = "forward" }
`

// unsaidDNS is base, with the engine left open.
const unsaidDNS = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = "eth2"
  ipv6 { method = "none" }
}
failover {
  prefer    = [wan.fiber, wan.lte]
  hold_down = "2s"
  probe { target = ["1.1.1.1", "8.8.8.8"] }
}
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/24", "fd00::1/64"]
  dhcp { pool = "172.31.0.100-172.31.0.200" }
  host "nas" {
    mac     = "02:00:00:00:00:23"
    address = ["172.31.0.23", "fd00::23"]
  }
}
forward "web" {
  port = [80, 443]
  to   = host.nas
}
`

// The lines that the lab's own ISPs sell.
func fiberLine() lab.Line {
	return lab.Line{
		Name: "fiber", Port: "eth1", Customer4: []netip.Prefix{pfx("198.51.100.10/24")}, Router4: addr("198.51.100.1"),
		DHCP: true, Lease: time.Hour, Prefix6: pfx("2001:db8:1::/64"), Router6: addr("fe80::1"),
	}
}

func lteLine() lab.Line {
	return lab.Line{
		Name: "lte", Port: "eth2", Customer4: []netip.Prefix{pfx("203.0.113.10/24")}, Router4: addr("203.0.113.1"),
		DHCP: true, Lease: time.Hour,
	}
}

// inFull says whether cases have the size of the complaint, whatever that takes.
func inFull() bool { return os.Getenv("WEIR_LONG") != "" }

// house is a lab with a weir in it.
type house struct {
	*testing.T
	*lab.Lab
	gw   *lab.Host
	home *lab.Switch

	dir  string
	file string
	run  *exec.Cmd
	env  []string      // of run, besides the test's own
	left chan struct{} // closed when run has ended
}

// in runs f in a lab whose gateway has a switch called home on eth0.
func in(t *testing.T, f func(h *house)) {
	t.Helper()
	t.Parallel()
	inFull() // outside the lab too: go test's cache shall know
	labtest.In(t, func(t *testing.T, l *lab.Lab) {
		h := &house{T: t, Lab: l, gw: l.Gateway(), dir: "/run/case"}
		h.must(os.Mkdir(h.dir, 0o755))
		h.file = filepath.Join(h.dir, "gateway.hcl")
		var err error
		h.home, err = l.Switch("home")
		h.must(err)
		h.must(h.home.Plug(lab.Plug{Host: h.gw, Dev: "eth0"}))
		t.Cleanup(h.tellLog)
		f(h)
	})
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// need skips the case aloud where a program of others is missing.
func (h *house) need(programs ...string) {
	h.Helper()
	for _, p := range programs {
		found := false
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/lib/systemd") {
			if st, err := os.Stat(filepath.Join(dir, p)); err == nil && st.Mode()&0o111 != 0 {
				found = true
			}
		}
		if !found {
			netnstest.Missing(h.T, p, exec.ErrNotFound)
		}
	}
}

// needRoot skips a case whose programs change their user, which takes more than
// the one uid of a user namespace.
func (h *house) needRoot() {
	h.Helper()
	b, err := os.ReadFile("/proc/self/uid_map")
	h.must(err)
	if f := strings.Fields(string(b)); len(f) != 3 || f[2] == "1" {
		netnstest.Missing(h.T, "root", errors.New("in a user namespace of one uid"))
	}
}

func (h *house) connect(l lab.Line) *lab.ISP {
	h.Helper()
	isp, err := h.Connect(l)
	h.must(err)
	return isp
}

// join plugs a device into the LAN. fixed addresses, if any, are taken without
// asking anyone, with the gateway as router.
func (h *house) join(name, mac string, fixed ...string) *lab.Client {
	h.Helper()
	c, err := h.Join(h.home, name, mac)
	h.must(err)
	for _, f := range fixed {
		p := pfx(f)
		gw := addr("fd00::1")
		if p.Addr().Is4() {
			gw = p.Masked().Addr().Next()
		}
		h.must(c.Static(p, gw))
	}
	return c
}

// weir is the command line, as somebody on the gateway would use it.
func (h *house) weir(args ...string) *exec.Cmd {
	dirs := []string{"--runtime-dir", h.dir + "/weir"}
	if args[0] == "run" || args[0] == "plan" || args[0] == "down" {
		dirs = append(dirs, "--state-dir", h.dir+"/state")
	}
	cmd := exec.Command("/proc/self/exe", append(args, dirs...)...)
	cmd.Args[0] = "weir"
	return cmd
}

// write makes text the user's file.
func (h *house) write(text string) {
	h.Helper()
	h.must(os.WriteFile(h.file, []byte(text), 0o644))
}

// start starts the daemon on the file; its log is told if the case fails.
func (h *house) start(text string) {
	h.Helper()
	h.write(text)
	h.again()
}

// again starts the daemon on the file as it is.
func (h *house) again() {
	h.Helper()
	log, err := os.OpenFile(h.dir+"/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	h.must(err)
	defer log.Close()
	h.run = h.weir("run", h.file)
	h.run.Stdout, h.run.Stderr = log, log
	h.run.Env = append(os.Environ(), h.env...)
	h.must(h.gw.Start(h.run))
	run, left := h.run, make(chan struct{})
	h.left = left
	go func() {
		_ = run.Wait() // a signal's end is an error
		close(left)
	}()
}

// gone says whether the daemon has ended.
func (h *house) gone() bool {
	select {
	case <-h.left:
		return true
	default:
		return false
	}
}

// end ends the daemon by a signal and waits for it.
func (h *house) end(s syscall.Signal) {
	h.Helper()
	h.must(h.run.Process.Signal(s))
	<-h.left
}

// log is what the daemon has said so far.
func (h *house) log() string {
	b, _ := os.ReadFile(h.dir + "/log")
	return string(b)
}

func (h *house) tellLog() {
	if h.Failed() {
		h.Logf("the daemon's log:\n%s", h.log())
	}
}

// tell runs a weir command to its end, and returns what it printed.
func (h *house) tell(args ...string) (string, error) {
	cmd := h.weir(args...)
	var out []byte
	err := h.gw.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err })
	if err != nil {
		err = fmt.Errorf("weir %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// sh runs a shell script on a machine.
func (h *house) sh(m *lab.Host, script string) string {
	h.Helper()
	out, err := m.Run(h.Context(), "sh", "-ec", script)
	h.must(err)
	return out
}

// until waits for what should become so, and fails the case if it does not.
func (h *house) until(what string, limit time.Duration, done func() bool) time.Duration {
	h.Helper()
	begin := time.Now()
	if !lab.Until(h.Context(), limit, done) {
		h.Fatalf("%s: not so after %v", what, limit)
	}
	return time.Since(begin)
}

// outBy is the name of the internet's machine that a client's new connection to
// to reaches, or how it was not answered.
func (h *house) outBy(c *lab.Host, network, to string) string {
	h.Helper()
	g, a, err := c.Ask(h.Context(), network, netip.Addr{}, at(to), time.Second)
	if a != lab.Answered {
		return fmt.Sprintf("%s (%v)", a, err)
	}
	return g.Host
}

// web is an echo server of the internet's.
const web4, web6 = "192.0.2.80:7", "[2001:db8:80::80]:7"

// untilOutBy waits until new connections of a client go out by a line.
func (h *house) untilOutBy(c *lab.Client, line string, limit time.Duration) time.Duration {
	h.Helper()
	got := ""
	begin := time.Now()
	if !lab.Until(h.Context(), limit, func() bool {
		if h.gone() {
			h.Fatal("the daemon has ended")
		}
		got = h.outBy(c.Host, "tcp", web4)
		return got == "inet-"+line
	}) {
		h.Fatalf("new connections do not go out by %s after %v: %s", line, limit, got)
	}
	return time.Since(begin)
}

// status is what weir tells of itself: what a case is about only where the
// complaint is that nobody was told.
func (h *house) status() (s api.Status) {
	h.Helper()
	out, err := h.tell("status", "--json")
	h.must(err)
	h.must(json.Unmarshal([]byte(out), &s))
	return s
}

// verdict is what weir thinks of a line's IPv4.
func (h *house) verdict(wan string) string {
	h.Helper()
	for _, w := range h.status().WANs {
		if w.Name == wan {
			return w.IPv4.Verdict
		}
	}
	h.Fatalf("no WAN %s in the status", wan)
	return ""
}

// strays fails the case if an ISP saw what it should not.
func (h *house) strays(isps ...*lab.ISP) {
	h.Helper()
	for _, i := range isps {
		if n, first := i.Strays(); n > 0 {
			h.Errorf("%s: %d frames that the line must not see: %q", i.Name, n, first)
		}
	}
}
