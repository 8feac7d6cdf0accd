package cases

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// TestWhoIsInByTheLANIsNotCutOff (B37): a file that takes away the path of the
// session which applies it is refused, saying which path that is, and nothing
// has changed; said twice it is done.
func TestWhoIsInByTheLANIsNotCutOff(t *testing.T) {
	in(t, func(h *house) {
		fiber := h.connect(fiberLine())
		h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.must(h.gw.ServeEcho([]uint16{22}, nil))
		start := strings.Replace(base, `to   = host.nas
}`, `to   = host.nas
}
allow "ssh" {
  from = lan.home
  to   = self
  port = 22
}`, 1)
		h.start(start)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		ssh, err := pc.Dial(h.Context(), "tcp", netip.Addr{}, at("172.31.0.1:22"), time.Second)
		h.must(err)
		defer ssh.Close()
		apply := func(change func(string) string, more ...string) (string, error) {
			h.Helper()
			other := h.dir + "/other.hcl"
			h.must(os.WriteFile(other, []byte(change(start)), 0o644))
			cmd := h.weir(append([]string{"apply", "--yes", other}, more...)...)
			cmd.Env = append(os.Environ(), "SSH_CONNECTION="+strings.NewReplacer(":", " ").Replace(ssh.LocalAddr().String()+":"+ssh.RemoteAddr().String()))
			var out []byte
			err := h.gw.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err })
			return string(out), err
		}
		renumber := func(s string) string {
			return strings.NewReplacer("172.31.0.1/24", "10.9.0.1/24", "172.31.0.100-172.31.0.200", "10.9.0.100-10.9.0.200", "172.31.0.23", "10.9.0.23").Replace(s)
		}
		for name, change := range map[string]func(string) string{
			"another network": renumber,
			"another port":    func(s string) string { return strings.Replace(s, `"eth0"`, `"eth9"`, 1) },
			"the port becomes a line": func(s string) string {
				return strings.NewReplacer(`"eth0"`, `"eth9"`, `"eth2"`, `"eth0"`).Replace(s)
			},
		} {
			out, err := apply(change)
			if err == nil {
				h.Errorf("%s: applied:\n%s", name, out)
			}
			for _, want := range []string{"172.31.0.50", "eth0", "--confirm"} {
				if !strings.Contains(out, want) {
					h.Errorf("%s: the refusal does not say %q:\n%s", name, want, out)
				}
			}
			if got := h.outBy(pc.Host, "tcp", web4); got != "inet-fiber" {
				h.Errorf("%s: refused, and yet the LAN is cut: %s", name, got)
			}
			if _, a, _ := pc.Ask(h.Context(), "tcp", netip.Addr{}, at("172.31.0.1:22"), time.Second); a != lab.Answered {
				h.Errorf("%s: refused, and yet the gateway does not answer: %s", name, a)
			}
		}
		// What leaves the session alone is no matter.
		if out, err := apply(func(s string) string { return strings.Replace(s, "[80, 443]", "80", 1) }); err != nil {
			h.Errorf("a harmless change is refused: %v\n%s", err, out)
		}
		// On trial it is done, and undone as nobody comes back to confirm it.
		if out, err := apply(renumber, "--confirm", "2s"); err != nil {
			h.Errorf("on trial: %v\n%s", err, out)
		}
		h.untilOutBy(pc, "fiber", 20*time.Second)
		if _, a, _ := pc.Ask(h.Context(), "tcp", netip.Addr{}, at("172.31.0.1:22"), time.Second); a != lab.Answered {
			h.Errorf("the trial is over, and the gateway does not answer the session's machine: %s", a)
		}
		if out, err := apply(renumber, "--confirm", "5m"); err != nil {
			h.Errorf("on trial again: %v\n%s", err, out)
		}
		if out, err := h.tell("confirm"); err != nil {
			h.Errorf("confirm: %v\n%s", err, out)
		}
		other := h.join("other", "")
		h.must(other.Static(pfx("10.9.0.50/24"), addr("10.9.0.1")))
		h.untilOutBy(other, "fiber", 5*time.Second)
		h.strays(fiber)
	})
}
