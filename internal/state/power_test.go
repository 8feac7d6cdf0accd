package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/durable"
	"weir/internal/durable/durabletest"
)

// story is a house's: what is stored one after the other. It ends with what was
// there being forgotten and given anew.
func story() [][]Item {
	k, items := house()
	var out [][]Item
	for _, i := range items[:16] {
		out = append(out, []Item{i})
	}
	wan, wan6 := k.WANs["fiber"], k.WANs6["fiber"]
	wan.MTU, wan6.Domain = 1400, []string{"example.org"}
	return append(out,
		[]Item{KeepLease(lease(20)), KeepLease(lease(21)), ForgetLease("home", lease(0).Addr)},
		[]Item{KeepWAN("fiber", &wan), KeepWAN6("fiber", &wan6)},
		[]Item{KeepTold("home", nil)},
		[]Item{KeepForce(Force{ID: 2, Sum: "aa", Trial: &Trial{Before: 1, Boot: "a boot"}})},
		[]Item{KeepForce(Force{ID: 2, Sum: "aa"})},
		[]Item{KeepWAN("fiber", nil)},
	)
}

// lived is what is stored after each part of a story, beginning with nothing.
func lived(parts [][]Item) []map[string]json.RawMessage {
	now := map[string]json.RawMessage{}
	out := []map[string]json.RawMessage{now}
	for _, p := range parts {
		now = maps.Clone(now)
		for _, i := range p {
			if now[i.key] = i.val; string(i.val) == "null" {
				delete(now, i.key)
			}
		}
		out = append(out, now)
	}
	return out
}

// tell has a store live through a story, on a disk that is recorded. It is opened
// anew and rewritten in the middle.
func tell(t *testing.T, parts [][]Item, mistakes ...func(durable.Calls) durable.Calls) *durabletest.Recorder {
	t.Helper()
	around := t.TempDir()
	rec, err := durabletest.Record(around)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(around, "made", "state")
	s, err := OpenOn(rec.Disk(mistakes...), dir)
	if err != nil {
		t.Fatal(err)
	}
	s.slack = 3
	for n, p := range parts {
		if n == len(parts)/2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = OpenOn(rec.Disk(mistakes...), dir); err != nil {
				t.Fatal(err)
			}
			s.slack = 3
		}
		if err := s.Put(p...); err != nil {
			t.Fatal(err)
		}
		rec.Mark()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return rec
}

// neither is the first key that has neither the old value nor the new, "" if all have.
func neither(old, next, got map[string]json.RawMessage) string {
	keys := map[string]bool{}
	for _, m := range []map[string]json.RawMessage{old, next, got} {
		for k := range m {
			keys[k] = true
		}
	}
	delete(keys, "format")
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if g := string(got[k]); g != string(old[k]) && g != string(next[k]) {
			return fmt.Sprintf("%s is %q: neither %q nor %q", k, g, old[k], next[k])
		}
	}
	return ""
}

// after is what a store that was left by a power cut holds, compared with states.
func after(disk durable.Disk, dir string, states []map[string]json.RawMessage, marks int) string {
	s, err := OpenOn(disk, filepath.Join(dir, "made", "state"))
	if err != nil {
		return err.Error()
	}
	s.mu.Lock()
	got := maps.Clone(s.values)
	s.mu.Unlock()
	w := neither(states[marks], states[min(marks+1, len(states)-1)], got)
	// It goes on from there.
	if err := s.Put(KeepLease(lease(99))); err != nil {
		w += err.Error()
	}
	if err := s.Close(); err != nil {
		w += err.Error()
	}
	k, damage, err := Read(filepath.Join(dir, "made", "state"))
	if !slices.ContainsFunc(k.Leases, func(l Lease) bool { return l.Addr == lease(99).Addr }) || damage != nil || err != nil {
		w += fmt.Sprintf("a lease given after it is not there: damage %q, %v", damage, err)
	}
	return w
}

// TestPowerCut cuts the power at each call that changes the disk, and again while
// the store recovers: leases, delegated prefixes, numbers and trials are the old or
// the new.
func TestPowerCut(t *testing.T) {
	parts := story()
	states := lived(parts)
	rec := tell(t, parts)
	n, twice := 0, 0
	tried, wrong := rec.Cut(t, func(dir string, c durabletest.Crash) string {
		if n++; n%20 != 0 {
			return after(durabletest.Unsynced(), dir, states, c.Marks)
		}
		again, err := durabletest.Record(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenOn(again.Disk(), filepath.Join(dir, "made", "state"))
		if err != nil {
			return err.Error()
		}
		if err := s.Close(); err != nil {
			return err.Error()
		}
		m, wrong := again.Cut(t, func(dir string, _ durabletest.Crash) string {
			return after(durabletest.Unsynced(), dir, states, c.Marks)
		})
		twice += m
		return strings.Join(wrong, "; cut again: ")
	})
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d states after a power cut, and %d after a second one while the first is recovered from", tried, twice)
	if tried < 200 || twice < 50 {
		t.Error("too few")
	}
}

// TestPowerCutNoticesMistakes: each mistake of the layer below is found.
func TestPowerCutNoticesMistakes(t *testing.T) {
	parts := story()
	states := lived(parts)
	for name, m := range durabletest.Mistakes {
		_, wrong := tell(t, parts, m).Cut(t, func(dir string, c durabletest.Crash) string {
			return after(durabletest.Unsynced(), dir, states, c.Marks)
		})
		if len(wrong) == 0 {
			t.Errorf("a layer that %s passes", name)
			continue
		}
		t.Logf("a layer that %s: %s", name, wrong[0])
	}
}

// TestDamagedLogOnAFullDisk: what can't be read is kept aside before the log is
// rewritten, and if there is no room for it now, then once there is.
func TestDamagedLogOnAFullDisk(t *testing.T) {
	t.Parallel() // it waits for the store to try again
	log, _, ends := damageTrial(t, 9)
	log[ends[3]+20] ^= 1
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, logName), log, 0o600); err != nil {
		t.Fatal(err)
	}
	rec, err := durabletest.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rec.Fail(unix.ENOSPC)
	s, err := OpenOn(rec.Disk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	well := make(chan error, 10)
	s.Watch(func(err error) { well <- err })
	if err := <-well; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("told %v", err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, logName)); !bytes.Equal(now, log) || err != nil {
		t.Error("the damaged log is gone, and kept nowhere")
	}
	rec.Fail(nil)
	if err := <-well; err != nil {
		t.Errorf("with room again: %v", err)
	}
	if aside, err := os.ReadFile(filepath.Join(dir, damagedName)); !bytes.Equal(aside, log) || err != nil {
		t.Errorf("kept aside: %d bytes of %d, %v", len(aside), len(log), err)
	}
	if _, said, err := Read(dir); said != nil || err != nil {
		t.Errorf("the log now: %q, %v", said, err)
	}
}
