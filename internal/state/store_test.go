package state

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"weir/internal/durable"
	"weir/internal/durable/durabletest"
	"weir/internal/netns/netnstest"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "write":
		writer(os.Args[2], os.Args[3:]...)
	case len(os.Args) > 2 && os.Args[1] == "look":
		os.Exit(look(os.Args[2], os.Args[3]))
	}
	netnstest.Main(m)
}

var compare = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func lease(i int) Lease {
	return Lease{
		LAN: "home", Addr: netip.AddrFrom4([4]byte{172, 31, 0, byte(100 + i)}),
		Client: fmt.Sprintf("0102000000%04x", i), MAC: fmt.Sprintf("02:00:00:00:00:%02x", i), Hostname: fmt.Sprintf("host-%d", i),
		Granted: time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC), Duration: 12 * time.Hour, Boot: "a boot", Up: time.Minute,
	}
}

// house is what a house has after a while: 50 clients, two WANs.
func house() (Kept, []Item) {
	k := Kept{
		ULA:    netip.MustParsePrefix("fd12:3456:789a::/48"),
		Index:  map[string]uint8{"fiber": 1, "lte": 2},
		Choice: Choice{WAN: "lte", By: "ann", Since: time.Date(2026, 12, 2, 6, 0, 0, 0, time.UTC)},
		DUID:   "0004000102030405060708090a0b0c0d0e0f",
		LANs:   map[string]uint16{"home": 0, "guest": 1},
		Told:   map[string][]Told{"home": {{Prefix: netip.MustParsePrefix("2001:db8:1::/64"), At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}},
		WANs6: map[string]Lease6{"fiber": {
			Prefix: []Leased6{{Prefix: netip.MustParsePrefix("2001:db8:1::/56"), Preferred: time.Hour, Valid: Forever}},
			Server: netip.MustParseAddr("fe80::1"), ServerID: "00030001020000000001", Domain: []string{"example.net"},
			Obtained: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Boot: "a boot", Up: time.Minute, T1: time.Minute, T2: 2 * time.Minute,
		}},
		WANs: map[string]Lease4{"fiber": {
			Addr: netip.MustParsePrefix("198.51.100.10/24"), Server: netip.MustParseAddr("198.51.100.1"),
			Routes: []Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("198.51.100.1")}},
			DNS:    []netip.Addr{netip.MustParseAddr("9.9.9.9")}, MTU: 1492,
			Obtained: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Duration: time.Hour, T1: time.Minute, T2: 2 * time.Minute,
		}},
	}
	l := k.WANs["fiber"]
	l6 := k.WANs6["fiber"]
	items := []Item{KeepWAN6("fiber", &l6), KeepLAN("home", 0), KeepLAN("guest", 1), KeepDUID(k.DUID), KeepTold("home", k.Told["home"]), KeepULA(k.ULA), KeepIndex("fiber", 1), KeepIndex("lte", 2), KeepWAN("fiber", &l), KeepChoice(&k.Choice)}
	for i := range 50 {
		k.Leases = append(k.Leases, lease(i))
		items = append(items, KeepLease(lease(i)))
	}
	return k, items
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	s := open(t, dir)
	want, items := house()
	gone := lease(200)
	if err := s.Put(KeepLease(gone)); err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if err := s.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(ForgetLease(gone.LAN, gone.Addr), KeepWAN("lte", &Lease4{}), KeepWAN("lte", nil),
		KeepWAN6("lte", &Lease6{}), KeepWAN6("lte", nil), KeepTold("guest", want.Told["home"]), KeepTold("guest", nil)); err != nil {
		t.Fatal(err)
	}
	check := func(what string, got Kept) {
		t.Helper()
		if diff := cmp.Diff(want, got, compare); diff != "" {
			t.Errorf("%s: -want +got\n%s", what, diff)
		}
	}
	check("at once", s.Kept())
	read, said, err := Read(dir)
	if err != nil || len(said) > 0 {
		t.Errorf("Read beside an open store: %q, %v", said, err)
	}
	check("read by another", read)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "another weir is using it") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Put(KeepULA(want.ULA)); err == nil {
		t.Error("Put after Close returned nil")
	}
	s = open(t, dir)
	check("opened again", s.Kept())
	if d := s.Damage(); d != nil {
		t.Errorf("damage of a whole store: %q", d)
	}
}

// The log is rewritten long before it is large.
func TestStoreStaysSmall(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	l := lease(1)
	for n := range 3 * slack / 100 {
		var items []Item
		for i := range 100 {
			l.Up = time.Duration(100*n + i)
			items = append(items, KeepLease(l))
		}
		if err := s.Put(items...); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	c := parseLog(b)
	if c.count > slack+200 || c.damaged+c.torn > 0 || c.missing > 0 {
		t.Errorf("%d records in the log: %+v", c.count, c)
	}
	if k := s.Kept(); len(k.Leases) != 1 || k.Leases[0].Up != l.Up {
		t.Errorf("kept %+v, want the last one", k)
	}
}

func TestPutsAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			if err := s.Put(KeepLease(lease(i))); err != nil {
				t.Error(err)
			}
			s.Kept()
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if k, said, err := Read(dir); len(k.Leases) != 100 || said != nil || err != nil {
		t.Errorf("%d leases, %q, %v", len(k.Leases), said, err)
	}
}

