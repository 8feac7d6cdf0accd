package ruleset_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/ruleset"
)

// world is a house brought up among others, and all that can be asked of it.
type world struct {
	servers
	*gateway
	onFiber, onLTE desired.Desired
	log            *nflog
	first          signs          // what was logged and counted in the first round
	looks          int            // how often something was asked: no two say the same
	mtu            map[string]int // of the line that an answer with such an address in it came by
}

// bringUp makes the world of house.hcl. Call it in namespaces of the test's own.
func bringUp(t *testing.T) *world {
	t.Helper()
	needNft(t)
	mustRun(t, "", worldScript)
	c := parse(t, "house")
	st := working(c)
	// A line's resolver may have an address that is the gateway's own.
	resolver := func(line, v4, v6 string) {
		l := st.WANs[line]
		l.V4.DNS, l.V6.DNS = addrs(strings.Fields(v4)...), addrs(strings.Fields(v6)...)
		st.WANs[line] = l
	}
	resolver("fiber", "172.31.30.1", "fd00:30::1")
	resolver("lte", "192.0.2.80 192.0.2.90", "2001:db8:80::80 2001:db8:80::90")
	w := &world{servers: servers{heard: map[string]string{}}, gateway: newGateway(t), onFiber: desired.Build(c, st)}
	resolver("fiber", "192.0.2.80 192.0.2.90", "2001:db8:80::80 2001:db8:80::90") // as many: the table is one and the same
	resolver("lte", "172.31.20.1", "fd00:20::1")
	st.Use4, st.Use6 = "lte", "lte"
	w.onLTE = desired.Build(c, st)
	w.mtu = map[string]int{
		"198.51.": 1400, "2001:db8:1:": 1400, "10.0.1.2": 1400, "2001:db8:ff:1:": 1400,
		"203.0.": 1420, "2001:db8:2:": 1420, "10.0.2.2": 1420, "2001:db8:ff:2:": 1420,
	}
	w.turn(t, w.onFiber)
	// Each refusal must be seen and each log line read: spare no words.
	mustRun(t, "", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit; echo 0 >/proc/sys/net/ipv6/icmp/ratelimit")
	w.built.Namespaces[0].Table.Text = strings.ReplaceAll(w.built.Namespaces[0].Table.Text, "limit rate 5/second burst 10 packets log", "log")
	if err := load("", transaction(w.built.Namespaces[0])); err != nil {
		t.Fatal(err)
	}
	settled(t, w.onFiber)
	mustRun(t, "", "ip route add unreachable 192.0.2.99; ip route add unreachable 2001:db8:80::99")
	// Sources to pretend.
	mustRun(t, "guest", "ip addr add 172.31.0.99/32 dev e0; ip addr add fd00::99/128 dev e0 nodad preferred_lft 0")
	mustRun(t, "pc", "ip addr add 198.18.0.1/32 dev e0; ip addr add fd00:77::1/128 dev e0 nodad preferred_lft 0")
	mustRun(t, "camera", "ip addr add 198.18.0.1/32 dev e0; ip addr add fd00::98/128 dev e0 nodad preferred_lft 0")
	mustRun(t, "inet", "for a in 172.31.0.99/32 172.31.20.99/32 172.31.255.4/32 fd00::99/128 fd00:20::99/128; do ip addr add $a dev lo; done")

	w.serve(t, "inet", []string{"192.0.2.80", "192.0.2.90", "2001:db8:80::80", "2001:db8:80::90"}, []int{25, 53, 7000})
	w.serve(t, "isp1", []string{"172.31.30.1", "fd00:30::1"}, []int{53})
	w.serve(t, "isp2", []string{"172.31.20.1", "fd00:20::1"}, []int{53})
	w.serve(t, "nas", []string{"172.31.0.23", "fd00::23"}, []int{22, 80, 443, 445, 631, 5060, 8080, 9102, 9103, 10021, 30000, 30003, 30020})
	w.serve(t, "pc", []string{"172.31.0.50", "fd00::50"}, []int{445})
	w.serve(t, "guest", []string{"172.31.20.50", "fd00:20::50"}, []int{445})
	w.serve(t, "camera", []string{"172.31.30.8", "fd00:30::8"}, []int{554})
	w.serve(t, "other", []string{"10.98.0.2"}, []int{7000})
	w.serve(t, "", []string{"10.99.0.1"}, []int{7000})
	for _, a := range w.onFiber.Namespaces[0].Addrs {
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			w.serve(t, "", []string{a.Prefix.Addr().String()}, []int{22, 53, 67, 113, 123, 445, 547, 7000})
		}
	}
	w.serveBroadcast(t, "eth3")
	w.serveNodeInfo(t, "guest")
	w.log = openLog(t)
	return w
}

