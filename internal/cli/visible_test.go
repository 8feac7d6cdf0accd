package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
)

// TestOthersWords puts what acts on a terminal wherever somebody else has a say:
// none of it may come through.
func TestOthersWords(t *testing.T) {
	const evil = "\x1b]0;x\x07\x1b[2J\r\u009b31m\u202e\xff"
	now := time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)
	folder := filepath.Join(t.TempDir(), "\x1b[2J")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	const right = `wan "a" { interface = "eth1" }` + "\n" + `lan "b" {` + "\n" + `interface = "eth0"` + "\n" + `address = "192.0.2.1/24"` + "\n}\n"
	if err := os.WriteFile(filepath.Join(folder, "right.hcl"), []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "wrong"), []byte("wan "+evil), 0o600); err != nil {
		t.Fatal(err)
	}
	cli := func(args ...string) func(io.Writer) error {
		return func(w io.Writer) error {
			Main(args, w, w)
			return nil
		}
	}
	for name, write := range map[string]func(io.Writer) error{
		"status": func(w io.Writer) error {
			return printStatus(w, api.Status{
				Gateway: "gw", File: api.File{From: evil, By: evil}, Turn: api.Turn{Error: evil}, IPv4: api.Use{Why: evil},
				Choice: &api.Choice{WAN: "a", By: evil}, WANs: []api.WAN{{Name: "a", IPv4: api.Line{Verdict: "up", Why: evil, DNSError: evil}}},
				LANs: []api.LAN{{Name: "b", Interface: []string{evil}}}, Services: []api.Service{{Name: "dns", LastError: evil}}, Notes: []string{evil},
			}, now)
		},
		"top": func(w io.Writer) error {
			return say(w, "%s", topText(api.Traffic{
				WANs: []api.WANTraffic{{Name: evil, FastPath: "off", FastPathWhy: evil}}, Hosts: []api.HostTraffic{{Name: evil, Addresses: []string{evil}}},
				Flows: []api.FlowTraffic{{Host: evil, Peer: "192.0.2.1:80", PeerName: evil}},
			}, topView{}))
		},
		"leases": func(w io.Writer) error { return printLeases(w, []api.Lease{{Name: evil, MAC: evil}}, now) },
		"log":    func(w io.Writer) error { return printRefused(w, api.Refused{Rule: evil, From: evil}) },
		"why": func(w io.Writer) error {
			return printWhy(w, api.Why{From: evil, Ways: []api.Way{{Family: 4, Steps: []api.Step{{Text: evil}}}}})
		},
		"file":    cli("check", folder),
		"mistake": cli("check", filepath.Join(folder, "wrong")),
		"nowhere": cli("check", evil),
		"broken":  cli("fmt", filepath.Join(folder, "wrong")),
		"flag":    cli("check", "--"+evil),
		"command": cli(evil),
		"daemon":  cli("status", "--runtime-dir", folder),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			if b.Len() == 0 || strings.ContainsAny(b.String(), "\x1b\x07\r\u009b\u202e") {
				t.Errorf("it writes %q", b.String())
			}
		})
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestFullOutput wants a failure where what was asked for could not be written.
func TestFullOutput(t *testing.T) {
	home := filepath.Join("..", "..", "examples", "home.hcl")
	for _, args := range [][]string{{"check", home}, {"fmt", home}, {"version"}, {"help", "lan"}} {
		var stderr bytes.Buffer
		if code := Main(args, full{}, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no space") {
			t.Errorf("%v ends with %d and says %q", args, code, stderr.String())
		}
	}
}
