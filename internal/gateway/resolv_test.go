package gateway

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/durable"
)

func TestResolverIsTakenAndGivenBack(t *testing.T) {
	text := resolvText(netip.MustParseAddr("127.0.0.1"), "home.arpa")
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, path string)
		check func(t *testing.T, path string)
	}{
		{"a file", func(t *testing.T, path string) {
			write(t, path, "nameserver 192.0.2.1\n")
		}, func(t *testing.T, path string) {
			if got := read(t, path); got != "nameserver 192.0.2.1\n" {
				t.Errorf("%q", got)
			}
		}},
		{"a link into another's folder", func(t *testing.T, path string) {
			write(t, path+".stub", "nameserver 127.0.0.53\n")
			if err := os.Symlink("resolv.conf.stub", path); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, path string) {
			if to, err := os.Readlink(path); err != nil || to != "resolv.conf.stub" {
				t.Errorf("%q, %v", to, err)
			}
			if got := read(t, path+".stub"); got != "nameserver 127.0.0.53\n" {
				t.Errorf("the other's file was written: %q", got)
			}
		}},
		{"a link to nothing", func(t *testing.T, path string) {
			if err := os.Symlink("/nowhere/stub", path); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, path string) {
			if to, err := os.Readlink(path); err != nil || to != "/nowhere/stub" {
				t.Errorf("%q, %v", to, err)
			}
		}},
		{"nothing", func(*testing.T, string) {}, func(t *testing.T, path string) {
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("there is something: %v", err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := resolver{path: filepath.Join(t.TempDir(), "resolv.conf")}
			tt.make(t, r.path)
			var kept []found
			keep := func(f found) error { kept = append(kept, f); return nil }
			for range 2 { // the second time it is ours already
				if mended, err := r.take(text, "", keep); err != nil || mended {
					t.Fatal(mended, err)
				}
				if got := read(t, r.path); got != text {
					t.Fatalf("taken: %q", got)
				}
			}
			other := resolvText(netip.MustParseAddr("127.0.0.1"), "lan")
			if mended, err := r.take(other, text, keep); err != nil || mended {
				t.Fatal("a domain of weir's own choice is no damage", mended, err)
			}
			if len(kept) != 1 {
				t.Fatalf("kept %d times: our own file was taken for somebody's", len(kept))
			}
			if err := r.give(kept[0]); err != nil {
				t.Fatal(err)
			}
			tt.check(t, r.path)
		})
	}
}

// What somebody puts in the place of weir's file while it runs is mended, whatever it
// is, and what is given back is what stood there before weir.
func TestResolverIsMended(t *testing.T) {
	text := resolvText(netip.MustParseAddr("127.0.0.1"), "home.arpa")
	for name, damage := range map[string]func(path string) error{
		"another text":     func(path string) error { return os.WriteFile(path, []byte("nameserver 192.0.2.66\n"), 0o600) },
		"a line of weir's": func(path string) error { return os.WriteFile(path, []byte(resolvMark), 0o600) },
		"gone":             os.Remove,
		"a link":           func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/run/stub", path)) },
	} {
		dir := t.TempDir()
		r := resolver{path: filepath.Join(dir, "resolv.conf")}
		write(t, r.path, "nameserver 192.0.2.1\n")
		last := ""
		take := func() bool {
			mended, err := r.take(text, last, func(f found) error { return keepFound(dir, f, last != "") })
			if err != nil {
				t.Fatal(err)
			}
			last = text
			return mended
		}
		for range 2 {
			if take() {
				t.Errorf("%s: mended before it was damaged", name)
			}
		}
		if err := damage(r.path); err != nil {
			t.Fatal(err)
		}
		if !take() || read(t, r.path) != text {
			t.Errorf("%s: not mended: %q", name, read(t, r.path))
		}
		var stored *found
		if err := durable.Kept(filepath.Join(dir, resolvFile), &stored); err != nil || stored == nil || stored.Text != "nameserver 192.0.2.1\n" {
			t.Errorf("%s: %+v would be given back, %v", name, stored, err)
		}
	}
}

func TestWhatSomebodyElseWroteMeanwhileStays(t *testing.T) {
	r := resolver{path: filepath.Join(t.TempDir(), "resolv.conf")}
	write(t, r.path, "nameserver 192.0.2.7\n")
	if err := r.give(found{Text: "nameserver 192.0.2.1\n"}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, r.path); got != "nameserver 192.0.2.7\n" {
		t.Errorf("%q", got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
