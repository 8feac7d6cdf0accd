package cases

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
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
			if out, err := h.tell("apply", h.file); err != nil {
				h.Error(err, out)
			}
		}
		h.strays(fiber)
	})
}
