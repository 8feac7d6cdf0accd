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

// exchanged is what perfdhcp counted of one kind of exchange: of the answers, those
// without an address, and those with one that another client was answered before.
type exchanged struct{ sent, received, rejected, twice int }

// within tells whether each exchange that was begun was answered, and no more is wrong than most has.
func (e exchanged) within(most exchanged) bool {
	return e.sent == e.received && e.sent <= most.sent && e.rejected <= most.rejected && e.twice <= most.twice
}

// counted are the numbers in what perfdhcp says at its end, by the kind of exchange.
var counted = regexp.MustCompile(`\*\*\*Statistics for: (\S+)\*\*\*\nsent packets: (\d+)\nreceived packets: (\d+)\n(?:.*\n){3}rejected leases: (\d+)\nnon unique addresses: (\d+)\n`)

// perfdhcp has the first so many of a number of clients go through an exchange, a hundred
// a second, and counts what is answered.
func (h *house) perfdhcp(c *lab.Client, first, clients int, args ...string) map[string]exchanged {
	h.Helper()
	ctx, end := context.WithTimeout(h.Context(), time.Minute)
	defer end()
	// -u: counts what is given to two; -W: late answers count, microseconds.
	// The clients are the same in each run: a DUID-LL of their own, or their MAC address.
	if slices.Contains(args, "-6") {
		args = append(args, "-b", "duid=0003000102000000e000")
	}
	args = append(args, "-u", "-R", strconv.Itoa(clients), "-n", strconv.Itoa(first), "-r", "100", "-d", "10", "-W", "1000000", "-s", "1")
	cmd := exec.CommandContext(ctx, "perfdhcp", args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	h.must(c.Start(cmd))
	_ = cmd.Wait() // 3 where not all is answered: counted below
	found := map[string]exchanged{}
	for _, m := range counted.FindAllStringSubmatch(out.String(), -1) {
		var e exchanged
		_, err := fmt.Sscan(strings.Join(m[2:], " "), &e.sent, &e.received, &e.rejected, &e.twice)
		h.must(err)
		found[m[1]] = e
	}
	if len(found) != 2 {
		h.Errorf("perfdhcp %q says\n%s", args, out.String())
	}
	return found
}

// TestPerfdhcp: Kea's perfdhcp as the clients, in both families (by DHCPv4 it is a
// relay besides). Each is answered in each step, and nobody is given what another has;
// whoever comes too many is given nothing, and nobody loses what he has. What is offered
// by DHCPv6 is kept for nobody, so two may be offered the same (RFC 8415, 18.3.9).
// Where answers are late perfdhcp begins its clients anew: such a one is given its own
// address again, which perfdhcp counts as given twice.
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
			h.until("the first client is served by DHCPv"+f.family[1:], 20*time.Second, func() bool {
				return h.perfdhcp(pc, 1, 60, f.family, "-l", "e0")[f.second].received == 1
			})
			got := h.perfdhcp(pc, 60, 60, f.family, "-l", "e0")
			before := held()
			again := got[f.first].sent - 60
			if want := (exchanged{60 + again, 60 + again, 0, again}); again < 0 || !got[f.first].within(want) || !got[f.second].within(want) || len(before) != 60 {
				t.Errorf("60 clients, perfdhcp %s counts %+v, and weir has %d leases", f.family, got, len(before))
			}
			// The same 60, and 70 more for the 40 addresses that are left.
			got = h.perfdhcp(pc, 130, 130, f.family, "-l", "e0")
			after := held()
			again = got[f.first].sent - 130
			if y := got[f.second]; again < 0 || y.received-y.rejected < 100 || y.received-y.rejected > 100+again || y.twice > again || len(after) != 100 {
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
