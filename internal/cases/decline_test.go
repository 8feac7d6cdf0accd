package cases

import (
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// TestTheClientFindsItTaken: an address is used by a device that does not answer the
// gateway's own question, but other devices'. dhcpcd asks (RFC 5227), declines it, and
// is given another; the taken one is given to nobody. The device itself, which has its
// address from elsewhere, gets the rest by INFORM.
func TestTheClientFindsItTaken(t *testing.T) {
	in(t, func(h *house) {
		h.need("dhcpcd", "nft")
		h.needRoot()
		h.connect(fiberLine())
		h.start(strings.Replace(base, "172.31.0.100-172.31.0.200", "172.31.0.100-172.31.0.100", 1))
		pc := h.join("pc", "", "172.31.0.50/24")
		h.untilOutBy(pc, "fiber", 20*time.Second)
		taken := h.join("taken", "", "172.31.0.100/24")
		mac, err := h.gw.MAC("eth0")
		h.must(err)
		h.sh(taken.Host, "nft 'add table arp t; add chain arp t in { type filter hook input priority 0; }; add rule arp t in arp saddr ether "+mac.String()+" drop'")

		d := h.device("dhcpcd", "02:00:00:00:01:01", map[string]string{"dhcpcd.conf": "hostname dhcpcd\nipv4only\n"})
		h.startOn(d, "dhcpcd", "--nobackground", "--config", "DIR/dhcpcd.conf", "e0")
		h.until("dhcpcd declines it, and the owner is told", 30*time.Second, func() bool {
			return len(lines(h.log(), "address is in use without a lease", "172.31.0.100", "says the client")) > 0
		})
		h.write(strings.Replace(base, "172.31.0.100-172.31.0.200", "172.31.0.100-172.31.0.101", 1))
		if _, err := h.tell("apply", "--yes", h.file); err != nil {
			t.Fatal(err)
		}
		h.until("dhcpcd has the other address", 40*time.Second, func() bool {
			as, err := d.Addrs("e0", false)
			return err == nil && len(as) == 1 && as[0].Addr() == addr("172.31.0.101")
		})
		if a, ok := h.take(pc, 2, time.Second); ok {
			t.Errorf("%s is given to somebody while it is taken", a)
		}
		own, err := taken.MAC("e0")
		h.must(err)
		m, err := dhcpv4.NewInform(own, addr("172.31.0.100").AsSlice())
		h.must(err)
		r := h.asks(taken, own, 3*time.Second, m)
		if r == nil || r.MessageType() != dhcpv4.MessageTypeAck || len(r.DNS()) != 1 || !yours(r).IsUnspecified() || r.IPAddressLeaseTime(0) != 0 {
			t.Errorf("INFORM: %v", r)
		}
	})
}
