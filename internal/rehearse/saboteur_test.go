package rehearse_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
	"weir/internal/rehearse"
)

// Saboteurs work with what weir does not own and so leaves alone (an nft table of
// their own, a foreign ip rule), or stop a process. red are all drills that one
// turns red, and no other: those that share a lab are told apart by their drills.
//
// only is what of a file's rehearsal a lab makes: a run, or a part. The file is
// the reference gateway's, or testdata/three-lans.hcl for policy.
var sabotage = []struct {
	only string
	by   []saboteur
}{
	{"policy", []saboteur{
		{"the guests are let in", at(rehearse.Up, open("eth1", "eth0")), []string{"policy/guest/home"}},
		{"the guests are let to the things", at(rehearse.Up, open("eth1", "eth2")), []string{"policy/guest/things"}},
		{"the things are let out", at(rehearse.Up, open("eth2", "eth0"), open("eth2", "eth1")), []string{"policy/things/home", "policy/things/guest"}},
		{"the gateway is shut to the home", at(rehearse.Up, refuse("input", `iifname eth0 tcp dport 22 drop`)), []string{"policy/home/self"}},
		{"the gateway is open to all", at(rehearse.Up, freeze, onGateway("nft", "insert", "rule", "inet", "weir", "here", "iifname", "{ eth1, eth2 }", "accept")), []string{"policy/guest/self", "policy/things/self"}},
		{"the home is shut in", at(rehearse.Up, refuse("forward", `iifname eth0 oifname { eth1, eth2 } tcp dport 7 drop`)), []string{"policy/home/guest", "policy/home/things"}},
	}},
	{"out/things", []saboteur{
		{"the things are let out", at(rehearse.Up, open("eth2", "cable")), []string{"out/things/IPv4", "out/things/IPv6"}},
	}},
	{"steady", []saboteur{
		{"leases are not answered", at(rehearse.Up, freezeWorker("dhcpd")),
			[]string{"lease/home/new", "lease/home/nas", "lease/home/example"}},
		{"no router advertisement leaves", at(rehearse.Up, refuse("output", `oifname eth0 icmpv6 type nd-router-advert drop`)),
			[]string{"advertise/home"}},
		{"no resolver is asked", at(rehearse.Up, refuse("output", `oifname { fiber, lte } meta l4proto { 6, 17 } th dport 53 drop`)),
			[]string{"name/home/rebinding", "name/home/world"}},
		{"out by the wrong line", at(rehearse.Up, wrongLine),
			[]string{"out/home/IPv4"}},
		{"ports that refuse", at(rehearse.Up, refuse("forward", `iifname fiber meta nfproto 2 tcp dport 9 reject with tcp reset`, `iifname lte meta nfproto 10 tcp dport 65535 reject with tcp reset`)),
			[]string{"closed/fiber/IPv4", "closed/lte/IPv6"}},
		{"a UDP port that refuses", at(rehearse.Up, refuseOn("fiber", `meta nfproto 2 udp dport 9 reject`), refuseOn("lte", `meta nfproto 10 udp dport 9 reject`)),
			[]string{"closed/fiber/IPv4/UDP", "closed/lte/IPv6/UDP"}},
		{"inside addresses on the lines", at(rehearse.Up, leak),
			[]string{"leak/fiber/steady", "leak/lte/steady"}},
	}},
	{"steady", []saboteur{
		{"the server of leases does not come back", at(rehearse.Ended, freezeNext("dhcpd")),
			[]string{"restart/KILL/lease", "restart/TERM/lease"}},
		{"names are not answered", at(rehearse.Up, refuse("input", `iifname eth0 udp dport 53 drop`)),
			[]string{"name/home/house", "name/home/rebinding", "name/home/world"}},
		{"no way out by IPv6", at(rehearse.Up, refuse("forward", `iifname eth0 ip6 daddr 2001:db8:80::80 tcp dport 7 drop`)),
			[]string{"out/home/IPv6"}},
		{"a forward shut on one line", at(rehearse.Up, refuse("prerouting", `iifname lte meta nfproto 2 tcp dport 443 drop`)),
			[]string{"closed/lte/IPv4", "forward/web/lte/IPv4"}},
		{"a forward shut in one family", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 10 tcp dport 80 drop`)),
			[]string{"closed/fiber/IPv6", "forward/web/fiber/IPv6"}},
		{"a UDP port that refuses", at(rehearse.Up, refuseOn("fiber", `meta nfproto 10 udp dport 9 reject`), refuseOn("lte", `meta nfproto 2 udp dport 9 reject`)),
			[]string{"closed/fiber/IPv6/UDP", "closed/lte/IPv4/UDP"}},
		{"the gateway is shut to the home", at(rehearse.Up, refuse("input", `iifname eth0 tcp dport 22 drop`)), []string{"policy/home/self"}},
		{"no hairpin to one address", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip daddr 198.51.100.10 drop`)),
			[]string{"hairpin/web/home/fiber/IPv4"}},
		{"no hairpin to another", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip6 daddr 2001:db8:2::/48 drop`)),
			[]string{"hairpin/web/home/lte/IPv6"}},
	}},
	{"steady", []saboteur{
		{"forwards shut", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 2 tcp dport 443 drop`, `iifname lte meta nfproto 10 tcp dport 80 drop`)),
			[]string{"closed/fiber/IPv4", "closed/lte/IPv6", "forward/web/fiber/IPv4", "forward/web/lte/IPv6"}},
		{"no hairpin", at(rehearse.Up, refuse("prerouting", `iifname eth0 ip6 daddr 2001:db8:1::/48 drop`, `iifname eth0 ip daddr 203.0.113.10 drop`)),
			[]string{"hairpin/web/home/fiber/IPv6", "hairpin/web/home/lte/IPv4"}},
		{"the end of the daemon takes the way along", at(rehearse.Ended, blip),
			[]string{"restart/KILL/loss", "restart/TERM/loss"}},
	}},

	{"dark-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("dark", "gap/IPv4", "gap/IPv6", "new", "sending", "receiving", "idle", "datagrams", "back", "calm")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/dark-fiber", "leak/lte/dark-fiber"}},
	}},
	{"dark-fiber", []saboteur{
		{"nobody goes back", at(rehearse.Restored, freeze), lost("dark", "back", "inbound")},
		{"no reset is told", at(rehearse.Cut, refuse("postrouting", `oifname eth0 tcp flags & rst != 0 drop`)), lost("dark", "sending", "receiving", "idle")},
		{"who came in by the other line is cut", at(rehearse.Cut, refuse("forward", `oifname lte tcp sport 80 drop`)), lost("dark", "others")},
	}},
	{"dark-fiber", []saboteur{
		{"nothing new by the other line", at(rehearse.Cut, refuse("forward", `oifname lte tcp flags & (syn|ack) == syn drop`)), lost("dark", "new")},
		{"no datagram by the other line", at(rehearse.Cut, refuse("forward", `oifname lte udp dport 7 drop`)), lost("dark", "datagrams", "calm")},
		{"no echo by the other line", at(rehearse.Cut, refuse("forward", `oifname lte icmp type echo-request drop`)), lost("dark", "gap/IPv4", "calm")},
	}},
	{"dark-fiber", []saboteur{
		{"who only waits is not told", at(rehearse.Cut, refuse("output", `oifname eth0 tcp sport 7 tcp flags & (syn|ack|rst) == ack drop`)), lost("dark", "receiving", "idle")},
		// A reset of ours would be led to the line that its flow is pinned to.
		{"no grace", at(rehearse.Cut, refuse("forward", `oifname fiber tcp dport 7 tcp flags & psh != 0 ct mark set 0 reject with tcp reset`)), lost("dark", "sending")},
	}},
	{"carrier-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("carrier", "gap/IPv4", "gap/IPv6", "new", "sending", "receiving", "idle", "datagrams", "back", "calm")},
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname fiber tcp dport 80 drop`)), lost("carrier", "inbound")},
		{"who came in by the other line is cut", at(rehearse.Cut, refuse("forward", `oifname lte tcp sport 80 drop`)), lost("carrier", "others")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/carrier-fiber", "leak/lte/carrier-fiber"}},
	}},

	{"deaf-fiber", []saboteur{
		{"nobody acts on the lease's end", at(rehearse.Cut, freeze), []string{"deaf/fiber/gap", "deaf/fiber/quiet"}},
		{"a blip", at(rehearse.Cut, blip), []string{"deaf/fiber/held"}},
		{"nobody asks again", at(rehearse.Restored, freezeWorker("dhcp4", "fiber")), []string{"deaf/fiber/back"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/deaf-fiber", "leak/lte/deaf-fiber"}},
	}},
	{"nak-fiber", []saboteur{
		{"no lease after the NAK, and a long silence", at(rehearse.Cut, afterNAK("fiber")), []string{"nak/fiber/again", "nak/fiber/gap", "renumber/fiber/IPv4"}},
		{"nobody sees the new prefix", at(rehearse.Restored, freeze), []string{"renumber/fiber/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/nak-fiber", "leak/lte/nak-fiber"}},
	}},
	{"isp-lte", []saboteur{
		{"no lease after the NAK", at(rehearse.Cut, afterNAK("lte")), []string{"nak/lte/again", "nak/lte/gap", "renumber/lte/IPv4", "deaf/lte/back", "deaf/lte/held", "deaf/lte/quiet"}},
		{"nobody sees the new prefix", at(rehearse.Restored, freeze), []string{"renumber/lte/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/isp-lte", "leak/lte/isp-lte"}},
	}},
	{"deaf/lte", []saboteur{
		{"nobody acts on the lease's end", at(rehearse.Cut, freeze), []string{"deaf/lte/quiet"}},
		{"a blip", at(rehearse.Cut, blip), []string{"deaf/lte/held"}},
		{"nobody asks again", at(rehearse.Restored, freezeWorker("dhcp4", "lte")), []string{"deaf/lte/back"}},
	}},

	{"reserve", []saboteur{
		{"a blip with the outage", at(rehearse.Cut, blip), []string{"dark/lte/undisturbed", "carrier/lte/undisturbed"}},
		{"nobody is told", at(rehearse.Up, refuse("postrouting", `oifname eth0 icmp type destination-unreachable drop`, `oifname eth0 tcp flags & rst != 0 drop`)), []string{"dark/all/told"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/reserve", "leak/lte/reserve"}},
	}},
	{"reserve", []saboteur{
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname lte tcp dport 80 drop`)), []string{
			"dark/lte/inbound", "carrier/lte/inbound", "carrier/lte/blinks",
			"carrier/lte/undisturbed"}}, // who comes in is part of the traffic that it watches
	}},
	{"dark/all", []saboteur{
		{"nobody sees that a line is back", at(rehearse.Restored, freeze), []string{"dark/all/back"}},
	}},

	{"same", []saboteur{
		{"forwards shut by IPv4, and nothing goes out", at(rehearse.Up, refuse("prerouting", `meta nfproto 2 tcp dport 80 drop`, `iifname eth0 meta nfproto 2 tcp dport 7 drop`)), []string{
			"same/out/home/IPv4", "same/forward/web/fiber/IPv4", "same/forward/web/lte/IPv4", "same/hairpin/web/home/fiber/IPv4", "same/hairpin/web/home/lte/IPv4", "same/takeover/lte"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/same", "leak/lte/same"}},
	}},
	{"same", []saboteur{
		{"forwards shut by IPv6", at(rehearse.Up, refuse("prerouting", `meta nfproto 10 tcp dport 80 drop`)), []string{
			"same/forward/web/fiber/IPv6", "same/forward/web/lte/IPv6", "same/hairpin/web/home/fiber/IPv6", "same/hairpin/web/home/lte/IPv6"}},
		{"nobody fails over", at(rehearse.Cut, freeze), []string{"same/takeover/lte"}},
	}},
	{"overlap", []saboteur{
		{"forwards shut by IPv6", at(rehearse.Up, refuse("prerouting", `meta nfproto 10 tcp dport 80 drop`)), []string{
			"overlap/forward/web/fiber/IPv6", "overlap/hairpin/web/home/fiber/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/overlap", "leak/lte/overlap"}},
	}},
	{"overlap", []saboteur{
		{"out by the wrong line", at(rehearse.Up, wrongLine), []string{"overlap/out/home/IPv4"}},
		{"a forward shut", at(rehearse.Up, refuse("prerouting", `iifname fiber meta nfproto 2 tcp dport 80 drop`)), []string{"overlap/forward/web/fiber/IPv4"}},
	}},
}

// saboteur is one of the table: its name, what it does, and the drills it turns
// red.
type saboteur struct {
	name string
	by   rehearse.Saboteur
	red  []string
}

// lost are the drills of a line in use lost in a way.
func lost(way string, drills ...string) []string {
	for i, d := range drills {
		drills[i] = way + "/fiber/" + d
	}
	return drills
}

func at(m rehearse.Moment, fs ...func(*rehearse.Bench) error) rehearse.Saboteur {
	return rehearse.Saboteur{m: func(b *rehearse.Bench) error {
		for _, f := range fs {
			if err := f(b); err != nil {
				return err
			}
		}
		return nil
	}}
}

// open lets through what comes by one link and leaves by another, before weir's
// own rules have their say, with the daemon stopped: it would mend it.
func open(in, out string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		if err := freeze(b); err != nil {
			return err
		}
		_, err := b.Lab.Gateway().Run(bg, "nft", "insert", "rule", "inet", "weir", "through", "iifname", in, "oifname", out, "accept")
		return err
	}
}