// written is how many leases writer goes round.
const written = 150

// writer stores leases and says of each that it was told it is on disk: its number,
// which counts on from what is stored. The layer below may make a mistake.
func writer(dir string, mistakes ...string) {
	disk := durable.Machine
	for _, m := range mistakes {
		disk = durable.On(durabletest.Mistakes[m](durable.System{}))
	}
	s, err := OpenOn(disk, dir)
	if err != nil {
		panic(err)
	}
	first := 0
	for _, l := range s.Kept().Leases {
		first = max(first, int(l.Up)+1)
	}
	for i := first; ; i++ {
		l := lease(i % written)
		l.Up = time.Duration(i)
		if err := s.Put(KeepLease(l)); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(strconv.Itoa(i) + "\n")
	}
}

// look says what a store lacks of the leases up to the one with that number: 1, or 0
// if it lacks nothing.
func look(dir, last string) int {
	n, err := strconv.Atoi(last)
	if err != nil {
		panic(err)
	}
	s, err := Open(dir)
	if err != nil {
		fmt.Println("it does not open:", err)
		return 1
	}
	defer s.Close()
	has := map[netip.Addr]int{}
	for _, l := range s.Kept().Leases {
		has[l.Addr] = int(l.Up)
	}
	lost := 0
	for i := max(0, n-written+1); i <= n; i++ {
		if got, ok := has[lease(i%written).Addr]; !ok || got < i {
			lost++
		}
	}
	fmt.Printf("%d of the last %d leases up to number %d are lost; said: %q\n", lost, min(written, n+1), n, s.Damage())
	for _, d := range s.Damage() {
		if !strings.Contains(d, "unfinished record") {
			return 1 // a power cut damages nothing
		}
	}
	return min(lost, 1)
}

// TestKilledWhileWriting: what was said to be kept is there after kill -9.
func TestKilledWhileWriting(t *testing.T) {
	netnstest.Need(t) // where the test binary can't be run again there is nobody to kill
	for round := range 5 {
		dir := t.TempDir()
		cmd := exec.Command("/proc/self/exe", "write", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said []byte
		b := make([]byte, 64)
		for bytes.Count(said, []byte("\n")) < 20+37*round {
			n, err := out.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, b[:n]...)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		s := open(t, dir)
		want := min(bytes.Count(said, []byte("\n")), 150)
		if got := len(s.Kept().Leases); got < want {
			t.Errorf("%d leases are there, %d were said to be", got, want)
		}
	}
}

// TestFullDisk: errors, on in memory, and by itself all of it on disk once there is room.
func TestFullDisk(t *testing.T) {
	netnstest.Need(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		netnstest.Missing(t, "tmpfs", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	s := open(t, dir)
	s.again = 20 * time.Millisecond
	said := make(chan error, 10)
	s.Watch(func(err error) { said <- err })
	if err := s.Put(KeepLease(lease(0))); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk can't be filled: %v", err)
	}
	failed := 0
	for i := range 100 { // more than the file's last page has room for
		if err := s.Put(KeepLease(lease(i))); err != nil {
			failed++
			if !errors.Is(err, unix.ENOSPC) || !errors.Is(err, ErrHeld) {
				t.Errorf("lease %d: %v, want ENOSPC", i, err)
			}
		} else if failed > 0 {
			t.Errorf("lease %d is said to be stored", i)
		}
	}
	if err := <-said; failed < 50 || !errors.Is(s.Err(), unix.ENOSPC) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%d errors, now %v, and told %v", failed, s.Err(), err)
	}
	if n := len(s.Kept().Leases); n != 100 {
		t.Errorf("%d leases in memory, want 100", n)
	}
	if _, said, err := Read(dir); err != nil || strings.Contains(strings.Join(said, ""), "damaged") {
		t.Errorf("the log on the full disk: %q, %v", said, err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-said:
		if err != nil || s.Err() != nil {
			t.Errorf("with room again: %v, %v", err, s.Err())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("with room again nothing is written")
	}
	if k, said, err := Read(dir); len(k.Leases) != 100 || said != nil || err != nil {
		t.Errorf("%d leases on disk, %q, %v", len(k.Leases), said, err)
	}
}

func BenchmarkPut(b *testing.B) {
	s, err := Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			l := lease(i % 150)
			l.Up = time.Duration(i)
			if err := s.Put(KeepLease(l)); err != nil {
				b.Error(err)
			}
		}
	})
}