func addrs(of ...string) []netip.Addr {
	out := make([]netip.Addr, len(of))
	for i, a := range of {
		out[i] = netip.MustParseAddr(a)
	}
	return out
}

// try asks everything, with fiber in use and then with lte, and returns what
// was otherwise than it has to be, and how. It ends with fiber in use.
func (w *world) try() map[string]string {
	wrong := map[string]string{}
	round := w.round()
	if err := w.forget(); err != nil {
		wrong["the neighbours"] = err.Error()
	}
	before, err := w.counters()
	if err != nil {
		wrong["the counters"] = err.Error()
	}
	w.log.start()

	old := w.openFlows("fiber")
	special := make(chan map[string]string)
	go func() { special <- w.special(round, everything) }()
	maps.Copy(wrong, w.ask("", rows()))
	maps.Copy(wrong, <-special)
	if err := w.use("lte"); err != nil {
		wrong["lte in use"] = err.Error()
	}
	maps.Copy(wrong, old.still("after lte took over"))
	old = w.openFlows("lte")
	maps.Copy(wrong, w.ask("lte in use: ", rowsOnLTE()))
	maps.Copy(wrong, pathMTUs("lte", 1420))
	if err := w.countedOnce(round); err != nil && w.countedOnce(round+5000) != nil {
		wrong["what counts as an answer, by lte"] = err.Error()
	}
	if err := w.begunOnce(); err != nil {
		wrong["what is begun by lte"] = err.Error()
	}
	if err := w.use("fiber"); err != nil {
		wrong["fiber in use"] = err.Error()
	}
	maps.Copy(wrong, old.still("after fiber took over again"))

	after, err := w.counters()
	if err != nil {
		wrong["the counters"] = err.Error()
	}
	maps.Copy(wrong, w.signs(before, after, w.log.stop()))
	return wrong
}

// use makes a line the one in use.
func (w *world) use(line string) error {
	d := w.onFiber
	if line == "lte" {
		d = w.onLTE
	}
	var b strings.Builder
	for _, r := range d.Namespaces[0].Routes {
		if r.Table == 0 {
			fmt.Fprintf(&b, "ip route replace %s via %s dev %s src %s proto %d\n", r.Dst, r.Gateway, r.Link, r.Src, desired.RouteProto)
		}
	}
	errs := []error{run("", "set -e\n"+b.String()), forgetMTU("pc")}
	for i, n := range d.Namespaces {
		changed := n
		changed.Table.Sets = slices.DeleteFunc(slices.Clone(n.Table.Sets), func(s ruleset.Set) bool {
			j := slices.IndexFunc(w.onFiber.Namespaces[i].Table.Sets, func(o ruleset.Set) bool { return o.Name == s.Name })
			return slices.Equal(s.Elements, w.onFiber.Namespaces[i].Table.Sets[j].Elements) && slices.Equal(s.Elements, w.onLTE.Namespaces[i].Table.Sets[j].Elements)
		})
		errs = append(errs, load(n.Name, elements(changed)))
	}
	return errors.Join(errs...)
}

