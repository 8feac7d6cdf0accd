package dhcp6

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

var (
	fe1, fe2 = netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// A server that wants to hear of us after the lease has ended, or never, is asked in time.
func TestTimesAfterTheEnd(t *testing.T) {
	for _, c := range []struct{ t1, t2, want1, want2 time.Duration }{
		{90 * time.Minute, 2 * time.Hour, 30 * time.Minute, 48 * time.Minute},
		{10 * time.Minute, 3 * time.Hour, 10 * time.Minute, 48 * time.Minute},
		{state.Forever, state.Forever, 30 * time.Minute, 48 * time.Minute},
		{70 * time.Minute, 110 * time.Minute, 70 * time.Minute, 110 * time.Minute}, // late, and still in time
	} {
		b := newBench(t, Config{Prefix: 56}, isp(pd(c.t1, c.t2, hourly)))
		b.run(3 * time.Second)
		if l := b.report.Lease; l == nil || l.T1 != c.want1 || l.T2 != c.want2 {
			t.Errorf("T1 %s, T2 %s became %+v", c.t1, c.t2, l)
		}
	}
}

func TestFourMessages(t *testing.T) {
	b := newBench(t, Config{Prefix: 56}, isp(pd(0, 0, hourly)))
	b.run(3 * time.Second)
	b.want("solicit request", "2001:db8:1::/56", Bound)
	s := b.sent[0].m
	if b.sent[0].at > solMaxDelay || b.sent[1].at-b.sent[0].at < time.Second || b.sent[1].at-b.sent[0].at > 1100*time.Millisecond {
		t.Errorf("solicit at %s, request at %s: RFC 8415, 18.2.1 wants up to a second, then a second to choose", b.sent[0].at, b.sent[1].at)
	}
	if s.GetOneOption(dhcpv6.OptionRapidCommit) == nil || !s.IsOptionRequested(dhcpv6.OptionSolMaxRT) || s.GetOneOption(dhcpv6.OptionIANA) != nil || s.GetOneOption(dhcpv6.OptionServerID) != nil {
		t.Errorf("the solicit is odd: %s", s.Summary())
	}
	if hint := s.Options.OneIAPD().Options.Prefixes(); len(hint) != 1 || hint[0].Prefix.String() != "::/56" {
		t.Errorf("hint %v", hint)
	}
	l := b.report.Lease
	if l.T1 != 30*time.Minute || l.T2 != 48*time.Minute || l.Boot != "this" || l.Up != time.Hour+b.sent[1].at {
		t.Errorf("T1 %s, T2 %s, up %s", l.T1, l.T2, l.Up)
	}
}

func TestRapidCommit(t *testing.T) {
	b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
		return reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), pd(0, 0, hourly))
	})
	b.run(time.Second)
	b.want("solicit", "2001:db8:1::/56", Bound)

	// A REPLY to a SOLICIT without the option is no answer (18.2.10).
	b = newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
		return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, hourly))
	})
	b.run(time.Second)
	b.want("solicit", "", Soliciting)

	// A server that drops what has the option gets a SOLICIT without it.
	b = newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
		if q.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
			return nil
		}
		return isp(pd(0, 0, hourly))(q)
	})
	b.run(20 * time.Second)
	b.want("solicit solicit solicit solicit request", "2001:db8:1::/56", Bound)
}

func TestSolicitBacksOff(t *testing.T) {
	b := newBench(t, Config{Prefix: 56}, nil)
	b.run(4 * time.Hour)
	var gaps []time.Duration
	for i := 1; i < len(b.sent); i++ {
		gaps = append(gaps, b.sent[i].at-b.sent[i-1].at)
	}
	if gaps[0] < time.Second {
		t.Errorf("the first wait is %s: RAND is above 0 there", gaps[0])
	}
	for i, g := range gaps {
		if g > solMaxRT*11/10 || i > 0 && gaps[i-1] < 20*time.Minute && (g < gaps[i-1]*18/10 || g > gaps[i-1]*22/10) {
			t.Errorf("waits %s then %s: RFC 8415, 15 doubles, give or take a tenth", gaps[max(0, i-1)], g)
		}
	}
	if gaps[len(gaps)-1] < solMaxRT*9/10 {
		t.Errorf("never less often than each %s", gaps[len(gaps)-1])
	}

	// Option 82 counts even where the message is ignored otherwise.
	b = newBench(t, Config{Prefix: 56}, isp(pd(0, 0, code(iana.StatusNoPrefixAvail)),
		&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionSolMaxRT, OptionData: []byte{0, 0, 0, 120}}))
	b.run(time.Hour)
	last := b.sent[len(b.sent)-1].at - b.sent[len(b.sent)-2].at
	if last > 132*time.Second || last < 108*time.Second {
		t.Errorf("SOL_MAX_RT of 120 s, and the wait is %s", last)
	}
	if !strings.Contains(b.report.Event, "offers nothing: NoPrefixAvail (because)") {
		t.Errorf("event %q", b.report.Event)
	}
}

