package cases

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestLogOfNames: which names the house asks for is nobody's to see until the file
// says so; then it is seen as it happens, with both engines, and what a list
// blocks is seen to be blocked.
func TestLogOfNames(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"bind", "forward"} {
		t.Run(engine, func(t *testing.T) {
			in(t, func(h *house) {
				h.need("nft", "named", "dig")
				fiber := h.connect(fiberLine())
				pc := h.join("pc", "", "172.31.0.50/24")
				h.must(os.WriteFile(h.dir+"/ads.txt", []byte("ads.example\n"), 0o644))
				text := func(log bool) string {
					return unsaidDNS + fmt.Sprintf("dns {\n  engine = %q\n  log = %t\n  upstream = wan\n  validate = false\n  block_list \"ads\" { source = \"%s/ads.txt\" }\n}\n", engine, log, h.dir)
				}
				h.start(text(false))
				h.untilOutBy(pc, "fiber", 20*time.Second)
				h.until("names", 15*time.Second, func() bool {
					return h.dig(pc.Host, "@172.31.0.1 +short quiet.example") == "192.0.2.80" && strings.Contains(h.dig(pc.Host, "@172.31.0.1 ads.example"), "NXDOMAIN")
				})
				if out, err := h.tell("log", "--dns"); err == nil || !strings.Contains(err.Error(), "dns { log = true }") {
					h.Errorf("it is off: %v %s", err, out)
				}
				pid := 0
				if engine == "bind" {
					pid = h.namedPID()
				}
				h.write(text(true))
				if out, err := h.tell("apply", "--yes", h.file); err != nil {
					h.Fatal(err, out)
				}
				h.until("a name is told", 15*time.Second, func() bool {
					h.dig(pc.Host, "@172.31.0.1 loud.example")
					out, err := h.tell("log", "--dns")
					return err == nil && strings.Contains(out, "loud.example")
				})
				if engine == "bind" && h.namedPID() != pid {
					h.Error("named was started anew")
				}
				cmd := h.weir("log", "--dns", "-f")
				pipe, err := cmd.StdoutPipe()
				h.must(err)
				h.must(h.gw.Start(cmd))
				defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
				lines := make(chan string, 1000)
				go func() {
					for sc := bufio.NewScanner(pipe); sc.Scan(); {
						lines <- strings.Join(strings.Fields(sc.Text())[3:], " ")
					}
				}()
				seen := func(want string) {
					h.Helper()
					limit := time.After(10 * time.Second)
					var all []string
					for {
						select {
						case l := <-lines:
							if strings.Contains(l, "quiet.example") {
								h.Errorf("what was asked while it was off: %s", l)
							}
							if all = append(all, l); strings.HasPrefix(l, want) {
								return
							}
						case <-limit:
							h.Fatalf("%q is not told, but %q", want, all)
						}
					}
				}
				seen("172.31.0.50 A loud.example")
				h.dig(pc.Host, "@172.31.0.1 live.example AAAA")
				seen("172.31.0.50 AAAA live.example")
				h.dig(pc.Host, "@172.31.0.1 ads.example")
				seen("172.31.0.50 A ads.example blocked by ads")
				if engine == "forward" {
					h.dig(pc.Host, `@172.31.0.1 'a\027[2Jb.example' TXT`)
					seen(`172.31.0.50 TXT a\027[2Jb.example NOERROR`)
				}
				h.write(text(false))
				if out, err := h.tell("apply", "--yes", h.file); err != nil {
					h.Fatal(err, out)
				}
				h.until("it is off again", 10*time.Second, func() bool { _, err := h.tell("log", "--dns"); return err != nil })
				h.strays(fiber)
			})
		})
	}
}