// saboteurs is what a lab's process looks them up in.
var saboteurs = func() rehearse.Saboteurs {
	out := rehearse.Saboteurs{}
	for i, l := range stages() {
		for _, s := range l.by {
			out[key(i, s)] = s.by
		}
	}
	maps.Copy(out, nameSaboteurs())
	maps.Copy(out, timeSaboteurs())
	for saboteur, s := range delegatedSaboteurs {
		out[saboteur] = s.by
	}
	for saboteur, s := range lease6Saboteurs {
		out[saboteur] = s.by
	}
	for saboteur, s := range leaseWordsSaboteurs {
		out[saboteur] = s.by
	}
	return out
}()

// key names a saboteur in all of the table.
func key(i int, s saboteur) string { return fmt.Sprintf("%d %s", i, s.name) }

// refuse adds rules to the gateway in a table of their own, before weir's.
func refuse(hook string, rules ...string) func(*rehearse.Bench) error {
	return refuseAt((*lab.Lab).Gateway, hook, rules...)
}

// refuseOn adds rules to a line's namespace, for what comes in.
func refuseOn(wan string, rules ...string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		h, err := b.Lab.Attach("wan-" + wan)
		if err != nil {
			return err
		}
		return refuseAt(func(*lab.Lab) *lab.Host { return h }, "prerouting", rules...)(b)
	}
}

