package cases

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/lab"
)

// TestASlipCostsNothing (B26): a file with the same address or card twice, or
// with the router's own address for a host, is refused by plan and apply with
// both lines shown, and the house goes on with the file before, also through a
// restart.
func TestASlipCostsNothing(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)

		host := func(name, mac, address string) func(string) string {
			return func(s string) string {
				return strings.Replace(s, "  host \"nas\" {", "  host \""+name+"\" {\n    mac     = \""+mac+"\"\n    address = \""+address+"\"\n  }\n  host \"nas\" {", 1)
			}
		}
		for name, c := range map[string]struct {
			change func(string) string
			says   []string
		}{
			"one address, two hosts":                {host("printer", "02:00:00:00:00:24", "172.31.0.23"), []string{"172.31.0.23", "is taken"}},
			"one card, two hosts, in other letters": {host("printer", "02:00:00:00:AB:23", "172.31.0.24"), []string{"02:00:00:00:ab:23", "another host"}},
			"the router's own address":              {host("printer", "02:00:00:00:00:24", "172.31.0.1"), []string{"172.31.0.1"}},
		} {
			text := c.change(base)
			if strings.Contains(name, "letters") {
				text = strings.Replace(text, "02:00:00:00:00:23", "02:00:00:00:ab:23", 1)
			}
			other := h.dir + "/other.hcl"
			h.must(os.WriteFile(other, []byte(text), 0o644))
			for _, cmd := range []string{"check", "plan", "apply"} {
				args := []string{cmd, other}
				var out string
				var err error
				if cmd == "check" {
					c := exec.Command("/proc/self/exe", args...)
					var b []byte
					b, err = c.CombinedOutput()
					out = string(b)
				} else {
					out, err = h.tell(args...)
				}
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != 2 {
					h.Errorf("%s: weir %s: %v", name, cmd, err)
				}
				for _, want := range append(c.says, "other.hcl:", "ine ") { // the place, and the line of the other one
					if !strings.Contains(strings.ToLower(out), strings.ToLower(want)) {
						h.Errorf("%s: weir %s does not say %q:\n%s", name, cmd, want, out)
					}
				}
			}
			if got := h.outBy(pc.Host, "tcp", web4); got != "inet-fiber" {
				h.Errorf("%s: afterwards: %s", name, got)
			}
			// The slip is found at the next boot only.
			h.write(text)
			h.end(syscall.SIGTERM)
			h.again()
			h.until("the house goes on with the file of before", 10*time.Second, func() bool {
				m, err := pc.Resolve(h.Context(), addr("172.31.0.1"), "nas.local", 1, time.Second)
				return err == nil && len(m.Answer) == 1
			})
			if got := h.outBy(pc.Host, "tcp", web4); got != "inet-fiber" {
				h.Errorf("%s: after a restart: %s", name, got)
			}
			if out, err := h.tell("status"); err != nil || !strings.Contains(out, "wrong") {
				h.Errorf("%s: the status does not say that the file is wrong: %v\n%s", name, err, out)
			}
			h.write(base)
			if out, err := h.tell("apply", "--yes", h.file); err != nil {
				h.Error(err, out)
			}
		}
		h.strays(fiber)
	})
}

// TestAHostIsGivenALeasedAddress (B26): the file gives a host an address that
// another device has leased. The holder keeps it until it renews and is then told
// no; nobody ever shares it.
func TestAHostIsGivenALeasedAddress(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		h.start(base)
		holder, host := h.join("holder", "02:00:00:00:00:a1"), h.join("printer", "02:00:00:00:00:a2")
		ack := h.lease(holder)
		h.must(holder.Use(ack))
		text := strings.Replace(base, "  host \"nas\" {", "  host \"printer\" {\n    mac     = \"02:00:00:00:00:a2\"\n    address = \""+holder.Addr4.String()+"\"\n  }\n  host \"nas\" {", 1)
		h.write(text)
		if out, err := h.tell("apply", "--yes", h.file); err != nil {
			t.Fatal(err, out)
		}
		first := h.lease(host)
		if got := yours(first); got == holder.Addr4 {
			t.Fatalf("%s is given to the printer while the holder has it", got)
		}
		if got := h.renew(holder, ack); got != dhcpv4.MessageTypeNak {
			h.Errorf("the holder renews: %s, want a NAK", got)
		}
		h.must(holder.DelAddr("e0", netip.PrefixFrom(holder.Addr4, 24)))
		again := h.lease(holder)
		if got := yours(again); got == holder.Addr4 {
			h.Errorf("the holder is given %s again", got)
		}
		h.until("the printer has its address", 15*time.Second, func() bool { return yours(h.lease(host)) == holder.Addr4 })
	})
}

// TestOneHostTwoCards (B26): a laptop's wired and wireless cards in one host
// block. One has the host's address, the other one of the pool while that is so.
func TestOneHostTwoCards(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		h.start(strings.Replace(base, "  host \"nas\" {", "  host \"laptop\" {\n    mac     = [\"02:00:00:00:00:b1\", \"02:00:00:00:00:b2\"]\n    address = \"172.31.0.60\"\n  }\n  host \"nas\" {", 1))
		wired, wireless := h.join("wired", "02:00:00:00:00:b1"), h.join("wireless", "02:00:00:00:00:b2")
		ack := h.lease(wired)
		h.must(wired.Use(ack))
		if wired.Addr4 != addr("172.31.0.60") {
			t.Fatalf("the first card has %s", wired.Addr4)
		}
		second := h.lease(wireless)
		if a := yours(second); a == wired.Addr4 || a.Less(addr("172.31.0.100")) || addr("172.31.0.200").Less(a) {
			h.Errorf("the second card has %s", a)
		}
		if got := h.renew(wired, ack); got != dhcpv4.MessageTypeAck {
			h.Errorf("the first card renews: %s", got)
		}
	})
}

func yours(ack *dhcpv4.DHCPv4) netip.Addr {
	a, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
	return a
}

// lease leases an address for a client, which does not use it.
func (h *house) lease(c *lab.Client) *dhcpv4.DHCPv4 {
	h.Helper()
	var ack *dhcpv4.DHCPv4
	h.until(c.Name+" has a lease", 20*time.Second, func() bool {
		var err error
		ack, err = c.Lease(h.Context())
		return err == nil
	})
	return ack
}
