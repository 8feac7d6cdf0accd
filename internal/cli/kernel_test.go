package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"weir/internal/netns/netnstest"
)

// TestKernelScript tries what changes a kernel: testdata/kernel/*.txtar, each
// in namespaces of its own, with a resolver file of its own.
func TestKernelScript(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "kernel", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			netnstest.Alone(t, func(t *testing.T) {
				for _, program := range []string{"nft", "ip", "ping"} {
					if _, err := exec.LookPath(program); err != nil {
						netnstest.Missing(t, program, err)
					}
				}
				ownResolvConf(t)
				testscript.Run(t, testscript.Params{
					Files:               []string{f},
					RequireExplicitExec: true,
					UpdateScripts:       os.Getenv("UPDATE") != "",
					Setup: func(e *testscript.Env) error {
						e.Values[daemonsKey{}] = daemons{}
						e.Setenv("PATH", e.Getenv("PATH")+":/usr/sbin:/sbin")
						// chronyd, where it is installed, passes through to its files as its own user.
						return errors.Join(os.Chmod(e.WorkDir, 0o755), os.Chmod(filepath.Dir(e.WorkDir), 0o755)) //nolint:gosec // nothing secret is in it
					},
					Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "starts": starts, "ends": ends, "until": until, "signals": signals, "logged": logged},
				})
			})
		})
	}
}

// ownResolvConf puts a file of the test's over the machine's resolver file.
func ownResolvConf(t *testing.T) {
	own := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(own, []byte("nameserver 192.0.2.53\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(own, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		netnstest.Missing(t, "mount", fmt.Errorf("put a file over /etc/resolv.conf: %w", err))
	}
}

// daemons are those that a script started, by name.
type daemons map[string]*daemon

type daemonsKey struct{}

type daemon struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// starts is the script command "starts NAME weir run ARG...": it waits until the
// daemon says that the kernel forwards, as a service manager would.
func starts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: starts NAME weir run ARG...")
	}
	all := ts.Value(daemonsKey{}).(daemons)
	d := &daemon{cmd: exec.Command(lookPath(ts, args[1]), args[2:]...)}
	d.cmd.Args[0] = args[1]
	d.cmd.Dir = ts.MkAbs(".")
	d.cmd.Stderr = &d.log
	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(d.cmd.Dir, args[0]+".notify"), Net: "unixgram"})
	ts.Check(err)
	defer os.Remove(sock.LocalAddr().String())
	defer sock.Close()
	d.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+sock.LocalAddr().String())
	ts.Check(d.cmd.Start())
	all[args[0]] = d
	ts.Defer(func() {
		if d.cmd.ProcessState == nil {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
		ts.Logf("log of %s:\n%s", args[0], d.log.String()) // is shown if the script fails
	})
	ts.Check(sock.SetReadDeadline(time.Now().Add(20 * time.Second)))
	b := make([]byte, 100)
	n, err := sock.Read(b)
	if err != nil || string(b[:n]) != "READY=1" {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		ts.Fatalf("%s did not get ready: %q, %v\n%s", args[0], b[:n], err, d.log.String())
	}
}

// ends is the script command "ends NAME [SIGNAL]": it sends the signal, if one is
// named, and waits for the end.
func ends(ts *testscript.TestScript, neg bool, args []string) {
	d := ts.Value(daemonsKey{}).(daemons)[args[0]]
	if d == nil || neg {
		ts.Fatalf("no daemon is called %s", args[0])
	}
	sig := syscall.Signal(0)
	if len(args) == 2 {
		if sig = unix.SignalNum("SIG" + args[1]); sig == 0 {
			ts.Fatalf("there is no signal %s", args[1])
		}
		ts.Check(d.cmd.Process.Signal(sig))
	}
	stuck := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
	err := d.cmd.Wait()
	if !stuck.Stop() {
		ts.Fatalf("%s did not end\n%s", args[0], d.log.String())
	}
	if sig != syscall.SIGKILL && err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, d.log.String())
	}
}

// logged is the script command "logged NAME TEXT": a daemon that has ended had said that.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: logged NAME TEXT")
	}
	d := ts.Value(daemonsKey{}).(daemons)[args[0]]
	if d == nil || d.cmd.ProcessState == nil {
		ts.Fatalf("no daemon that has ended is called %s", args[0])
	}
	if !strings.Contains(d.log.String(), args[1]) {
		ts.Fatalf("%s did not say %q\n%s", args[0], args[1], d.log.String())
	}
}

// signals is the script command "signals NAME SIGNAL", for those that a daemon
// does not end by.
func signals(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signals NAME SIGNAL")
	}
	d := ts.Value(daemonsKey{}).(daemons)[args[0]]
	sig := unix.SignalNum("SIG" + args[1])
	if d == nil || sig == 0 {
		ts.Fatalf("no daemon is called %s, or no signal %s", args[0], args[1])
	}
	ts.Check(d.cmd.Process.Signal(sig))
}

// until is the script command "until TIME FILE COMMAND...": it runs a command that
// prints lines without end, until one of them contains the text in FILE; with "!"
// until one does not.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: [!] until TIME FILE COMMAND...")
	}
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	want := strings.TrimSpace(ts.ReadFile(args[1]))
	cmd := exec.Command(lookPath(ts, args[2]), args[3:]...)
	cmd.Args[0], cmd.Dir = args[2], ts.MkAbs(".")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	stuck := time.AfterFunc(most, func() { _ = cmd.Process.Kill() })
	last, found := "", false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		last = lines.Text()
		found = strings.Contains(last, want) != neg
	}
	stuck.Stop()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !found {
		ts.Fatalf("after %s it is still not as wanted (%s); the last is\n%s", args[0], want, last)
	}
}

func lookPath(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, name); isProgram(p) {
			return p
		}
	}
	ts.Fatalf("%s is not on the path", name)
	return ""
}

func isProgram(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}