func TestBestAdvertisement(t *testing.T) {
	b := newBench(t, Config{Prefix: 56, Address: true}, nil)
	b.run(solMaxDelay)
	q := b.sent[0].m
	offer := func(n, preference byte, os ...dhcpv6.Option) {
		b.receive(reply(q, dhcpv6.MessageTypeAdvertise, n, append(os, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionPreference, OptionData: []byte{preference}})...))
	}
	offer(1, 0, pd(0, 0, hourly))
	offer(2, 0, pd(0, 0, hourly), na(ialease{"2001:db8::7/128", time.Hour, time.Hour}))
	offer(3, 9, pd(0, 0, code(iana.StatusNoPrefixAvail)), na(code(iana.StatusNoAddrsAvail)))
	offer(4, 0, pd(0, 0, hourly))
	b.run(1200 * time.Millisecond)
	id := b.sent[1].m.GetOneOption(dhcpv6.OptionServerID).ToBytes()
	if !strings.HasPrefix(b.types(), "solicit request") || id[9] != 2 {
		t.Errorf("%s, to server %x: the one that gives all that is wanted is 2", b.types(), id)
	}
	b = newBench(t, Config{Prefix: 56}, nil)
	b.run(solMaxDelay)
	q = b.sent[0].m
	offer(5, 255, pd(0, 0, hourly))
	if b.types() != "solicit request" {
		t.Error("preference 255 is taken at once")
	}
}

func TestRenewRebindExpire(t *testing.T) {
	alive := true
	server := isp(pd(0, 0, hourly))
	b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
		if !alive {
			return nil
		}
		return server(q)
	})
	b.run(2 * time.Second)
	b.run(30 * time.Minute)
	b.want("solicit request renew", "2001:db8:1::/56", Bound)
	if r := b.sent[2].m; r.GetOneOption(dhcpv6.OptionServerID) == nil || len(r.Options.OneIAPD().Options.Prefixes()) != 1 {
		t.Error("a renewal names its server and its prefix")
	}
	alive = false
	b.sent = nil
	b.run(95 * time.Minute)
	if b.e.State() != Rebinding || b.held() == "" {
		t.Fatalf("%s, holds %q: want rebinding with the prefix held", b.e.State(), b.held())
	}
	for _, m := range b.sent {
		if m.m.MessageType == dhcpv6.MessageTypeRebind && m.m.GetOneOption(dhcpv6.OptionServerID) != nil {
			t.Error("a REBIND is for any server")
		}
	}
	b.run(30 * time.Minute)
	if b.e.State() != Soliciting || b.held() != "" {
		t.Errorf("%s, holds %q after the valid lifetime", b.e.State(), b.held())
	}
	if hint := b.sent[len(b.sent)-1].m.Options.OneIAPD().Options.Prefixes(); len(hint) != 1 || hint[0].Prefix.String() != "2001:db8:1::/56" {
		t.Errorf("the prefix of before is not asked for: %v", hint)
	}
	alive = true
	b.run(time.Hour)
	if b.held() != "2001:db8:1::/56" {
		t.Errorf("holds %q when the server is back", b.held())
	}
}