func refuseAt(at func(*lab.Lab) *lab.Host, hook string, rules ...string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		text := fmt.Sprintf("add table inet saboteur\nadd chain inet saboteur %s { type filter hook %s priority -350; }\n", hook, hook)
		for _, r := range rules {
			text += fmt.Sprintf("add rule inet saboteur %s %s\n", hook, r)
		}
		if err := os.WriteFile("/run/lab/saboteur.nft", []byte(text), 0o600); err != nil {
			return err
		}
		_, err := at(b.Lab).Run(bg, "nft", "-f", "/run/lab/saboteur.nft")
		return err
	}
}

// wrongLine sends what the LAN asks of the internet's server by the line in
// reserve.
func wrongLine(b *rehearse.Bench) error {
	table, err := tableOf(b, "lte")
	if err != nil {
		return err
	}
	_, err = b.Lab.Gateway().Run(bg, "ip", "rule", "add", "pref", "50", "iif", "eth0", "to", "192.0.2.80", "ipproto", "tcp", "dport", "7", "lookup", table)
	return err
}

// tableOf is the table of a line's cable: that of the rule that names it.
func tableOf(b *rehearse.Bench, wan string) (string, error) {
	out, err := b.Lab.Gateway().Run(bg, "ip", "-4", "rule", "show")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if _, after, ok := strings.Cut(line, "oif "+wan+" lookup "); ok {
			return strings.Fields(after)[0], nil
		}
	}
	return "", fmt.Errorf("no rule for what leaves by %s: %s", wan, out)
}

