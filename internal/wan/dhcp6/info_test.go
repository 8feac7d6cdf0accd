package dhcp6

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// stateless answers Information-requests, with a refresh time if it is above 0; what is
// asked for besides it has not.
func stateless(refresh uint32, more ...dhcpv6.Option) func(*dhcpv6.Message) *dhcpv6.Message {
	return func(q *dhcpv6.Message) *dhcpv6.Message {
		if q.MessageType != dhcpv6.MessageTypeInformationRequest {
			return reply(q, dhcpv6.MessageTypeAdvertise, 1, pd(0, 0, code(iana.StatusNoPrefixAvail)))
		}
		os := append([]dhcpv6.Option{
			dhcpv6.OptDNS(netip.MustParseAddr("2001:db8::53").AsSlice()),
			dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{"isp.example"}}),
		}, more...)
		if refresh > 0 {
			os = append(os, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionInformationRefreshTime, OptionData: binary.BigEndian.AppendUint32(nil, refresh)})
		}
		return reply(q, dhcpv6.MessageTypeReply, 1, os...)
	}
}

// times are when Information-requests were sent.
func (b *bench) times() (at []time.Duration) {
	for _, m := range b.sent {
		if m.m.MessageType == dhcpv6.MessageTypeInformationRequest {
			at = append(at, m.at)
		}
	}
	return at
}

func TestInformation(t *testing.T) {
	b := newBench(t, Config{Info: true}, stateless(0))
	b.run(time.Minute)
	b.want("information-request", "", Idle)
	want := Info{Server: fe1, DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Domain: []string{"isp.example"}}
	if got := b.report.Info; got == nil || got.Server != want.Server || !slices.Equal(got.DNS, want.DNS) || !slices.Equal(got.Domain, want.Domain) {
		t.Fatalf("told %+v, want %+v", b.report.Info, want)
	}
	m := b.sent[0].m
	if at := b.times()[0]; at < 0 || at > time.Second {
		t.Errorf("the first was sent after %v, within INF_MAX_DELAY is due", at)
	}
	if !m.IsOptionRequested(dhcpv6.OptionInformationRefreshTime) || !m.IsOptionRequested(dhcpv6.OptionInfMaxRT) || m.GetOneOption(dhcpv6.OptionServerID) != nil || m.GetOneOption(dhcpv6.OptionIANA) != nil {
		t.Errorf("an Information-request of RFC 8415, 18.2.6 has not this: %s", m.Summary())
	}
	b.run(25 * time.Hour) // IRT_DEFAULT is a day
	if at := b.times(); len(at) != 2 || at[1] < 20*time.Hour || at[1] > 25*time.Hour {
		t.Errorf("asked at %v, once a day is due", at)
	}
	// The carrier was away: at once, and what is known goes on meanwhile.
	b.sent, b.answer = nil, nil
	cfg := b.e.cfg
	cfg.Confirm++
	b.configure(cfg)
	b.run(2 * time.Second)
	if len(b.times()) == 0 || b.report.Info == nil {
		t.Errorf("asked %d times after the carrier was away; known is %+v", len(b.times()), b.report.Info)
	}
	cfg.Info = false
	b.configure(cfg)
	b.sent = nil
	b.run(48 * time.Hour)
	if b.report.Info != nil || len(b.sent) > 0 {
		t.Errorf("nobody wants to know, and it is asked %d times; told is %+v", len(b.sent), b.report.Info)
	}
}

// What the server says of times is kept to, within the RFC's bounds and ours.
func TestInformationRefresh(t *testing.T) {
	for _, tt := range []struct {
		says     uint32
		from, to time.Duration
	}{
		{3600, 54 * time.Minute, time.Hour + time.Second},
		{1, 9 * time.Minute, 10*time.Minute + time.Second}, // IRT_MINIMUM
		{0xffffffff, 6 * 24 * time.Hour, 7*24*time.Hour + time.Second},
	} {
		b := newBench(t, Config{Info: true}, stateless(tt.says))
		b.run(8 * 24 * time.Hour)
		if at := b.times(); len(at) < 2 || at[1]-at[0] < tt.from || at[1]-at[0] > tt.to {
			t.Errorf("told to ask again after %d s: %v", tt.says, at[:min(len(at), 3)])
		}
	}
}

// A silent server is asked less and less often, an hour apart at last, or as another
// has said.
func TestInformationSilence(t *testing.T) {
	b := newBench(t, Config{Info: true}, nil)
	b.run(12 * time.Hour)
	at := b.times()
	if n := len(at); n < 18 || n > 26 {
		t.Fatalf("asked %d times in 12 hours", n)
	}
	if gap := at[1] - at[0]; gap < 900*time.Millisecond || gap > 1100*time.Millisecond {
		t.Errorf("the second comes after %v", gap)
	}
	if gap := at[len(at)-1] - at[len(at)-2]; gap < 54*time.Minute || gap > 66*time.Minute {
		t.Errorf("at last each %v", gap)
	}
	b = newBench(t, Config{Info: true}, stateless(0, code(iana.StatusUnspecFail),
		&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionInfMaxRT, OptionData: binary.BigEndian.AppendUint32(nil, 120)}))
	b.run(12 * time.Hour)
	if at = b.times(); len(at) < 300 || b.report.Info != nil {
		t.Errorf("a server that fails, with INF_MAX_RT of 2 minutes: asked %d times, told %+v", len(at), b.report.Info)
	}
}

// Beside a server that has no prefix for the house its resolver is known; a lease that
// brings one ends the asking.
func TestInformationBesideALease(t *testing.T) {
	b := newBench(t, Config{Prefix: 56, Info: true}, stateless(0))
	b.run(time.Minute)
	if b.report.Info == nil || b.e.State() != Soliciting || len(b.times()) != 1 {
		t.Fatalf("%s, told %+v, asked at %v", b.e.State(), b.report.Info, b.times())
	}
	b.answer = isp(pd(0, 0, hourly), dhcpv6.OptDNS(netip.MustParseAddr("2001:db8::54").AsSlice()))
	b.run(2 * time.Hour)
	if b.report.Info != nil || b.held() != "2001:db8:1::/56" {
		t.Errorf("holds %q, and is told %+v besides", b.held(), b.report.Info)
	}
	b.sent = nil
	b.run(72 * time.Hour)
	if len(b.times()) > 0 {
		t.Errorf("with a lease it is asked at %v", b.times())
	}
}