// What a server may say at T1 (complaint B19).
func TestAtT1(t *testing.T) {
	fresh := ialease{"2001:db8:2::/56", time.Hour, 2 * time.Hour}
	for _, tt := range []struct {
		name   string
		answer func(*dhcpv6.Message) *dhcpv6.Message
		types  string
		held   string
		state  State
		within time.Duration
	}{
		{"a: NoBinding, and a new prefix on request", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType == dhcpv6.MessageTypeRenew {
				return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, code(iana.StatusNoBinding)))
			}
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, fresh))
		}, "renew request", "2001:db8:2::/56", Bound, 0},
		{"a: NoBinding, and nothing on request", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType == dhcpv6.MessageTypeRenew {
				return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, code(iana.StatusNoBinding)))
			}
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, code(iana.StatusNoPrefixAvail)))
		}, "renew request", "", Soliciting, 0},
		{"b: the old one ends, a new one is there", func(q *dhcpv6.Message) *dhcpv6.Message {
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, ialease{hourly.prefix, 0, 0}, fresh))
		}, "renew", "2001:db8:2::/56", Bound, 0},
		{"b: a new one, and no word of the old", func(q *dhcpv6.Message) *dhcpv6.Message {
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, fresh))
		}, "renew", "2001:db8:2::/56 2001:db8:1::/56", Bound, 0},
		{"c: NoPrefixAvail", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType == dhcpv6.MessageTypeSolicit {
				return reply(q, dhcpv6.MessageTypeAdvertise, 1, pd(0, 0, code(iana.StatusNoPrefixAvail)))
			}
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, code(iana.StatusNoPrefixAvail)))
		}, "renew solicit", "", Soliciting, 11 * time.Second},
		{"it only ends", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType != dhcpv6.MessageTypeRenew {
				return nil
			}
			return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, ialease{hourly.prefix, 0, 0}))
		}, "renew", "", Soliciting, 0},
		{"d: silence, then another server", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType != dhcpv6.MessageTypeRebind {
				return nil
			}
			return reply(q, dhcpv6.MessageTypeReply, 9, pd(0, 0, hourly))
		}, "renew renew renew renew renew renew renew renew rebind", "2001:db8:1::/56", Bound, 19 * time.Minute},
		{"d: silence, then another server that has nothing", func(q *dhcpv6.Message) *dhcpv6.Message {
			if q.MessageType != dhcpv6.MessageTypeRebind {
				return nil
			}
			return reply(q, dhcpv6.MessageTypeReply, 9, pd(0, 0, code(iana.StatusNoPrefixAvail)))
		}, "renew renew renew renew renew renew renew renew rebind rebind rebind", "2001:db8:1::/56", Rebinding, 19 * time.Minute},
		{"UnspecFail is silence", func(q *dhcpv6.Message) *dhcpv6.Message {
			return reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusUnspecFail))
		}, "renew renew", "2001:db8:1::/56", Renewing, 12 * time.Second},
		{"with someone else's IAID", func(q *dhcpv6.Message) *dhcpv6.Message {
			o := pd(0, 0, fresh).(*dhcpv6.OptIAPD)
			o.IaId[3]++
			return reply(q, dhcpv6.MessageTypeReply, 1, o)
		}, "renew", "2001:db8:1::/56", Renewing, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Prefix: 56}, isp(pd(0, 0, hourly)))
			b.run(3 * time.Second)
			b.answer, b.sent = tt.answer, nil
			b.run(b.e.Next().Sub(b.now) + tt.within)
			b.want(tt.types, tt.held, tt.state)
		})
	}
}

func TestRequestFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply []dhcpv6.Option
		types string
	}{
		{"silence", nil, "solicit request request request request request request request request request request solicit"},
		{"NotOnLink", []dhcpv6.Option{code(iana.StatusNotOnLink)}, "solicit request solicit"},
		{"NoPrefixAvail", []dhcpv6.Option{pd(0, 0, code(iana.StatusNoPrefixAvail))}, "solicit request"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			solicits := 0
			b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
				switch {
				case q.MessageType == dhcpv6.MessageTypeSolicit:
					if solicits++; solicits > 1 {
						return nil
					}
					return reply(q, dhcpv6.MessageTypeAdvertise, 1, pd(0, 0, hourly))
				case tt.reply == nil:
					return nil
				}
				return reply(q, dhcpv6.MessageTypeReply, 1, tt.reply...)
			})
			for range 200 {
				if strings.HasSuffix(b.types(), "request solicit") || b.now.Sub(start) > 5*time.Second && tt.reply != nil {
					break
				}
				b.run(time.Second)
			}
			b.want(tt.types, "", Soliciting)
		})
	}
}

