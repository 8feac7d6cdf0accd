package cases

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestLostWithAFullTable: a house that has begun as many flows as conntrack holds
// loses the line that they went by. Its calls need not wait until the table is empty:
// they are over while most of it is still to be gone through.
func TestLostWithAFullTable(t *testing.T) {
	in(t, func(h *house) {
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == "up" })
		// So many that one of them is late if they are found by chance.
		calls := h.talkTo(pc.Host, []string{web4}, slices.Repeat([]lab.FlowKind{lab.Datagrams}, 40)...)
		most := h.conntrack("max")
		begun := time.Now()
		h.begin(pc.Host, most)
		held := h.conntrack("count")
		h.Logf("%d flows of %d are held, begun in %v", held, most, time.Since(begun))
		if held < most*9/10 {
			h.Fatalf("the table holds %d of %d flows: it is not full", held, most)
		}

		h.must(fiber.Dark(true))
		cut := time.Now()
		var last time.Time
		for _, c := range calls {
			at, ok := c.HeardFrom(h.Context(), "inet-lte", cut, 5*time.Second)
			if !ok {
				h.Fatalf("%s: not heard by lte", c.name)
			}
			if at.After(last) {
				last = at
			}
		}
		var ended time.Time
		var took time.Duration
		h.until("weir has ended the flows", 10*time.Second, func() bool {
			for _, l := range lines(h.log(), "kernel changed") {
				at, err := time.Parse(time.RFC3339, field(l, "time"))
				h.must(err)
				if at.After(cut) {
					ended = at
					took, err = time.ParseDuration(field(l, "took"))
					h.must(err)
					return true
				}
			}
			return false
		})
		in := last.Sub(ended.Add(-took))
		h.Logf("all calls were over %v after the cut, %v after weir began to move them, which took it %v", last.Sub(cut), in, took)
		if in > took*3/4 {
			h.Errorf("the last call was over %v after weir began to move them, and all was done in %v", in, took)
		}
		if gone := last.Sub(cut); gone > 1500*time.Millisecond {
			h.Errorf("the last call was over %v after the cut", gone)
		}
		h.strays(fiber, lte)
	})
}

// field is a value of a line of the log.
func field(line, key string) string {
	_, rest, _ := strings.Cut(line, key+"=")
	v, _, _ := strings.Cut(rest, " ")
	return v
}

// conntrack is a number of the kernel's about the gateway's table: count or max.
func (h *house) conntrack(name string) int {
	h.Helper()
	var b []byte
	h.must(h.gw.Do(func() (err error) { b, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_" + name); return err }))
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	h.must(err)
	return n
}

// begin begins n flows from a machine, with servers that are not there.
func (h *house) begin(from *lab.Host, n int) {
	h.Helper()
	var c *net.UDPConn
	h.must(from.Do(func() (err error) { c, err = net.ListenUDP("udp4", nil); return err }))
	defer c.Close()
	const ports = 65535
	to := addr("192.0.2.81")
	for k := range n {
		port := uint16(1 + k%ports)
		_, _ = c.WriteToUDPAddrPort([]byte{0}, netip.AddrPortFrom(to, port)) // an ICMP error of an earlier one
		if port == ports {
			to = to.Next()
		}
	}
}