// blip drops all for a moment.
func blip(b *rehearse.Bench) error {
	gw := b.Lab.Gateway()
	if _, err := gw.Run(bg, "nft", "add table inet blip; add chain inet blip forward { type filter hook forward priority -350; policy drop; }"); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // the length of the blip
	_, err := gw.Run(bg, "nft", "delete table inet blip")
	return err
}

// afterNAK waits for the ISP's NAK; then its DHCP server is deaf and no echo of
// IPv4 leaves.
func afterNAK(wan string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		isp := b.ISPs[wan]
		for _, e := range isp.DHCPLog() {
			if e.Answer == dhcpv4.MessageTypeNak {
				return nil // a later moment of the same run
			}
		}
		if !lab.Until(bg, 30*time.Second, func() bool {
			l := isp.DHCPLog()
			return len(l) > 0 && l[len(l)-1].Answer == dhcpv4.MessageTypeNak
		}) {
			return fmt.Errorf("no NAK")
		}
		isp.Deaf(true)
		return refuse("forward", `icmp type echo-request drop`)(b)
	}
}

// freeze stops the daemon, but none of its children.
func freeze(b *rehearse.Bench) error { return b.Daemon.Signal(syscall.SIGSTOP) }

// freezeWorker stops a child of the daemon by its kind and name, and each that
// this daemon starts in its place, as one that hangs is.
func freezeWorker(words ...string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		first, err := workers(words...)
		if err != nil {
			return err
		}
		if len(first) == 0 {
			return fmt.Errorf("no worker %q runs", words)
		}
		go keepStopped(words, func(w worker) bool { return w.parent == first[0].parent })
		if !lab.Until(bg, time.Second, first[0].stopped) {
			return fmt.Errorf("worker %q can't be stopped", words)
		}
		return nil
	}
}

