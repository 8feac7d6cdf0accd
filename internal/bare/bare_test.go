package bare_test

import (
	"errors"
	"net"
	"net/netip"
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

// TestDatagrams sends to an address and from it, of both families.
func TestDatagrams(t *testing.T) {
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		addr := netip.MustParseAddr(loopback)
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		if err != nil {
			t.Logf("no %s here: %v", loopback, err)
			continue
		}
		defer c.Close()
		at := c.LocalAddr().(*net.UDPAddr).AddrPort()
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var m bare.Msg
		b := make([]byte, 3)
		if err := raw.Control(func(fd uintptr) {
			if _, err := bare.Recvmsg(int(fd), b, nil, 0); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("Recvmsg of nothing: %v, want EAGAIN", err)
			}
			if err := bare.Sendto(int(fd), []byte("weir"), at); err != nil {
				t.Error(err)
			}
			m, err = bare.Recvmsg(int(fd), b, nil, 0) // loopback delivers while it sends
		}); err != nil {
			t.Fatal(err)
		}
		if err != nil || m.N != 3 || string(b) != "wei" || m.From != at || m.Flags&unix.MSG_TRUNC == 0 {
			t.Errorf("over %s came %+v, %q, %v; want 3 bytes, cut, from %s", loopback, m, b, err, at)
		}
	}
}

func TestControl(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if err := unix.Sendmsg(fds[0], []byte("weir"), unix.UnixRights(fds[0], fds[1]), nil, 0); err != nil {
		t.Fatal(err)
	}
	b, oob := make([]byte, 16), make([]byte, 128)
	m, err := bare.Recvmsg(fds[1], b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || string(b[:m.N]) != "weir" || m.From.IsValid() {
		t.Fatalf("%+v, %q, %v", m, b[:m.N], err)
	}
	cs, err := unix.ParseSocketControlMessage(oob[:m.OOBN])
	if err != nil || len(cs) != 1 {
		t.Fatalf("%d control messages, %v", len(cs), err)
	}
	got, err := unix.ParseUnixRights(&cs[0])
	if err != nil || len(got) != 2 {
		t.Fatalf("%d files, %v", len(got), err)
	}
	for _, fd := range got {
		unix.Close(fd)
	}
}

func TestStat(t *testing.T) {
	var want unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &want); err != nil {
		t.Fatal(err)
	}
	st, err := bare.Stat("/proc/self/ns/net", unix.STATX_INO)
	if err != nil || st.Ino != want.Ino || unix.Mkdev(st.Dev_major, st.Dev_minor) != uint64(want.Dev) { //nolint:unconvert // its type differs between processors
		t.Errorf("Stat: device %d:%d, inode %d, %v; want %d, %d", st.Dev_major, st.Dev_minor, st.Ino, err, want.Dev, want.Ino)
	}
	if _, err := bare.Stat(filepath.Join(t.TempDir(), "none"), unix.STATX_INO); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of no file: %v", err)
	}
	if _, err := bare.Stat("a\x00b", unix.STATX_INO); !errors.Is(err, unix.EINVAL) {
		t.Errorf("Stat of no name: %v", err)
	}
}
