package cases

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLockout (B37): somebody changes the file from the far side of the link that they
// change. It is refused, with the path that would be cut; on trial it is done, and their
// session, which is dead meanwhile, goes on once it is undone: by its end, while
// the clock is set by years, and while no daemon runs. A second person is told who holds it.
func TestLockout(t *testing.T) {
	in(t, func(h *house) {
		h.connect(fiberLine())
		h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		h.env = append(h.env, envClocks+"="+h.dir+"/clocks")
		h.must(os.WriteFile(h.dir+"/clocks", []byte("0 0\n"), 0o600))
		h.start(fileOf("eth0", "eth2", "172.31.0.1/24"))
		h.untilOutBy(pc, "fiber", 30*time.Second)

		// The session: to a server on the gateway that says back what it hears.
		var ln net.Listener
		h.must(h.gw.Do(func() (err error) { ln, err = net.Listen("tcp4", "172.31.0.1:22"); return err }))
		t.Cleanup(func() { ln.Close() })
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 100)
			for {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		}()
		ssh, err := pc.Dial(h.Context(), "tcp4", netip.Addr{}, netip.MustParseAddrPort("172.31.0.1:22"), 5*time.Second)
		h.must(err)
		t.Cleanup(func() { ssh.Close() })
		n := 0
		alive := func(within time.Duration) bool {
			n++
			word := fmt.Sprintf("%08d", n)
			h.must(ssh.SetDeadline(time.Now().Add(within)))
			if _, err := ssh.Write([]byte(word)); err != nil {
				return false
			}
			b, got := make([]byte, 100), ""
			for !strings.HasSuffix(got, word) { // what was said meanwhile comes first
				k, err := ssh.Read(b)
				if err != nil {
					return false
				}
				got += string(b[:k])
			}
			return true
		}
		from := "SSH_CONNECTION=" + strings.ReplaceAll(ssh.LocalAddr().String(), ":", " ") + " 172.31.0.1 22"
		byHand := func(args ...string) (string, error) {
			cmd := h.weir(args...)
			cmd.Env = append(os.Environ(), from)
			var out []byte
			err := h.gw.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err })
			return string(out), err
		}
		if !alive(2 * time.Second) {
			t.Fatal("the session does not work, and nothing was done yet")
		}

		file := func(name, text string) string {
			h.must(os.WriteFile(h.dir+"/"+name, []byte(text), 0o600))
			return h.dir + "/" + name
		}
		const home, renewed = "172.31.0.1/24", "10.0.0.1/24"
		renumbered := file("renumbered.hcl", fileOf("eth0", "eth2", renewed))
		moved := file("moved.hcl", fileOf("eth2", "eth0", home))
		noLAN := file("none.hcl", fileOf("eth0", "eth2", "")[:strings.Index(fileOf("eth0", "eth2", ""), "lan ")])

		// Refused, and nothing is changed.
		for f, says := range map[string]string{
			renumbered: "it takes 172.31.0.1 from eth0",
			moved:      "it moves eth0 to wan-lte",
			noLAN:      "lan",
		} {
			out, err := byHand("apply", f, "--yes")
			if err == nil || !strings.Contains(out, says) {
				t.Errorf("%s: %v: %s", f, err, out)
			}
			if strings.Contains(says, "eth0") && (!strings.Contains(out, "your ssh session from 172.31.0.50 comes in") || !strings.Contains(out, "--confirm")) {
				t.Errorf("%s is refused without a way: %s", f, out)
			}
			if !alive(2 * time.Second) {
				t.Fatalf("%s was refused, and the session is dead", f)
			}
		}

		// On trial: cut, and back in time, though the clock is set by years.
		for f, after := range map[string]func(){
			renumbered: func() {
				h.must(os.WriteFile(h.dir+"/clocks", []byte(fmt.Sprintln(int64(9*365*24*time.Hour), 0)), 0o600))
			},
			moved: func() {},
		} {
			if out, err := byHand("apply", f, "--yes", "--confirm", "4s"); err != nil {
				t.Fatal(out)
			}
			begin := time.Now()
			after()
			if out, err := h.tell("apply", h.file, "--yes"); err == nil || !strings.Contains(out, "on trial until") || !strings.Contains(out, "put "+f+" in force") {
				t.Errorf("a second person is told: %v: %s", err, out)
			}
			if alive(time.Second) {
				t.Errorf("%s leaves the session alone: this tries nothing", f)
			}
			h.until("the session goes on", 25*time.Second, func() bool { return alive(2 * time.Second) })
			t.Logf("%s: the session goes on %v after the trial began", f, time.Since(begin).Round(100*time.Millisecond))
			if s := h.status(); s.File.From != h.file || s.File.By != "unconfirmed" {
				t.Errorf("after the trial this is in force: %+v", s.File)
			}
		}

		// The daemon is killed in the trial, which ends while none runs: the file before.
		if out, err := byHand("apply", renumbered, "--yes", "--confirm", "10m"); err != nil {
			t.Fatal(out)
		}
		h.end(syscall.SIGKILL)
		h.must(os.WriteFile(h.dir+"/clocks", []byte(fmt.Sprintln(0, int64(time.Hour))), 0o600)) // an hour of boot time later
		h.again()
		h.until("the session goes on after the kill", 30*time.Second, func() bool { return alive(2 * time.Second) })
		if s := h.status(); s.File.From != h.file {
			t.Errorf("after the kill this is in force: %+v", s.File)
		}
	})
}

// fileOf is a house of two lines and one LAN: by which port, with which address.
func fileOf(lan, lte, address string) string {
	return fmt.Sprintf(`gateway "gw" { domain = "local" }
dns { engine = "forward" }
wan "fiber" { interface = "eth1" }
wan "lte" {
  interface = %q
  ipv6 { method = "none" }
}
lan "home" {
  interface = %q
  address   = %q
}
`, lte, lan, address)
}
