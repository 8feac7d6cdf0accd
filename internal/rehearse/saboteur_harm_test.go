package rehearse_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/mdlayher/packet"
	"golang.org/x/sys/unix"

	"weir/internal/lab"
	"weir/internal/rehearse"
)

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
