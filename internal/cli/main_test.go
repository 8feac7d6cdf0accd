package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"weir/internal/netns/netnstest"
)

var commands = map[string]func(){
	"weir":          weir,
	"ordinary-weir": ordinaryWeir,
}

func weir() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) }

// ordinaryWeir is weir without a capability, as any user has it.
func ordinaryWeir() {
	runtime.LockOSThread() // capabilities are a thread's
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&hdr, &make([]unix.CapUserData, 2)[0]); err != nil {
		fmt.Fprintln(os.Stderr, "give capabilities up:", err)
		os.Exit(70)
	}
	weir()
}

// scripts runs the tests with weir on the path: this binary under another name.
type scripts struct{ m *testing.M }

func (s scripts) Run() int {
	testscript.Main(s.m, commands) // does not return
	return 0
}

func TestMain(m *testing.M) {
	if commands[filepath.Base(os.Args[0])] != nil {
		testscript.Main(m, commands)
	}
	netnstest.Main(scripts{m})
}

// exits is the script command "exits STATUS COMMAND...": exec that wants the very
// exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	code := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

var cmds = map[string]func(*testscript.TestScript, bool, []string){"exits": exits}

// TestScript tries what needs no kernel: testdata/script/*.txtar, named by
// subcommand first.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                cmds,
		UpdateScripts:       os.Getenv("UPDATE") != "",
	})
}
