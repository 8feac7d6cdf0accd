package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The whole way, as test/run and test/vm-run go it, with the go tool's own output:
// where the second machine runs what the first could not, all is well; where it
// skips as well, ends early or is not asked, the audit fails and says which.
func TestWhatRanNowhereIsCaught(t *testing.T) {
	dir := t.TempDir()
	bin, host, vm := filepath.Join(dir, "skips.test"), filepath.Join(dir, "host.log"), filepath.Join(dir, "vm.log")
	const pkg = "weir/test/audit/testdata/skips"
	output := func(has, name string, args ...string) []byte {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "AUDIT_HAS="+has)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return out
	}
	store := func(name string, b []byte) {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output("", "go", "test", "-c", "-o", bin, "./testdata/skips")
	store(host, output("", "go", "test", "-v", "-count=1", "./testdata/skips"))

	var todo bytes.Buffer
	if err := run([]string{"skipped", host}, &todo); err != nil {
		t.Fatal(err)
	}
	if want := pkg + " TestTable|TestVLAN\n"; todo.String() != want {
		t.Fatalf("to run elsewhere: %q, want %q", todo.String(), want)
	}
	elsewhere := func(has, tests string) []byte {
		return append([]byte("@@PACKAGE "+pkg+"\n"), output(has, bin, "-test.v", "-test.run", "^("+tests+")$")...)
	}
	for _, c := range []struct {
		name   string
		log    []byte
		missed []string // none: all is well
	}{
		{"has it", elsewhere("vlan", "TestTable|TestVLAN"), nil},
		{"lacks it too", elsewhere("", "TestTable|TestVLAN"), []string{"TestTable/tagged", "TestVLAN"}},
		{"ran one of them", elsewhere("vlan", "TestTable"), []string{"TestVLAN"}},
		{"gave nothing", nil, []string{"TestTable/tagged", "TestVLAN"}},
		{"ran another package's", bytes.ReplaceAll(elsewhere("vlan", "TestTable|TestVLAN"), []byte(pkg), []byte("weir/internal/kernel")), []string{"TestTable/tagged", "TestVLAN"}},
	} {
		store(vm, c.log)
		var out bytes.Buffer
		err := run([]string{"both", host, vm}, &out)
		if len(c.missed) == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		want := "these tests ran in neither place:"
		for _, m := range c.missed {
			want += "\n  " + pkg + " " + m
		}
		if err == nil || strings.TrimSpace(err.Error()) != want {
			t.Errorf("%s: %v, want %s", c.name, err, want)
		}
	}
}
