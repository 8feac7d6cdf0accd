package dhcpd_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"

	"weir/internal/dhcpd"
	"weir/internal/ether"
)

const floodRate = 3000 // messages a second, each in the name of a new MAC

// A flood of messages of all kinds, each from a client that nobody knows: those
// who have a lease keep it and are answered at once, the server does not grow,
// and a newcomer gets an address when it is over.
func TestFloodOnTheWire(t *testing.T) {
	t.Parallel()
	lasts := 4 * time.Second
	if os.Getenv("WEIR_LONG") != "" {
		lasts = time.Minute
	}
	l := newLab(t, func(lan *dhcpd.LAN) { lan.BOOTP = true })
	l.start()
	l.running()
	w, bad := l.wire(), l.wire()
	mac := func(n int) ether.MAC { return ether.MAC{2, 0, 0, 3, 0, byte(n)} }
	var addr [20]net.IP
	for n := range addr {
		addr[n] = lease(t, w, mac(n))
	}
	before := l.memory()

	flooded := make(chan error, 1)
	go func() { flooded <- bad.flood(lasts) }()
	var slowest time.Duration
	asked := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); asked++ {
		n := asked % len(addr)
		from := time.Now()
		a := w.ask(900*time.Millisecond, mac(n), dhcpv4.MessageTypeRequest, func(p *dhcpv4.DHCPv4) { p.ClientIPAddr = addr[n] })
		if a == nil || a.MessageType() != dhcpv4.MessageTypeAck || !a.YourIPAddr.Equal(addr[n]) {
			t.Fatalf("client %d renews %s in the flood: %v", n, addr[n], a)
		}
		slowest = max(slowest, time.Since(from))
		time.Sleep(5 * time.Millisecond) // that many clients there are
	}
	if err := <-flooded; err != nil {
		t.Fatal(err)
	}
	after := l.memory()
	t.Logf("%d renewals in a flood of %d a second, the slowest took %v; the server has %d kB, before %d", asked, floodRate, slowest, after, before)
	if after > 64<<10 {
		t.Errorf("the server has grown to %d kB", after)
	}
	if s := l.child.State(); s.Restarts != 0 {
		t.Errorf("the server was started again: %+v", s)
	}
	// Offers that nobody took end by and by.
	if o := w.ask(40*time.Second, mac(99), dhcpv4.MessageTypeDiscover, nil); o == nil || w.take(10*time.Second, mac(99), o) == nil {
		t.Errorf("a newcomer after the flood: %v", o)
	}
}

// lease gets a client an address.
func lease(t *testing.T, w *wire, mac ether.MAC) net.IP {
	t.Helper()
	o := w.ask(10*time.Second, mac, dhcpv4.MessageTypeDiscover, nil)
	if o == nil {
		t.Fatalf("%s: no offer", mac)
	}
	a := w.take(10*time.Second, mac, o)
	if a == nil || a.MessageType() != dhcpv4.MessageTypeAck {
		t.Fatalf("%s: %v", mac, a)
	}
	return a.YourIPAddr
}

// memory is what the server has in memory, in kB.
func (l *lab) memory() int {
	l.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", l.child.State().PID))
	if err != nil {
		l.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(b, []byte("VmRSS:"))
	n, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// flood sends floodRate messages a second.
func (w *wire) flood(lasts time.Duration) error {
	began := time.Now()
	for n := 0; n < int(lasts.Seconds()*floodRate); n++ {
		if early := time.Duration(n)*time.Second/floodRate - time.Since(began); early > 0 {
			time.Sleep(early)
		}
		mac := ether.MAC{6, 0, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(mac[2:], uint32(n))
		u := ether.UDP{
			SrcMAC: mac, DstMAC: ether.Broadcast, Payload: floodMessage(n, mac),
			Src: netip.MustParseAddrPort("0.0.0.0:68"), Dst: netip.MustParseAddrPort("255.255.255.255:67"),
		}
		if err := w.conn.WriteNow(u.Frame()); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
	}
	return nil
}

// floodMessage is one of what a bad network or a bad neighbour sends.
func floodMessage(n int, mac ether.MAC) []byte {
	p := &dhcpv4.DHCPv4{OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, ClientHWAddr: mac[:], Options: dhcpv4.Options{}}
	addr := []byte{172, 31, 0, byte(n)}
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionRequestedIPAddress, addr))
	p.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, bytes.Repeat(mac[:], 40)))
	kinds := []dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest,
		dhcpv4.MessageTypeDecline, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeNone,
	}
	k := kinds[n%len(kinds)]
	switch k {
	case dhcpv4.MessageTypeNone: // BOOTP
		p.Options = dhcpv4.Options{}
	case dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeInform:
		p.ClientIPAddr = addr
		fallthrough
	default:
		p.UpdateOption(dhcpv4.OptMessageType(k))
	}
	b := p.ToBytes()
	if n%97 == 0 {
		b = b[:len(b)/2] // and what is cut off
	}
	return b
}
