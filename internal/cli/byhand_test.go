package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/netns/netnstest"
)

// TestByHand does what the README says under "By hand", with the README's file.
func TestByHand(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Missing(t, "root", errors.New("dhclient changes its groups"))
	}
	for _, program := range []string{"nsenter", "ip", "dhclient", "ping", "dig"} {
		if _, err := exec.LookPath(program); err != nil {
			netnstest.Missing(t, program, err)
		}
	}
	dir := t.TempDir()
	weirIn(t, dir)
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("gateway.hcl", readmeBlock(t, "## The file", 1))
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")

	rehearsal := exec.CommandContext(t.Context(), "sh", "-c", "exec "+strings.TrimSpace(readmeBlock(t, "### By hand", 1)))
	rehearsal.Dir, rehearsal.Env = dir, env
	says, err := rehearsal.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rehearsal.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(90*time.Second, func() { _ = rehearsal.Process.Kill() })
	defer func() {
		_ = rehearsal.Process.Signal(syscall.SIGINT)
		_ = rehearsal.Wait()
		stuck.Stop()
	}()
	var enter []string
	said := ""
	for lines := bufio.NewScanner(says); enter == nil && lines.Scan(); {
		said += lines.Text() + "\n"
		if m := regexp.MustCompile(`nsenter (-t .*?);`).FindStringSubmatch(lines.Text()); m != nil {
			enter = strings.Fields(m[1])
		}
	}
	switch {
	case enter == nil && strings.Contains(said, "start a lab"):
		netnstest.Missing(t, "lab", errors.New(said))
	case enter == nil:
		t.Fatalf("it does not say how the lab is entered:\n%s", said)
	}
	go func() { _, _ = io.Copy(io.Discard, says) }()

	in := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "nsenter", append(enter, "sh", "-ec", script)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	commands := strings.Split(strings.TrimSpace(readmeBlock(t, "### By hand", 2)), "\n")
	last := commands[len(commands)-1]
	if before := in(last); !strings.Contains(before, "IPv4 uses fiber") {
		t.Errorf("before the ISP fails:\n%s", before)
	}
	out := in(strings.Join(commands[:len(commands)-1], "\n"))
	for _, want := range []string{"bound to 192.168.77.", " 0% packet loss", "\n192.168.77.23\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	_, note, _ := strings.Cut(last, "within a second: ")
	status, until := "", time.Now().Add(10*time.Second) // a second, on a machine that has nothing else to do
	for note == "" || !strings.Contains(status, note) {
		if status = in(last); time.Now().After(until) {
			t.Fatalf("%q is not so:\n%s", note, status)
		}
	}
}

// readmeBlock is a block of code in the README, without its indentation: the nth after a
// heading.
func readmeBlock(t *testing.T, heading string, n int) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n"+heading)
	blocks := regexp.MustCompile(`(?m)(?:^    .*\n|^\n)*^    .*\n`).FindAllString(after, n)
	if len(blocks) < n {
		t.Fatalf("the README has no block %d after %q", n, heading)
	}
	return regexp.MustCompile(`(?m)^    `).ReplaceAllString(blocks[n-1], "")
}

// weirIn puts a weir into dir: the test's own program under that name. A link would not
// do, as labs start what it leads to.
func weirIn(t *testing.T, dir string) {
	t.Helper()
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	f, err := os.OpenFile(filepath.Join(dir, "weir"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, own)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
