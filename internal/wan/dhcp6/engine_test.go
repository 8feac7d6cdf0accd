package dhcp6

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

const testDUID = "0004000102030405060708090a0b0c0d0e0f"

var (
	fe1, fe2 = netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// bench runs an engine by a clock of its own, beside servers that a test writes.
type bench struct {
	t      *testing.T
	e      *Engine
	now    time.Time
	rand   uint32
	sent   []sent
	report Report
	events []string

	// answer is asked for each message; nil: silence.
	answer func(m *dhcpv6.Message) *dhcpv6.Message
}

type sent struct {
	at time.Duration // since start
	m  *dhcpv6.Message
}

func newBench(t *testing.T, cfg Config, answer func(*dhcpv6.Message) *dhcpv6.Message) *bench {
	t.Helper()
	b := &bench{t: t, now: start, answer: answer}
	if cfg.DUID == "" {
		cfg.DUID, cfg.IAID = testDUID, 7
	}
	e, out, err := New(cfg, b.now, state.Clock{Wall: start, Boot: "this", Up: time.Hour}, func() uint32 { b.rand += 0x9e3779b9; return b.rand })
	if err != nil {
		t.Fatal(err)
	}
	b.e = e
	b.do(out)
	return b
}

func (b *bench) do(out Out) {
	if out.Report != nil {
		b.report = *out.Report
		if n := len(b.events); n == 0 || b.events[n-1] != out.Report.Event {
			b.events = append(b.events, out.Report.Event)
		}
	}
	if out.Send == nil {
		return
	}
	// What is sent must be readable by others.
	if _, err := dhcpv6.FromBytes(out.Send.ToBytes()); err != nil {
		b.t.Fatalf("sent what nobody can read: %v", err)
	}
	b.sent = append(b.sent, sent{b.now.Sub(start), out.Send})
	if b.answer == nil {
		return
	}
	if r := b.answer(out.Send); r != nil {
		b.receive(r)
	}
}

func (b *bench) receive(r *dhcpv6.Message) {
	m, err := decode(r.ToBytes())
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(b.e.Receive(b.now, m, fe1))
}

// run lets time pass.
func (b *bench) run(d time.Duration) {
	b.t.Helper()
	end := b.now.Add(d)
	for range 100000 {
		n := b.e.Next()
		if n.After(end) {
			b.now = end
			return
		}
		if n.After(b.now) {
			b.now = n
		}
		b.do(b.e.Tick(b.now))
	}
	b.t.Fatal("the engine never rests")
}

func (b *bench) types() string {
	var s []string
	for _, m := range b.sent {
		s = append(s, strings.ToLower(m.m.MessageType.String()))
	}
	return strings.Join(s, " ")
}

func (b *bench) held() string {
	if b.report.Lease == nil {
		return ""
	}
	var s []string
	for _, p := range slices.Concat(b.report.Lease.Prefix, b.report.Lease.Addr) {
		s = append(s, p.Prefix.String())
	}
	return strings.Join(s, " ")
}

func (b *bench) want(types, held string, st State) {
	b.t.Helper()
	if got := b.types(); got != types || b.held() != held || b.e.State() != st {
		b.t.Errorf("sent %q, holds %q, %s; want %q, %q, %s\n%s", got, b.held(), b.e.State(), types, held, st, strings.Join(b.events, "\n"))
	}
}

type ialease struct {
	prefix           string
	preferred, valid time.Duration
}

// reply answers q with a message of server n's, and options.
func reply(q *dhcpv6.Message, t dhcpv6.MessageType, n byte, options ...dhcpv6.Option) *dhcpv6.Message {
	r := &dhcpv6.Message{MessageType: t, TransactionID: q.TransactionID}
	r.AddOption(q.GetOneOption(dhcpv6.OptionClientID))
	r.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, n}})
	for _, o := range options {
		r.AddOption(o)
	}
	return r
}

func code(c iana.StatusCode) dhcpv6.Option {
	return &dhcpv6.OptStatusCode{StatusCode: c, StatusMessage: "because"}
}

func pd(t1, t2 time.Duration, ps ...any) dhcpv6.Option {
	o := &dhcpv6.OptIAPD{IaId: [4]byte{0, 0, 0, 7}, T1: t1, T2: t2}
	for _, p := range ps {
		switch p := p.(type) {
		case ialease:
			o.Options.Add(&dhcpv6.OptIAPrefix{Prefix: ipNet(netip.MustParsePrefix(p.prefix)), PreferredLifetime: p.preferred, ValidLifetime: p.valid})
		case dhcpv6.Option:
			o.Options.Add(p)
		}
	}
	return o
}

func na(ps ...any) dhcpv6.Option {
	o := &dhcpv6.OptIANA{IaId: [4]byte{0, 0, 0, 7}}
	for _, p := range ps {
		switch p := p.(type) {
		case ialease:
			o.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: netip.MustParsePrefix(p.prefix).Addr().AsSlice(), PreferredLifetime: p.preferred, ValidLifetime: p.valid})
		case dhcpv6.Option:
			o.Options.Add(p)
		}
	}
	return o
}

func rapidCommit() dhcpv6.Option {
	return &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}
}

var hourly = ialease{"2001:db8:1::/56", time.Hour, 2 * time.Hour}

// isp answers as an ordinary server that gives what.
func isp(what ...dhcpv6.Option) func(*dhcpv6.Message) *dhcpv6.Message {
	return func(q *dhcpv6.Message) *dhcpv6.Message {
		if q.MessageType == dhcpv6.MessageTypeSolicit {
			return reply(q, dhcpv6.MessageTypeAdvertise, 1, what...)
		}
		return reply(q, dhcpv6.MessageTypeReply, 1, what...)
	}
}

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

