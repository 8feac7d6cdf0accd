package dhcp4

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

// isp answers as a server does; its fields say how it misbehaves.
type isp struct {
	addr        string // offered; "" is 198.51.100.10
	silent      bool
	deafUnicast bool // answers broadcasts only (B14)
	nak         string
	nakTake     bool // offers, and then refuses
	noReboot    bool // silent on INIT-REBOOT: it doesn't know the address
	options     []dhcpv4.Option
}

func (i isp) answer(p *dhcpv4.DHCPv4, unicast bool) *dhcpv4.DHCPv4 {
	reboot := p.ServerIdentifier() == nil && p.ClientIPAddr == nil
	take := p.ServerIdentifier() != nil
	if i.silent || unicast && i.deafUnicast || p.MessageType() == dhcpv4.MessageTypeDecline ||
		i.noReboot && reboot && p.MessageType() == dhcpv4.MessageTypeRequest {
		return nil
	}
	a := ack(i.options...)
	a.TransactionID = p.TransactionID
	a.ClientHWAddr = p.ClientHWAddr
	if i.addr != "" {
		a.YourIPAddr = net.ParseIP(i.addr).To4()
	}
	switch {
	case p.MessageType() == dhcpv4.MessageTypeDiscover:
		a.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeOffer))
	case i.nak != "" && !take || i.nakTake && take:
		a = &dhcpv4.DHCPv4{
			OpCode: dhcpv4.OpcodeBootReply, TransactionID: p.TransactionID, ClientHWAddr: p.ClientHWAddr,
			Options: dhcpv4.OptionsFromList(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak), dhcpv4.OptServerIdentifier(net.IP{198, 51, 100, 1}), dhcpv4.OptMessage(i.nak)),
		}
	}
	return a
}

// sim runs an engine against an isp, and writes down what is sent and told.
type sim struct {
	t     *testing.T
	began time.Time
	now   time.Time
	e     *Engine
	isp   isp
	arp   *ether.ARP // what answers a probe
	lines []string
	lease *state.Lease4
}

func (s *sim) line(format string, a ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%9.3f ", s.now.Sub(s.began).Seconds())+fmt.Sprintf(format, a...))
}

func words(p *dhcpv4.DHCPv4) string {
	w := p.MessageType().String()
	if p.ClientIPAddr != nil {
		w += " ciaddr " + p.ClientIPAddr.String()
	}
	if a := p.RequestedIPAddress(); a != nil {
		w += " wants " + a.String()
	}
	if a := p.ServerIdentifier(); a != nil {
		w += " of " + a.String()
	}
	if p.IsBroadcast() {
		w += " broadcast"
	}
	return w
}

func (s *sim) do(o Out) {
	if o.Report != nil {
		lease := "nothing"
		if o.Report.Lease != nil {
			lease = o.Report.Lease.Addr.String()
		}
		if o.Report.Tries <= 1 {
			s.line("%s, holds %s: %s", o.Report.State, lease, o.Report.Event)
		}
		s.lease = o.Report.Lease
	}
	var reply *dhcpv4.DHCPv4
	if o.Broadcast != nil {
		src := ""
		if o.Source.IsValid() {
			src = " from " + o.Source.String()
		}
		s.line("> %s%s", words(o.Broadcast), src)
		reply = s.isp.answer(s.wire(o.Broadcast), false)
	}
	if o.Unicast != nil {
		s.line("> to %s from %s: %s", o.Server, o.From, words(o.Unicast))
		reply = s.isp.answer(s.wire(o.Unicast), true)
	}
	if o.Release != nil {
		s.line("> by %s to %s from %s: %s", o.Via, o.Server, o.From, words(s.wire(o.Release)))
	}
	if o.Probe.IsValid() {
		s.line("> who has %s", o.Probe)
		if s.arp != nil {
			s.do(s.e.Conflict(s.now, *s.arp))
		}
	}
	if reply != nil {
		s.line("< %s", reply.MessageType())
		s.do(s.e.Receive(s.now, s.wire(reply), ispMAC))
	}
}

// wire sends a message through its bytes.
func (s *sim) wire(p *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	b := p.ToBytes()
	if len(b) < 300 {
		s.t.Errorf("a message of %d bytes; BOOTP relays want 300", len(b))
	}
	p, err := decode(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if p.ClientIPAddr.IsUnspecified() {
		p.ClientIPAddr = nil
	}
	return p
}

// until runs to a time after the start.
func (s *sim) until(d time.Duration) {
	end := s.began.Add(d)
	for n := 0; ; n++ {
		next := s.e.Next()
		if next.After(end) {
			break
		}
		if n > 5000 {
			s.t.Fatal("the engine spins")
		}
		if next.After(s.now) {
			s.now = next
		}
		s.do(s.e.Tick(s.now))
	}
	s.now = end
}

func (s *sim) clear() { s.lines = nil }

func (s *sim) want(text string) {
	s.t.Helper()
	want := []string{}
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			want = append(want, l)
		}
	}
	got := make([]string, len(s.lines))
	for i, l := range s.lines {
		got[i] = strings.TrimSpace(l)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("-want +got\n%s\nall of it:\n%s", diff, strings.Join(s.lines, "\n"))
	}
}

func begin(t *testing.T, cfg Config, i isp) *sim {
	t.Helper()
	cfg.MAC = mac.String()
	s := &sim{t: t, began: time.Now(), isp: i}
	s.now = s.began
	var n uint32
	e, out, err := New(cfg, s.now, bootClock(s.now), func() uint32 { n++; return n * 0 }) // no jitter: an eighth less
	if err != nil {
		t.Fatal(err)
	}
	s.e = e
	s.do(out)
	return s
}

// bootClock is the machine's clock in these tests: a day after the boot.
func bootClock(now time.Time) state.Clock {
	return state.Clock{Wall: now.Round(0), Boot: "this", Up: 24 * time.Hour}
}

// sinceBoot is l, got so long ago in this boot, whatever the wall clock says.
func sinceBoot(l *state.Lease4, ago time.Duration) *state.Lease4 {
	l.Boot, l.Up = "this", 24*time.Hour-ago
	return l
}

// last is a lease got so long ago, by the wall clock of another boot.
func last(ago time.Duration) *state.Lease4 {
	l, err := leaseOf(ack(), ispMAC, time.Now().Round(0).Add(-ago), false)
	if err != nil {
		panic(err)
	}
	return &l
}
