package dhcp6

import (
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

func (b *bench) configure(cfg Config) {
	b.t.Helper()
	out, err := b.e.Configure(cfg, b.now)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(out)
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
