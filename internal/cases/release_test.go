package cases

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
)

// TestReleasedForAFile: a file that asks an ISP for nothing more has its lease given
// back first. Where the file can't be put in force the line asks anew, and the house
// has its prefix again; where it is on trial, or refused, nothing is given back.
func TestReleasedForAFile(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(delegatingLine(fiberLine(), first56))
		pc := h.join("pc", "", "172.31.0.50/24")
		h.slowNft()
		h.start(withoutLTE)
		h.hasIn(pc, lan64(first56), 30*time.Second)
		released := func() (n int) {
			for _, m := range fiber.Heard6() {
				if m == dhcpv6.MessageTypeRelease {
					n++
				}
			}
			return n
		}

		without := h.dir + "/without.hcl"
		h.must(os.WriteFile(without, []byte(strings.Replace(withoutLTE, ` interface = "eth1" }`, "\n  interface = \"eth1\"\n  ipv6 { method = \"none\" }\n}", 1)), 0o600))
		if out, err := h.tell("apply", without, "--yes", "--confirm", "1m"); err != nil {
			t.Fatal(out)
		}
		if out, err := h.tell("apply", h.file, "--yes"); err == nil || !strings.Contains(out, "on trial until") {
			t.Errorf("beside a trial: %v: %s", err, out)
		}
		if out, err := h.tell("rollback", "--yes"); err != nil {
			t.Fatal(out)
		}
		if n := released(); n != 0 {
			t.Errorf("a trial gave back %d leases", n)
		}
		leased := func() bool {
			out, err := h.tell("status", "--json")
			return err == nil && strings.Contains(out, first56.String())
		}
		h.until("the lease is there after the trial", 10*time.Second, leased)

		h.must(os.WriteFile(h.dir+"/fail", []byte("table inet weir"), 0o600))
		if out, err := h.tell("apply", without, "--yes"); err == nil || !strings.Contains(out, "made to fail") {
			t.Fatalf("it did not fail: %s", out)
		}
		h.must(os.Remove(h.dir + "/fail"))
		if n := released(); n != 1 {
			t.Errorf("%d leases were given back before the file failed, want 1", n)
		}
		h.until("the line has a lease again", 20*time.Second, leased)

		if out, err := h.tell("apply", without, "--yes"); err != nil {
			t.Fatal(out)
		}
		if all := fiber.Heard6(); all[len(all)-1] != dhcpv6.MessageTypeRelease || released() != 2 {
			t.Errorf("after the file that asks for nothing the ISP heard %v", all)
		}
	})
}
