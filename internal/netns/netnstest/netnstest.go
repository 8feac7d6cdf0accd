// Package netnstest gives tests network namespaces of their own.
//
// A package whose tests need some has
//
//	func TestMain(m *testing.M) { netnstest.Main(m) }
//
// which runs the test binary again in network and mount namespaces made for it
// (a user namespace too where there is no root), with an empty /run. So "" of
// package netns is a throw-away namespace with lo up and nothing else, names
// meet nobody's, and when the process ends, however it does, nothing is left.
//
//	main namespace of the test    netnstest.New(t) and netns.Create make more
//	+----------------------+      +-----+  +-----+
//	| lo, /run is a tmpfs  |      | lo  |  | lo  |
//	+----------------------+      +-----+  +-----+
//
// Tests of a package share that first namespace. One that wants it for itself
// wraps its body in Alone.
package netnstest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/netns"
)

// The environment tells a process that it is the child: of Main, or of Alone
// for the test named.
const (
	envMain  = "WEIR_NETNSTEST"
	envAlone = "WEIR_NETNSTEST_ALONE"
)

// Main runs m in namespaces of its own and exits with its status. Where they
// can't be had it runs m as it is, and New and Alone say what is missing.
func Main(m interface{ Run() int }) {
	if os.Getenv(envMain) != "" {
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, "netnstest:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := again(os.Args[1:], envMain+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // Pdeathsig is sent when the thread that forked ends
	if err := cmd.Start(); err != nil {
		_ = os.Setenv(envMissing, err.Error())
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "netnstest:", err)
	os.Exit(1)
}

// envMissing carries from Main to New why there are no namespaces here.
const envMissing = "WEIR_NETNSTEST_MISSING"

// again is the test binary run once more in new namespaces.
func again(args []string, env string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), env)
	attr := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if !admin() {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	return cmd
}

// admin says whether the process has CAP_SYS_ADMIN in its user namespace.
func admin() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return os.Geteuid() == 0
	}
	return data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// settle makes the child's namespaces livable.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount a private /run: %w", err)
	}
	return loUp("")
}

func loUp(name string) error {
	return netns.Do(name, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("lo: %w", err)
		}
		return netlink.LinkSetUp(lo)
	})
}

// New makes a network namespace with lo up, which is deleted when tb ends, and
// returns its name. It skips tb aloud (feature "netns") where none can be made.
func New(tb testing.TB) string {
	tb.Helper()
	Need(tb)
	name := fmt.Sprintf("test-%d", made.Add(1))
	if err := netns.Create(name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := netns.Delete(name); err != nil {
			tb.Error(err)
		}
	})
	if err := loUp(name); err != nil {
		tb.Fatal(err)
	}
	return name
}

var made atomic.Int64 // names are the process's

// Need skips tb aloud (feature "netns") unless the process is in namespaces
// made for its tests.
func Need(tb testing.TB) {
	tb.Helper()
	if os.Getenv(envMain) != "" {
		return
	}
	why := os.Getenv(envMissing)
	if why == "" {
		tb.Fatal("the package's TestMain has to call netnstest.Main")
	}
	Missing(tb, "netns", errors.New(why))
}

// Alone runs f in a process of its own with new namespaces: "" of package netns
// and /run are f's alone. The test or subtest that calls it does nothing else.
func Alone(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	Need(t)
	if os.Getenv(envAlone) == t.Name() {
		if err := settle(); err != nil {
			t.Fatal(err)
		}
		// A process that f starts may be a test binary as well.
		_ = os.Unsetenv(envAlone)
		f(t)
		return
	}
	if env := os.Getenv(envAlone); env != "" {
		t.Fatalf("%s runs alone within %s", t.Name(), env)
	}
	// Main's settle comes first in the child, which costs nothing.
	var levels []string
	for _, part := range strings.Split(t.Name(), "/") {
		levels = append(levels, "^"+regexp.QuoteMeta(part)+"$")
	}
	args := []string{"-test.run=" + strings.Join(levels, "/"), "-test.v", "-test.count=1"}
	if d, ok := t.Deadline(); ok {
		// It has to be the first to give up: it knows where it hangs.
		args = append(args, "-test.timeout="+max(time.Until(d)*9/10, time.Second).String())
	}
	cmd := again(args, envAlone+"="+t.Name())
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	report(t, out.String(), err)
}

// report tells t what its run in another process came to.
func report(t *testing.T, out string, err error) {
	t.Helper()
	if out = strings.TrimSpace(out); out != "" {
		_, _ = io.WriteString(t.Output(), out+"\n")
	}
	switch {
	case err != nil:
		t.Fatalf("in its own process: %v", err)
	case !strings.Contains(out, "--- PASS: "+t.Name()+" ") && strings.Contains(out, "--- SKIP: "+t.Name()+" "):
		why := "skipped in its own process"
		for line := range strings.Lines(out) {
			if _, needs, ok := strings.Cut(line, ": needs "); ok {
				why = "needs " + strings.TrimSpace(needs)
			}
		}
		t.Skip(why)
	case !strings.Contains(out, "--- PASS: "+t.Name()+" "):
		t.Fatal("its own process ended well and did not run it")
	}
}
