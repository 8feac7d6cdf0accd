package state

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// records splits a log into what each of its records holds and where it lies.
func records(t *testing.T, log []byte) (keys []string, ends []int) {
	t.Helper()
	at := 0
	for at < len(log) {
		n := bytes.IndexByte(log[at+1:], '\n') + 2
		e, ok := parseRecord(bytes.TrimSpace(log[at : at+n]))
		if !ok {
			t.Fatalf("the log is damaged at %d", at)
		}
		at += n
		keys, ends = append(keys, e.Key), append(ends, at)
	}
	return keys, ends
}

// damageTrial is the log of a store with that many things in it.
func damageTrial(t *testing.T, things int) (log []byte, keys []string, ends []int) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	_, items := house()
	items = items[:things]
	for _, i := range items {
		if err := s.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	keys, ends = records(t, log)
	if len(keys) != len(items)+1 {
		t.Fatalf("%d records, want %d and the format", len(keys), len(items))
	}
	return log, keys, ends
}

// A torn tail costs the tail: at every length.
func TestTruncatedAtEveryLength(t *testing.T) {
	log, keys, ends := damageTrial(t, 20)
	whole := parseLog(log)
	for n := range len(log) + 1 {
		c := parseLog(log[:n])
		full := 0
		for full < len(ends) && (ends[full] <= n || ends[full]-1 == n) { // its last newline is not missed
			full++
		}
		if len(c.values) != full || c.damaged > 0 || c.missing > 0 {
			t.Fatalf("cut to %d of %d bytes: %d records, want %d; %d damaged, %d missing", n, len(log), len(c.values), full, c.damaged, c.missing)
		}
		for _, k := range keys[:full] {
			if !bytes.Equal(c.values[k], whole.values[k]) {
				t.Fatalf("cut to %d bytes: %s is %s", n, k, c.values[k])
			}
		}
		start := 0
		if full > 0 {
			start = ends[full-1]
		}
		// One byte into a record there is only the newline before it.
		if torn := n > start+1; torn != (c.torn > 0) {
			t.Fatalf("cut to %d bytes: %d bytes are said to be torn", n, c.torn)
		}
	}
}

// A damaged record costs itself: whichever byte, to whatever value.
func TestEveryByteFlipped(t *testing.T) {
	log, keys, ends := damageTrial(t, 9)
	whole := parseLog(log)
	at := 0
	for i := range log {
		if i >= ends[at] {
			at++
		}
		for _, v := range []byte{log[i] ^ 1, log[i] ^ 0x80, '\n', 0} {
			if v == log[i] {
				continue
			}
			b := bytes.Clone(log)
			b[i] = v
			c := parseLog(b)
			for n, k := range keys {
				got, ok := c.values[k]
				if n == at && !ok {
					continue // itself
				}
				if !ok || !bytes.Equal(got, whole.values[k]) {
					t.Fatalf("byte %d is %#x, in %q: %q is %s", i, v, keys[at], k, got)
				}
			}
			if len(c.values) > len(keys) {
				t.Fatalf("byte %d is %#x: something came up that was never stored", i, v)
			}
			if _, there := c.values[keys[at]]; !there && c.damaged+c.torn == 0 {
				t.Fatalf("byte %d is %#x: %q is lost and nothing said", i, v, keys[at])
			}
		}
	}
}

func TestDamagedStoreIsKeptAside(t *testing.T) {
	log, keys, ends := damageTrial(t, 54)
	third := (ends[1] + ends[2]) / 2
	for _, tt := range []struct {
		name  string
		log   []byte
		lost  int
		said  string
		aside bool
	}{
		{"flipped", append(append(bytes.Clone(log[:third]), log[third]^1), log[third+1:]...), 1, "1 places could not, 1 records are missing", true},
		{"a hole of zeroes", append(append(bytes.Clone(log[:ends[2]+5]), make([]byte, ends[5]-ends[2])...), log[ends[5]+5:]...), 4, "4 records are missing", true},
		{"records cut out", append(bytes.Clone(log[:ends[2]]), log[ends[5]:]...), 3, "0 places could not, 3 records are missing", true},
		{"torn", log[:len(log)-7], 1, "unfinished record", false},
		{"another file altogether", []byte("\x7fELF\n\n\n"), len(keys) - 1, "0 records could be read", true},
		{"empty", nil, len(keys) - 1, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, logName), tt.log, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir)
			count := func(k Kept) int {
				n := len(k.Index) + len(k.WANs) + len(k.WANs6) + len(k.LANs) + len(k.Told) + len(k.Leases)
				if k.ULA.IsValid() {
					n++
				}
				if k.Choice.WAN != "" {
					n++
				}
				if k.DUID != "" {
					n++
				}
				return n
			}
			if got := count(s.Kept()); got != len(keys)-1-tt.lost {
				t.Errorf("%d things were kept, want %d", got, len(keys)-1-tt.lost)
			}
			if said := strings.Join(s.Damage(), "\n"); (said == "") != (tt.said == "") || !strings.Contains(said, tt.said) {
				t.Errorf("said: %q, want %q in it", said, tt.said)
			}
			aside, err := os.ReadFile(filepath.Join(dir, damagedName))
			if (err == nil) != tt.aside || err == nil && !bytes.Equal(aside, tt.log) {
				t.Errorf("kept aside: %d bytes, %v; want it: %v", len(aside), err, tt.aside)
			}
			if err := s.Put(KeepLease(lease(123))); err != nil {
				t.Error(err)
			}
			before := s.Kept()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			s = open(t, dir)
			if diff := cmp.Diff(before, s.Kept(), compare); diff != "" || s.Damage() != nil {
				t.Errorf("opened again, damage %q; -want +got\n%s", s.Damage(), diff)
			}
		})
	}
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	b, err := appendRecord(nil, entry{N: 1, Key: "format", Val: []byte("2")})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, logName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer store was opened: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(got, b) {
		t.Errorf("and changed: %q, %v", got, err)
	}
}

func FuzzParseLog(f *testing.F) {
	_, items := house()
	var log []byte
	for n, i := range items[:6] {
		log, _ = appendRecord(log, entry{N: uint64(n + 1), Key: i.key, Val: i.val})
	}
	f.Add(log)
	f.Add(log[:len(log)/2])
	f.Add([]byte("\n00000000 {}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := parseLog(b)
		kept(c.values)
		said(c)
	})
}
