package cases

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// crowded has room for a hundred devices of each family.
const crowded = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = ["172.31.0.1/16", "fd00::1/64"]
  dhcp { pool = "172.31.16.0-172.31.16.99" }
  dhcp6 { pool = "::1000-::1063" }
}
dns { engine = "forward" }
`

// exchanged is what perfdhcp counted of one kind of exchange.
type exchanged struct{ sent, received int }

// counted are the numbers in what perfdhcp says at its end, by the kind of exchange.
var counted = regexp.MustCompile(`\*\*\*Statistics for: (\S+)\*\*\*\nsent packets: (\d+)\nreceived packets: (\d+)\n`)

// perfdhcp has a number of clients, each another, go through an exchange, so many a
// second, and counts what is answered.
func (h *house) perfdhcp(c *lab.Client, clients int, args ...string) map[string]exchanged {
	h.Helper()
	n := strconv.Itoa(clients)
	ctx, end := context.WithTimeout(h.Context(), time.Minute)
	defer end()
	// -u: no address is given to two; -W: late answers count, microseconds.
	// The clients are the same in each run: a DUID-LL of their own, or their MAC address.
	if slices.Contains(args, "-6") {
		args = append(args, "-b", "duid=0003000102000000e000")
	}
	args = append(args, "-u", "-R", n, "-n", n, "-r", "100", "-d", "10", "-W", "1000000", "-s", "1")
	cmd := exec.CommandContext(ctx, "perfdhcp", args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	h.must(c.Start(cmd))
	_ = cmd.Wait() // 3 where not all is answered: counted below
	found := map[string]exchanged{}
	for _, m := range counted.FindAllStringSubmatch(out.String(), -1) {
		var e exchanged
		_, err := fmt.Sscan(strings.Join(m[2:], " "), &e.sent, &e.received)
		h.must(err)
		found[m[1]] = e
	}
	if len(found) != 2 || strings.Count(out.String(), "non unique addresses: 0\n") != 2 {
		h.Errorf("perfdhcp %q says\n%s", args, out.String())
	}
	return found
}

// TestPerfdhcp: Kea's perfdhcp as the clients, in both families (by DHCPv4 it is a
// relay besides). Each is answered in each step; whoever comes too many is given
// nothing, and nobody loses what he has.
func TestPerfdhcp(t *testing.T) {
	in(t, func(h *house) {
		h.need("perfdhcp")
		h.connect(fiberLine())
		pc := h.join("pc", "", "172.31.0.50/16", "fd00::50/64")
		h.start(crowded)
		h.until("the daemon answers", 20*time.Second, func() bool { _, err := h.tell("status"); return err == nil })
		for _, f := range []struct{ family, in, first, second string }{
			{"-4", "172.31.16.", "DISCOVER-OFFER", "REQUEST-ACK"},
			{"-6", "fd00::1", "SOLICIT-ADVERTISE", "REQUEST-REPLY"},
		} {
			held := func() map[string]string {
				all := map[string]string{}
				for _, l := range h.leases() {
					if strings.HasPrefix(l.Address, f.in) {
						all[l.Address] = l.MAC + l.DUID
					}
				}
				return all
			}
			got := h.perfdhcp(pc, 60, f.family, "-l", "e0")
			before := held()
			if want := (exchanged{60, 60}); got[f.first] != want || got[f.second] != want || len(before) != 60 {
				t.Errorf("60 clients, perfdhcp %s counts %+v, and weir has %d leases", f.family, got, len(before))
			}
			// The same 60, and 70 more for the 40 addresses that are left.
			got = h.perfdhcp(pc, 130, f.family, "-l", "e0")
			after := held()
			if got[f.first].sent != 130 || got[f.second].received != 100 || len(after) != 100 {
				t.Errorf("130 clients for 100 addresses, perfdhcp %s counts %+v, and weir has %d leases", f.family, got, len(after))
			}
			for a, who := range before {
				if after[a] != who {
					t.Errorf("%s was %s's and is %q's", a, who, after[a])
				}
			}
		}
	})
}