func TestRestart(t *testing.T) {
	last := func(age time.Duration) *state.Lease6 {
		return &state.Lease6{
			Prefix: []state.Leased6{{Prefix: netip.MustParsePrefix("2001:db8:1::/56"), Preferred: time.Hour, Valid: 2 * time.Hour}},
			Server: fe1, ServerID: "00030001020000000001", Obtained: start.Add(-age), Boot: "before", T1: 30 * time.Minute, T2: 48 * time.Minute,
		}
	}
	b := newBench(t, Config{Prefix: 56, Last: last(10 * time.Minute)}, isp(pd(0, 0, hourly)))
	if b.held() != "2001:db8:1::/56" {
		t.Errorf("holds %q before anybody was asked", b.held())
	}
	b.run(2 * time.Second)
	b.want("rebind", "2001:db8:1::/56", Bound)

	// Nobody answers: after ten seconds anybody is looked for, then it goes on.
	b = newBench(t, Config{Prefix: 56, Last: last(10 * time.Minute)}, nil)
	b.run(19 * time.Minute)
	if b.held() != "2001:db8:1::/56" || b.e.State() != Bound {
		t.Errorf("%s, holds %q", b.e.State(), b.held())
	}
	b.run(90 * time.Minute)
	b.run(time.Minute)
	if b.held() != "" {
		t.Errorf("holds %q after the end of what was never confirmed", b.held())
	}

	// Over: not held, but hoped for.
	b = newBench(t, Config{Prefix: 56, Last: last(3 * time.Hour)}, nil)
	b.run(2 * time.Second)
	if hint := b.sent[0].m.Options.OneIAPD().Options.Prefixes(); b.held() != "" || len(hint) != 1 || hint[0].Prefix.String() != "2001:db8:1::/56" {
		t.Errorf("holds %q, hint %v", b.held(), hint)
	}

	// A clock that went back knows nothing: it is not used until its server said yes.
	b = newBench(t, Config{Prefix: 56, Last: last(-50 * 365 * 24 * time.Hour)}, nil)
	b.run(2 * time.Second)
	if hint := b.sent[0].m.Options.OneIAPD().Options.Prefixes(); b.held() != "" || len(hint) != 1 || hint[0].Prefix.String() != "2001:db8:1::/56" {
		t.Errorf("with a clock in the past: holds %q, hint %v", b.held(), hint)
	}
	b.answer = isp(pd(0, 0, hourly))
	b.run(10 * time.Second)
	if b.held() != "2001:db8:1::/56" {
		t.Errorf("holds %q after its server said yes", b.held())
	}

	// Another server offers something and then falls silent: what is held goes on.
	b = newBench(t, Config{Prefix: 56, Last: last(10 * time.Minute)}, func(q *dhcpv6.Message) *dhcpv6.Message {
		if q.MessageType != dhcpv6.MessageTypeSolicit {
			return nil
		}
		return reply(q, dhcpv6.MessageTypeAdvertise, 2, pd(0, 0, ialease{"2001:db8:9::/56", time.Hour, time.Hour}))
	})
	b.run(15 * time.Minute)
	if !strings.Contains(b.types(), strings.Repeat("request ", 10)+"solicit") || b.held() != "2001:db8:1::/56" {
		t.Errorf("holds %q after %s", b.held(), b.types())
	}

	// The carrier was away, and the ISP has another prefix now.
	b = newBench(t, Config{Prefix: 56}, isp(pd(0, 0, hourly)))
	b.run(3 * time.Second)
	b.answer, b.sent = func(q *dhcpv6.Message) *dhcpv6.Message {
		return reply(q, dhcpv6.MessageTypeReply, 1, pd(0, 0, ialease{hourly.prefix, 0, 0}, ialease{"2001:db8:2::/56", time.Hour, time.Hour}))
	}, nil
	cfg := b.e.cfg
	cfg.Confirm++
	out, err := b.e.Configure(cfg, b.now)
	if err != nil {
		t.Fatal(err)
	}
	b.do(out)
	b.run(cnfMaxDelay)
	b.want("rebind", "2001:db8:2::/56", Bound)
}

func TestAddress(t *testing.T) {
	addr := ialease{"2001:db8::7/128", time.Hour, 2 * time.Hour}
	b := newBench(t, Config{Address: true}, isp(na(addr)))
	b.run(3 * time.Second)
	b.want("solicit request", "2001:db8::7/128", Bound)
	confirm := func() {
		cfg := b.e.cfg
		cfg.Confirm++
		out, err := b.e.Configure(cfg, b.now)
		if err != nil {
			t.Fatal(err)
		}
		b.do(out)
		b.run(cnfMaxDelay)
	}
	b.sent, b.answer = nil, func(q *dhcpv6.Message) *dhcpv6.Message {
		return reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusSuccess))
	}
	confirm()
	b.want("confirm", "2001:db8::7/128", Bound)
	b.sent, b.answer = nil, func(q *dhcpv6.Message) *dhcpv6.Message {
		return reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusNotOnLink))
	}
	confirm()
	if b.types() != "confirm solicit" || b.held() != "" {
		t.Errorf("%s, holds %q after NotOnLink", b.types(), b.held())
	}
	// Prefix only where both are wanted: taken, and the address asked for again.
	b = newBench(t, Config{Address: true, Prefix: 56}, isp(pd(0, 0, hourly), na(code(iana.StatusNoAddrsAvail))))
	b.run(3 * time.Second)
	b.want("solicit request", "2001:db8:1::/56", Bound)
	b.run(31 * time.Minute)
	if r := b.sent[len(b.sent)-1].m; r.MessageType != dhcpv6.MessageTypeRenew || r.Options.OneIANA() == nil {
		t.Error("a renewal asks for the address that is missing")
	}
}