// forget makes everyone find neighbours and path MTUs anew, and the gateway
// see the guest's addresses anew.
func (w *world) forget() error {
	everyone := []string{"", "wan-fiber", "wan-lte", "isp1", "isp2", "pc", "guest", "camera"}
	errs := make([]error, len(everyone))
	var wg sync.WaitGroup
	for i, ns := range everyone {
		wg.Go(func() { errs[i] = forgetNeighbours(ns) })
	}
	wg.Wait()
	errs = append(errs, forgetMTU(""), forgetMTU("pc")) // no other sends what may be too long
	errs = append(errs, load("", "flush set inet weir seen4.laptop\nflush set inet weir seen6.laptop\n"))
	for _, gw := range []string{"172.31.20.1", "fd00:20::1"} {
		_, err := ask("guest", "", "ping", gw, 0, "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// forgetNeighbours does what ip neigh flush all does, in a tenth of the time.
func forgetNeighbours(ns string) error {
	return netns.Do(ns, func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		known, err := h.NeighList(0, netlink.FAMILY_ALL)
		for _, n := range known {
			if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
				continue
			}
			if e := h.NeighDel(&n); e != nil && !errors.Is(e, unix.ENOENT) {
				err = errors.Join(err, fmt.Errorf("forget %v in %q: %w", n.IP, ns, e))
			}
		}
		return err
	})
}

// forgetMTU makes those of a namespace find path MTUs anew. (What ip writes for IPv4.)
func forgetMTU(ns string) error {
	return netns.Do(ns, func() error {
		if out, err := exec.Command("ip", "-6", "route", "flush", "cache").CombinedOutput(); err != nil {
			return fmt.Errorf("forget path MTUs in %q: %w: %s", ns, err, out)
		}
		return os.WriteFile("/proc/sys/net/ipv4/route/flush", []byte("-1"), 0)
	})
}

// round numbers what is asked.
func (w *world) round() int {
	w.looks++
	return w.looks
}

// everything is asked.
func everything(string) bool { return true }

// ask asks rows and returns what was answered otherwise than wanted. What was
// is asked a second time: the machine may have been busy.
func (w *world) ask(when string, rows []row) map[string]string {
	wrong := w.askOnce(when, rows, everything)
	if len(wrong) == 0 {
		return nil
	}
	return w.askOnce(when, rows, in(wrong))
}

// in are the names that were wrong.
func in(wrong map[string]string) func(string) bool {
	return func(name string) bool { return wrong[name] != "" }
}

// askOnce asks rows, those that only names, at once.
func (w *world) askOnce(when string, rows []row, only func(string) bool) map[string]string {
	var (
		mu    sync.Mutex
		wrong = map[string]string{}
		wg    sync.WaitGroup
		round = w.round()
	)
	for i, r := range rows {
		if !only(when + r.name) {
			continue
		}
		wg.Go(func() {
			token := fmt.Sprintf("%s%d.%d", when, round, i)
			got, err := ask(r.from, r.source, r.proto, r.to, r.port, token)
			if err != nil {
				got = "error: " + err.Error()
			}
			who := w.who(token)
			if strings.HasPrefix(got, r.want) && (who == "" || r.want != "silence" && r.want != "refused") {
				if how := w.segments(r, got); how != "" {
					mu.Lock()
					defer mu.Unlock()
					wrong[when+r.name] = how
				}
				return
			}
			if who != "" {
				who = ", and " + who + " heard it"
			}
			mu.Lock()
			defer mu.Unlock()
			wrong[when+r.name] = fmt.Sprintf("%s asks %s %s:%d: got %q%s, want %q", r.from, r.proto, r.to, r.port, got, who, r.want)
		})
	}
	wg.Wait()
	return wrong
}

// segments says what is wrong with the segment sizes of an answer over a line:
// they fit its MTU, less IP and TCP headers and the time stamps, both ways.
func (w *world) segments(r row, answer string) string {
	if r.proto != "tcp" || !strings.Contains(answer, "mss ") {
		return ""
	}
	want := 0
	for part, mtu := range w.mtu {
		if strings.Contains(answer, " "+part) {
			want = mtu
		}
	}
	if want == 0 {
		return ""
	}
	want -= 20 + 20 + 12
	if strings.Contains(r.to, ":") {
		want -= 20
	}
	if _, sizes, _ := strings.Cut(answer, "mss "); sizes != fmt.Sprintf("%d and %d", want, want) {
		return fmt.Sprintf("segments of %s, want %d both ways (%s)", sizes, want, answer)
	}
	return ""
}