// freezeNext stops the child of that kind that the next daemon starts, as soon as
// it is there, and each that is started in its place.
func freezeNext(words ...string) func(*rehearse.Bench) error {
	return func(*rehearse.Bench) error {
		before, err := workers(words...)
		if err != nil {
			return err
		}
		go keepStopped(words, func(w worker) bool {
			return !slices.ContainsFunc(before, func(old worker) bool { return old.parent == w.parent })
		})
		return nil
	}
}

// keepStopped stops the workers of a kind that which wants, for as long as the
// lab is there. To look at all processes all the time would take a fifth of a
// processor: they are looked at when one is new, and until it has had time to
// become what it shall be.
func keepStopped(words []string, which func(worker) bool) {
	newest, since := 0, time.Time{}
	lab.Until(bg, 10*time.Minute, func() bool {
		if n := newestProcess(); n != newest {
			newest, since = n, time.Now()
		} else if time.Since(since) > 2*time.Second {
			return false
		}
		now, _ := workers(words...) // the next look will do
		for _, w := range now {
			if which(w) {
				_ = syscall.Kill(w.pid, syscall.SIGSTOP) // it may be gone
			}
		}
		return false
	})
}

// newestProcess is the number that the lab's newest process or thread was given: the
// last field of /proc/loadavg (proc(5)), which counts in the namespace of who reads.
func newestProcess() int {
	b, _ := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if len(f) == 0 {
		return -1
	}
	n, _ := strconv.Atoi(f[len(f)-1])
	return n
}

// worker is a child of a daemon.
type worker struct{ pid, parent int }

func (w worker) stopped() bool { return stat(w.pid)[0] == "T" }

// stat are the fields of a process from its state on; the second is its parent.
func stat(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(b), ") ")
	if !ok {
		return []string{"", "0"} // gone
	}
	return strings.Fields(rest)
}

// workers finds the processes of a kind of worker.
func workers(words ...string) ([]worker, error) {
	want := []byte("\x00worker\x00" + strings.Join(words, "\x00") + "\x00")
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []worker
	for _, p := range procs {
		line, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(line, want) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		if err != nil {
			return nil, err
		}
		parent, _ := strconv.Atoi(stat(pid)[1])
		out = append(out, worker{pid, parent})
	}
	return out, nil
}

