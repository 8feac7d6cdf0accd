package bare_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/bare"
)

// soon is longer than anything here takes, but for what is to go wrong.
const soon = 5 * time.Second

func rings(t *testing.T, a *bare.Alarm) time.Time {
	t.Helper()
	select {
	case <-a.C:
		return time.Now()
	case <-time.After(soon):
		t.Fatal("the alarm did not go off")
		return time.Time{}
	}
}

func set(t *testing.T, a *bare.Alarm, at time.Time) {
	t.Helper()
	if err := a.Set(at); err != nil {
		t.Fatal(err)
	}
}

func TestAlarm(t *testing.T) {
	a, err := bare.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for range 3 { // it can be set again, by which it goes off again
		at := time.Now().Add(20 * time.Millisecond)
		set(t, a, at)
		set(t, a, at)
		if rang := rings(t, a); rang.Before(at) {
			t.Errorf("it went off %v early", at.Sub(rang))
		}
		set(t, a, at) // which is over: at once
		rings(t, a)
	}
	// What was set last counts: sooner, later, never.
	set(t, a, time.Now().Add(time.Hour))
	set(t, a, time.Now().Add(time.Millisecond))
	rings(t, a)
	set(t, a, time.Now().Add(10*time.Millisecond))
	later := time.Now().Add(60 * time.Millisecond)
	set(t, a, later)
	if rang := rings(t, a); rang.Before(later) {
		t.Errorf("it went off %v early", later.Sub(rang))
	}
	set(t, a, time.Now().Add(10*time.Millisecond))
	set(t, a, time.Time{})
	select {
	case <-a.C:
		t.Error("it went off, and was not to")
	case <-time.After(50 * time.Millisecond):
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Set(time.Now().Add(time.Hour)); err == nil {
		t.Error("a closed alarm was set")
	}
}

func TestCalls(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) // blocks, but not in Recv
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	b := make([]byte, 16)
	if _, err := bare.Recv(fds[1], b, 0); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("Recv of nothing: %v, want EAGAIN", err)
	}
	for _, read := range []func() (int, error){
		func() (int, error) { return bare.Recv(fds[1], b, 0) },
		func() (int, error) { return bare.Read(fds[1], b) },
	} {
		if n, err := bare.Write(fds[0], []byte("weir")); n != 4 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
		if n, err := read(); err != nil || string(b[:n]) != "weir" {
			t.Errorf("read %q, %v", b[:n], err)
		}
	}
	unix.Close(fds[0])
	if n, err := bare.Recv(fds[1], b, 0); n != 0 || err != nil {
		t.Errorf("Recv at the end: %d, %v", n, err)
	}
	if _, err := bare.Write(fds[1], b); !errors.Is(err, unix.EPIPE) {
		t.Errorf("Write to nobody: %v, want EPIPE", err)
	}
	if n, err := bare.Read(-1, nil); n != 0 || !errors.Is(err, unix.EBADF) {
		t.Errorf("Read of no file: %d, %v", n, err)
	}
}

func TestStat(t *testing.T) {
	var want unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &want); err != nil {
		t.Fatal(err)
	}
	st, err := bare.Stat("/proc/self/ns/net", unix.STATX_INO)
	if err != nil || st.Ino != want.Ino || unix.Mkdev(st.Dev_major, st.Dev_minor) != uint64(want.Dev) {
		t.Errorf("Stat: device %d:%d, inode %d, %v; want %d, %d", st.Dev_major, st.Dev_minor, st.Ino, err, want.Dev, want.Ino)
	}
	if _, err := bare.Stat(filepath.Join(t.TempDir(), "none"), unix.STATX_INO); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of no file: %v", err)
	}
	if _, err := bare.Stat("a\x00b", unix.STATX_INO); !errors.Is(err, unix.EINVAL) {
		t.Errorf("Stat of no name: %v", err)
	}
}