func TestRelease(t *testing.T) {
	b := newBench(t, Config{Prefix: 56}, isp(pd(0, 0, hourly)))
	b.run(3 * time.Second)
	b.sent, b.answer = nil, nil
	cfg := b.e.cfg
	cfg.Release = true
	out, err := b.e.Configure(cfg, b.now)
	if err != nil {
		t.Fatal(err)
	}
	b.do(out)
	b.run(time.Minute)
	b.want("release release release release", "", Idle)
	if !b.report.Released {
		t.Error("nobody is told that it is released")
	}
	if m := b.sent[0].m; m.GetOneOption(dhcpv6.OptionServerID) == nil || len(m.Options.OneIAPD().Options.Prefixes()) != 1 {
		t.Error("a RELEASE names the server and the prefix")
	}
}

// Strangers' messages change nothing.
func TestStrangers(t *testing.T) {
	for name, spoil := range map[string]func(*dhcpv6.Message){
		"transaction": func(m *dhcpv6.Message) { m.TransactionID[0]++ },
		"client":      func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionClientID) },
		"server":      func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionServerID) },
		"two servers": func(m *dhcpv6.Message) { m.AddOption(m.GetOneOption(dhcpv6.OptionServerID)) },
	} {
		b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
			m := reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), pd(0, 0, hourly))
			spoil(m)
			return m
		})
		b.run(time.Second)
		if b.held() != "" {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := decode([]byte{byte(dhcpv6.MessageTypeReconfigure), 1, 2, 3}); err == nil {
		t.Error("a RECONFIGURE is read")
	}
}

func TestOddLeases(t *testing.T) {
	for _, tt := range []struct {
		name string
		ia   dhcpv6.Option
		held string
		note string
	}{
		{"preferred beyond valid", pd(0, 0, ialease{"2001:db8:1::/56", 2 * time.Hour, time.Hour}), "", ""},
		{"T1 after T2", pd(time.Hour, time.Minute, hourly), "", ""},
		{"a /48", pd(0, 0, ialease{"2001:db8::/48", time.Hour, time.Hour}), "2001:db8::/48", ""},
		{"a /60", pd(0, 0, ialease{"2001:db8::/60", time.Hour, time.Hour}), "2001:db8::/60", "a /56 was asked for"},
		{"a /72", pd(0, 0, ialease{"2001:db8::/72", time.Hour, time.Hour}), "2001:db8::/72", "too long"},
		{"everything", pd(0, 0, ialease{"::/0", time.Hour, time.Hour}), "", ""},
		{"half of Europe", pd(0, 0, ialease{"2a00::/8", time.Hour, time.Hour}), "", ""},
		{"all of unique local", pd(0, 0, ialease{"fd00::/8", time.Hour, time.Hour}), "", ""},
		{"an ISP's own", pd(0, 0, ialease{"2001:db8::/32", time.Hour, time.Hour}), "2001:db8::/32", ""},
		{"multicast", pd(0, 0, ialease{"ff00::/56", time.Hour, time.Hour}), "", ""},
		{"link-local", pd(0, 0, ialease{"fe80::/56", time.Hour, time.Hour}), "", ""},
		{"without end", pd(0, 0, ialease{"2001:db8:1::/56", state.Forever, state.Forever}), "2001:db8:1::/56", ""},
		{"a good one beside a bad one", pd(0, 0, ialease{"ff00::/56", time.Hour, time.Hour}, hourly), "2001:db8:1::/56", "nothing that an ISP can lease"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
				return reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), tt.ia)
			})
			b.run(time.Second)
			if b.held() != tt.held || b.report.Lease != nil && !strings.Contains(b.report.Lease.Note, tt.note) {
				t.Errorf("holds %q: %+v", b.held(), b.report.Lease)
			}
			b.run(10 * 24 * time.Hour) // rests
		})
	}
}

func FuzzReceive(f *testing.F) {
	q := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeSolicit}
	d, _ := hex.DecodeString(testDUID)
	q.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: d})
	for _, m := range []*dhcpv6.Message{
		reply(q, dhcpv6.MessageTypeAdvertise, 1, pd(0, 0, hourly)),
		reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), pd(1, 2, hourly, code(iana.StatusNoBinding)), na(ialease{"2001:db8::1/128", 1, 2})),
		reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusUnspecFail), dhcpv6.OptDNS(fe2.AsSlice())),
	} {
		f.Add(uint8(0), m.ToBytes())
		f.Add(uint8(3), m.ToBytes())
	}
	f.Fuzz(func(t *testing.T, at uint8, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		x := newBench(t, Config{Prefix: 56, Address: true}, nil)
		if at > 0 {
			x.answer = isp(pd(0, 0, hourly))
			x.run(time.Duration(at) * time.Minute)
			x.answer = nil
		}
		m.TransactionID = x.e.xid
		x.do(x.e.Receive(x.now, m, fe1))
		if l := x.report.Lease; l != nil {
			for _, p := range slices.Concat(l.Prefix, l.Addr) {
				if !usable(p.Prefix) || p.Valid <= 0 || p.Preferred > p.Valid {
					t.Errorf("took %+v", p)
				}
			}
			if len(l.Prefix)+len(l.Addr) == 0 || l.T1 > l.T2 || l.T1 < 0 {
				t.Errorf("took %s", fmt.Sprint(*l))
			}
		}
		x.run(time.Hour)
	})
}
