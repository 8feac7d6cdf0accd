package netns_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"weir/internal/netns"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// netOf is the namespace of a thread, as the kernel names it.
func netOf(t *testing.T, name string) (net string) {
	t.Helper()
	if err := netns.Do(name, func() (err error) {
		net, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return net
}

func TestDoLeavesTheProcessWhereItWas(t *testing.T) {
	name := netnstest.New(t)
	first := netOf(t, "")
	there := netOf(t, name)
	if first == there {
		t.Fatalf("namespace %s is the first one, %s", name, there)
	}
	// Many at once, so that the runtime would have a chance to reuse a thread.
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			err := netns.Do(name, func() error {
				// From within a namespace "" is still the first one.
				return netns.Do("", func() error {
					if net, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || net != first {
						return errors.Join(err, errors.New("Do(\"\") within a namespace is in "+net))
					}
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if now := netOf(t, ""); now != first {
		t.Errorf("the first namespace was %s and is %s", first, now)
	}
	if now, err := os.Readlink(netns.Path("")); err != nil || now != first {
		t.Errorf("Path(\"\") was %s and is %s (%v)", first, now, err)
	}
}

func TestCreateListDelete(t *testing.T) {
	netnstest.Need(t)
	if err := netns.Create("wan-fiber"); err != nil {
		t.Fatal(err)
	}
	if err := netns.Create("wan-fiber"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	names, err := netns.List()
	if err != nil || !slices.Contains(names, "wan-fiber") {
		t.Errorf("List: %q, %v", names, err)
	}
	before, err := netns.Identify("wan-fiber")
	if err != nil {
		t.Fatal(err)
	}
	// A fresh namespace has lo, down, and nothing else.
	err = netns.Do("wan-fiber", func() error {
		links, err := netlink.LinkList()
		if err == nil && (len(links) != 1 || links[0].Attrs().Name != "lo") {
			err = errors.New("more than lo is there")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	held, err := os.Open(netns.Path("wan-fiber")) // keeps the inode from being given out again
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := netns.Delete("wan-fiber"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Do":       netns.Do("wan-fiber", func() error { return nil }),
		"Delete":   netns.Delete("wan-fiber"),
		"Identify": func() error { _, err := netns.Identify("wan-fiber"); return err }(),
	} {
		if !errors.Is(err, netns.ErrNotExist) {
			t.Errorf("%s of a deleted one: %v", what, err)
		}
	}
	if err := netns.Create("wan-fiber"); err != nil {
		t.Fatal(err)
	}
	if after, err := netns.Identify("wan-fiber"); err != nil || after == before {
		t.Errorf("another namespace of the same name looks the same: %v, %v", after, err)
	}
	if err := netns.Delete("wan-fiber"); err != nil {
		t.Fatal(err)
	}
}

// A file in Dir on which nothing is mounted is what a reboot or a torn Create
// leaves where /run survives.
func TestFileWithoutNamespace(t *testing.T) {
	netnstest.Need(t)
	if err := os.MkdirAll(netns.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(netns.Path("wan-torn"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := netns.Do("wan-torn", func() error { return nil }); !errors.Is(err, netns.ErrNotExist) {
		t.Errorf("Do: %v", err)
	}
	if _, err := netns.Identify("wan-torn"); !errors.Is(err, netns.ErrNotExist) {
		t.Errorf("Identify: %v", err)
	}
	if err := netns.Delete("wan-torn"); err != nil {
		t.Errorf("Delete: %v", err)
	}
}

func TestNamesThatAreNoFile(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "../x"} {
		if err := netns.Create(name); err == nil || !strings.Contains(err.Error(), "not a file name") {
			t.Errorf("Create(%q): %v", name, err)
		}
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	defer func() {
		if r := recover(); r != "here" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = netns.Do("", func() error { panic("here") })
}