// leak sends a packet with an inside source from each line's own namespace, by a
// packet socket, where no rule is asked.
func leak(b *rehearse.Bench) error {
	for _, l := range b.Lines {
		h, err := b.Lab.Attach("wan-" + l.Name)
		if err != nil {
			return err
		}
		router, err := b.ISPs[l.Name].Router.MAC("cust0")
		if err != nil {
			return err
		}
		err = h.Do(func() error {
			ifi, err := net.InterfaceByName(l.Port)
			if err != nil {
				return err
			}
			c, err := packet.Listen(ifi, packet.Raw, unix.ETH_P_IP, nil)
			if err != nil {
				return err
			}
			defer c.Close()
			f := make([]byte, 42)
			copy(f, router)
			copy(f[6:], ifi.HardwareAddr)
			f[12], f[14], f[17], f[22], f[23], f[24], f[25] = 8, 0x45, 28, 64, unix.IPPROTO_UDP, 0x0c, 0x30
			copy(f[26:], netip.MustParseAddr("172.31.0.50").AsSlice())
			copy(f[30:], netip.MustParseAddr("192.0.2.80").AsSlice())
			f[35], f[37], f[39] = 9, 9, 8
			_, err = c.WriteTo(f, &packet.Addr{HardwareAddr: router})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	reference = "../../examples/gateway.hcl"
	lans      = "testdata/three-lans.hcl"
)

// stage is a lab with its saboteurs.
type stage struct {
	file, only string
	by         []saboteur
}

// stages are all labs of the tables.
func stages() []stage {
	var out []stage
	for _, l := range sabotage {
		file := reference
		if l.only == "policy" || l.only == "out/things" {
			file = lans
		}
		out = append(out, stage{file, l.only, l.by})
	}
	return slices.Concat(out, alone, routed, rough, long)
}

var onlyStage = flag.String("stage", "", "only the saboteurs whose file and part hold this text")

// surplus says that all that should be red is, and more.
func surplus(red, want []string) bool {
	return len(red) > len(want) && !slices.ContainsFunc(want, func(d string) bool { return !slices.Contains(red, d) })
}

// seconds is about how long a part takes, if that is long.
func seconds(part string) int {
	for begin, s := range map[string]int{"steady": 90, "isp-": 75, "nak-": 75, "deaf": 70, "blackout-": 65, "renumber": 60, "dark-": 50, "carrier-": 45} {
		if strings.HasPrefix(part, begin) {
			return s
		}
	}
	return 30
}

// TestSaboteur turns drills red, exactly those that a saboteur concerns; and no
// drill of the reference gateway is left without one.
func TestSaboteur(t *testing.T) {
	t.Parallel()
	needLab(t)
	never := map[string]bool{}
	for _, d := range rehearse.Names(t, reference) {
		never[d] = true
	}
	for _, d := range rehearse.Names(t, lans) {
		if strings.HasPrefix(d, "policy/") || strings.HasPrefix(d, "rule/") || strings.HasPrefix(d, "out/things/") {
			never[d] = true
		}
	}
	for _, d := range rehearse.Names(t, oneLine) {
		if !usual(d) {
			never[d] = true
		}
	}
	for _, d := range rehearse.Names(t, routes) {
		if strings.HasPrefix(d, "route/") {
			never[d] = true
		}
	}
	stages := stages()
	type job struct {
		takes int
		run   func()
	}
	var todo []job
	reports := make([]chan func(*testing.T), len(stages))
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, l := range stages {
		if !strings.Contains(l.file+" "+l.only, *onlyStage) {
			continue
		}
		reports[i] = make(chan func(*testing.T), 1)
		o := rehearse.Options{Only: []string{l.only}, Long: &brief}
		var want []string
		for _, s := range l.by {
			o.Sabotage = append(o.Sabotage, key(i, s))
			for _, d := range s.red {
				delete(never, d)
				want = append(want, d)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		o.Red = want
		todo = append(todo, job{seconds(l.only), func() {
			began := time.Now()
			r, err := rehearsed(t.Context(), o, l.file)
			took := time.Since(began).Round(time.Second)
			reports[i] <- func(t *testing.T) {
				t.Logf("%v for %s of %s", took, l.only, l.file)
				if err == nil && surplus(red(r), want) {
					// So many labs at once are more than a machine with two
					// processors may have time for: a loss or a time that no
					// saboteur explains has to come again with one.
					wg.Wait()
					t.Logf("taken again, alone: %s", cmp.Diff(want, red(r)))
					r, err = rehearsed(t.Context(), o, l.file)
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := red(r); !slices.Equal(got, want) {
					t.Errorf("%s", cmp.Diff(want, got))
					for _, d := range r.Drills {
						if !d.OK && !slices.Contains(want, d.Drill) {
							t.Logf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
						}
					}
				}
			}
		}})
	}
	// Labs mostly wait: more of them at once than go test's -parallel would have.
	// What takes longest begins, and is not waited for when all others have ended.
	slices.SortStableFunc(todo, func(a, b job) int { return b.takes - a.takes })
	queue := make(chan func(), len(todo))
	for _, j := range todo {
		queue <- j.run
	}
	close(queue)
	for range 7 {
		wg.Go(func() {
			for run := range queue {
				run()
			}
		})
	}
	for i, l := range stages {
		if reports[i] != nil {
			t.Run(fmt.Sprintf("%d %s", i, l.only), func(t *testing.T) { (<-reports[i])(t) })
		}
	}
	if *onlyStage != "" {
		return
	}
	for _, s := range delegatedSaboteurs { // in tests of their own
		for _, d := range s.red {
			delete(never, d)
		}
	}
	delete(never, "time/home")
	for d := range never {
		t.Errorf("no saboteur turns %s red", d)
	}
}
