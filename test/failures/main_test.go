package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const planted = "weir/test/failures/testdata/planted"

// output is what go test says of the planted tests, that fail in one way.
func output(t *testing.T, how string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"test", "-count=1", "-vet=off"}, args...), "./testdata/planted")...)
	cmd.Env = append(os.Environ(), "PLANTED="+how)
	out, err := cmd.CombinedOutput()
	if (err == nil) != (how == "") {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return out
}

// Each way to fail is told of by name, at the end, and by what the test said: with
// the go tool's own output, in both its shapes.
func TestWhatFailedIsTold(t *testing.T) {
	verbose := []string{"-v"}
	for _, c := range []struct {
		how    string
		shape  []string
		names  []string
		said   string
		unsaid string
	}{
		{"error", verbose, []string{"TestError"}, "planted_test.go:19: got 3, want 4", "line 50"},
		{"error", nil, []string{"TestError"}, "planted_test.go:19: got 3, want 4", "line 50"},
		{"side", verbose, []string{"TestSide/1", "TestSide/3"}, "side 3 is wrong", "side 2"},
		{"panic", verbose, []string{"TestPanic"}, "panic: assignment to entry in nil map", "all is well"},
		{"hang", []string{"-timeout=1s"}, []string{""}, "running tests:\n    \t\tTestHang", "all is well"},
	} {
		got := told(t, output(t, c.how, c.shape...))
		for _, want := range append([]string{c.said}, c.names...) {
			if !strings.Contains(got, want) {
				t.Errorf("%s %v: nothing says %q:\n%s", c.how, c.shape, want, got)
			}
		}
		if strings.Contains(got, c.unsaid) {
			t.Errorf("%s %v: %q is told too:\n%s", c.how, c.shape, c.unsaid, got)
		}
		var end []string
		_, list, _ := strings.Cut(got, "failed (")
		for line := range strings.Lines(list) {
			if name, ok := strings.CutPrefix(line, "  "+planted); ok {
				end = append(end, strings.TrimSpace(name))
			}
		}
		slices.Sort(end)
		if !slices.Equal(end, c.names) {
			t.Errorf("%s %v ends with %q, want %q", c.how, c.shape, end, c.names)
		}
	}
}

// told is what is said of a log.
func told(t *testing.T, log []byte) string {
	t.Helper()
	all, err := read(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	tell(&out, all)
	return out.String()
}

func TestNothingFailed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, output(t, "", "-v"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{log}, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
}

// A test whose process is another one's (package labtest) gives its output line by
// line, and by two processes the verdict.
func TestInAnotherProcess(t *testing.T) {
	got := told(t, []byte(`=== RUN   TestRebinding
=== PAUSE TestRebinding
=== CONT  TestRebinding
=== NAME  TestRebinding
    rebind_test.go:21: === RUN   TestRebinding/forward
    rebind_test.go:21:     rebind_test.go:40: NOERROR, want REFUSED
    rebind_test.go:21:     house_test.go:170: the daemon's log:
    rebind_test.go:21:         time=1 level=INFO
    rebind_test.go:21: --- FAIL: TestRebinding (0.00s)
    rebind_test.go:21:     --- FAIL: TestRebinding/forward (1.17s)
    rebind_test.go:21: FAIL
    rebind_test.go:21: in the lab: exit status 1
--- FAIL: TestRebinding (1.20s)
FAIL
FAIL	weir/internal/cases	368.632s
FAIL
`))
	want := `--- weir/internal/cases TestRebinding, which failed, said last:
        rebind_test.go:40: NOERROR, want REFUSED
        house_test.go:170: the daemon's log:
            time=1 level=INFO
        rebind_test.go:21: in the lab: exit status 1
failed (1):
  weir/internal/cases TestRebinding
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// In the virtual machine test binaries run one after the other, without the go tool.
func TestInTheVirtualMachine(t *testing.T) {
	got := told(t, []byte(`@@PACKAGE weir/internal/kernel
=== RUN   TestVLAN
    vlan_test.go:10: no such link
--- FAIL: TestVLAN (0.10s)
FAIL
@@PACKAGE weir/internal/chrony
=== RUN   TestClock
--- PASS: TestClock (0.10s)
PASS
`))
	if !strings.HasPrefix(got, "--- weir/internal/kernel TestVLAN, which failed, said last:\n        vlan_test.go:10: no such link\n") || !strings.HasSuffix(got, "failed (1):\n  weir/internal/kernel TestVLAN\n") {
		t.Error(got)
	}
}

// What does not compile is told by what the compiler said.
func TestWhatDoesNotCompile(t *testing.T) {
	got := told(t, []byte(`# weir/internal/dns [weir/internal/dns.test]
internal/dns/zone_test.go:10:2: undefined: zone
ok  	weir/internal/config	1.2s
FAIL	weir/internal/dns [build failed]
FAIL
`))
	if !strings.Contains(got, "zone_test.go:10:2: undefined: zone") || !strings.HasSuffix(got, "failed (1):\n  weir/internal/dns\n") {
		t.Error(got)
	}
}

// TestScriptsEndWithIt: test/run, and .ci/run in a part that fails, end with what
// failed, and fail.
func TestScriptsEndWithIt(t *testing.T) {
	dir := t.TempDir()
	copied := func(to string, from string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied("test/run", "../run")
	copied(".ci/run", "../../.ci/run")
	copied(".ci/require-here", "../../.ci/require-here")
	copied(".ci/require-vm", "../../.ci/require-vm")
	copied("test/failures/main.go", "main.go")
	copied("planted/planted_test.go", "testdata/planted/planted_test.go")
	for name, text := range map[string]string{
		"go.mod":       "module weir\n\ngo 1.26\n",
		"Makefile":     ".PHONY: test\n%:\n\t@:\ntest:\n\ttest/run .\n",
		"test/install": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"test/run", ".ci/run"} {
		cmd := exec.Command(filepath.Join(dir, script))
		cmd.Env = append(os.Environ(), "PLANTED=error", "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), "failed (1):\n  weir/planted TestError\n") {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
