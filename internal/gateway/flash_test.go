package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/dhcpd"
	"weir/internal/durable/durabletest"
	"weir/internal/ether"
	"weir/internal/state"
)

// TestWritesOfAQuietDay counts what a house of 30 clients writes in a day in which
// nothing happens: clients renew their leases at T1 of 12 h, two lines theirs of 2 h
// and a delegated prefix, and the time is stored. Time is the test's.
func TestWritesOfAQuietDay(t *testing.T) {
	const clients, day = 30, 24 * time.Hour
	dir := t.TempDir()
	rec, err := durabletest.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	disk := rec.Disk()
	store, err := state.OpenOn(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	begin := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	clock := func(now time.Time) state.Clock {
		return state.Clock{Wall: now, Boot: "a boot", Up: time.Hour + now.Sub(begin)}
	}
	e := dhcpd.New(begin, clock(begin))
	mac := func(n int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(n)} }
	addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{172, 31, 0, byte(100 + n)}) }
	var leases []state.Lease
	for n := range clients {
		l := state.Lease{LAN: "home", Addr: addr(n), Client: fmt.Sprintf("01%x", []byte(mac(n))), MAC: mac(n).String(),
			Hostname: fmt.Sprintf("device-%d", n), Granted: begin, Duration: 12 * time.Hour, Boot: "a boot", Up: time.Hour}
		leases = append(leases, l)
		if err := store.Put(state.KeepLease(l)); err != nil {
			t.Fatal(err)
		}
	}
	e.Load(begin, leases)
	err = e.Configure(begin, dhcpd.Config{LANs: []dhcpd.LAN{{Name: "home", Link: "eth0", MAC: "02:00:00:00:00:ff", Address: netip.MustParsePrefix("172.31.0.1/24"),
		Pool: []dhcpd.Range{{From: addr(0), To: addr(clients)}}, Lease: 12 * time.Hour, Router: netip.MustParseAddr("172.31.0.1"), Domain: "local"}}})
	if err != nil {
		t.Fatal(err)
	}
	renew := func(now time.Time, n int) {
		p, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithHwAddr(mac(n)), dhcpv4.WithClientIP(addr(n).AsSlice()),
			dhcpv4.WithOption(dhcpv4.OptClientIdentifier(append([]byte{1}, mac(n)...))), dhcpv4.WithOption(dhcpv4.OptHostName(fmt.Sprintf("device-%d", n))))
		if err != nil {
			t.Fatal(err)
		}
		out := e.Handle(now, "home", p, ether.MAC(mac(n)), true)
		if len(out.Replies) != 1 || out.Replies[0].Packet.MessageType() != dhcpv4.MessageTypeAck {
			t.Fatalf("at %v device %d is answered %+v", now, n, out)
		}
		var items []state.Item
		for _, l := range out.Keep {
			items = append(items, state.KeepLease(l))
		}
		if k := out.Replies[0].Keep; k != nil {
			items = append(items, state.KeepLease(*k))
			defer e.Kept(*k)
		}
		if len(items) > 0 {
			if err := store.Put(items...); err != nil {
				t.Fatal(err)
			}
		}
	}
	line := func(now time.Time, name string) {
		l := state.Lease4{Addr: netip.MustParsePrefix("198.51.100.10/24"), Server: netip.MustParseAddr("198.51.100.1"),
			Routes:   []state.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("198.51.100.1")}},
			Obtained: now, Duration: 2 * time.Hour, T1: time.Hour, T2: 105 * time.Minute, Boot: "a boot", Up: clock(now).Up}
		l6 := state.Lease6{Prefix: []state.Leased6{{Prefix: netip.MustParsePrefix("2001:db8:1::/56"), Preferred: 2 * time.Hour, Valid: 2 * time.Hour}},
			Server: netip.MustParseAddr("fe80::1"), Obtained: now, T1: time.Hour, T2: 96 * time.Minute, Boot: "a boot", Up: clock(now).Up}
		for _, i := range []state.Item{state.KeepWAN(name, &l), state.KeepWAN6(name, &l6)} {
			if err := store.Put(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The first day is not counted.
	var syncs, bytes int
	for now := begin; now.Before(begin.Add(2 * day)); now = now.Add(time.Minute) {
		since := now.Sub(begin)
		if since == day {
			syncs, bytes = rec.Count()
		}
		for n := range clients {
			if (since+time.Duration(n)*7*time.Minute)%(6*time.Hour) == 0 {
				renew(now, n)
			}
		}
		if since%time.Hour == 0 {
			line(now, "fiber")
			line(now, "lte")
		}
		if since%storeTimeEvery == 0 {
			if err := disk.Keep(filepath.Join(dir, timeFile), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, b := rec.Count()
	syncs, bytes = s-syncs, b-bytes
	t.Logf("a day: the disk is waited for %d times, %d kB are written", syncs, bytes/1000)
	if syncs > 300 || bytes > 150_000 {
		t.Error("that is too much for flash")
	}
	if syncs < 4*clients {
		t.Error("clients' renewals are not among them")
	}
}
