package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"
)

// TestFloorClock: the clock is set forward to the newest time that is known to be
// past, never back, and only where it is ours.
func TestFloorClock(t *testing.T) {
	built := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	stored := built.Add(90 * 24 * time.Hour)
	for _, tt := range []struct {
		what   string
		now    time.Time
		stored time.Time
		want   time.Time // zero: not set
	}{
		{"1970, first start", time.Unix(12, 0), time.Time{}, built},
		{"1970, and a time is stored", time.Unix(12, 0), stored, stored},
		{"what is stored is older than the program", time.Unix(12, 0), built.Add(-time.Hour), built},
		{"the clock is right", stored.Add(time.Minute), stored, time.Time{}},
		{"the clock is years ahead, which NTP alone can tell", stored.AddDate(5, 0, 0), stored, time.Time{}},
	} {
		dir := t.TempDir()
		if !tt.stored.IsZero() {
			if err := storeTime(dir, tt.stored); err != nil {
				t.Fatal(err)
			}
		}
		var got time.Time
		note, err := floorClock(dir, built, tt.now, func(at time.Time) error { got = at; return nil })
		if err != nil || !got.Equal(tt.want) || (note != "") != !tt.want.IsZero() {
			t.Errorf("%s: set to %v (%q, %v), want %v", tt.what, got, note, err, tt.want)
		}
		if note, err := floorClock(dir, built, tt.now, nil); note != "" || err != nil {
			t.Errorf("%s: a clock that is not ours: %q, %v", tt.what, note, err)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, timeFile), []byte("\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got time.Time
	if _, err := floorClock(dir, built, time.Unix(0, 0), func(at time.Time) error { got = at; return nil }); err == nil || !got.Equal(built) {
		t.Errorf("with a damaged file: set to %v, %v", got, err)
	}
	if _, err := floorClock(dir, built, time.Unix(0, 0), func(time.Time) error { return errors.New("not permitted") }); err == nil {
		t.Error("a clock that can't be set is no error")
	}
}

// TestOtherClock: another keeper of the clock in this network is found, weir's own
// chronyd and those of other networks are not.
func TestOtherClock(t *testing.T) {
	proc := func(ns, cmdline string) fstest.MapFS {
		return fstest.MapFS{
			"proc/self/ns/net": {Mode: os.ModeSymlink, Data: []byte("net:[1]")},
			"proc/12/ns/net":   {Mode: os.ModeSymlink, Data: []byte(ns)},
			"proc/12/cmdline":  {Data: []byte(cmdline)},
		}
	}
	for cmdline, want := range map[string]string{
		"/usr/sbin/chronyd\x00-F\x001\x00":                                      "chronyd, pid 12,",
		"/lib/systemd/systemd-timesyncd\x00":                                    "systemd-timesyncd, pid 12,",
		"ntpd: ntp engine\x00":                                                  "ntpd, pid 12,",
		"/usr/sbin/chronyd\x00-d\x00-f\x00/var/lib/weir/chrony/chrony.conf\x00": "",
		"/usr/bin/chronyc\x00":                                                  "",
	} {
		if got := otherClock(proc("net:[1]", cmdline), "/var/lib/weir/chrony"); got != want {
			t.Errorf("%q: %q, want %q", cmdline, got, want)
		}
		if got := otherClock(proc("net:[2]", cmdline), "/var/lib/weir/chrony"); got != "" {
			t.Errorf("%q in another network: %q", cmdline, got)
		}
	}
}
