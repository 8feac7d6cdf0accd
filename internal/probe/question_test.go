package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// asked is a question with a number that tests know.
func asked(t testing.TB, name string) (question, *dns.Msg) {
	t.Helper()
	q, err := newQuestion(bytes.NewReader([]byte{0x12, 0x34}), name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.message()
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return q, m
}

func TestQuestion(t *testing.T) {
	for _, c := range []struct {
		name, asks string
		qtype      uint16
	}{{"", ".", dns.TypeSOA}, {"name.example", "name.example.", dns.TypeA}, {"name.example.", "name.example.", dns.TypeA}} {
		_, m := asked(t, c.name)
		if q := m.Question[0]; m.Id != 0x1234 || !m.RecursionDesired || m.Response || q.Name != c.asks || q.Qtype != c.qtype || q.Qclass != dns.ClassINET {
			t.Errorf("%q: %v", c.name, m)
		}
	}
	if _, err := newQuestion(bytes.NewReader([]byte{1, 2}), strings.Repeat("a.", 200)); err == nil {
		t.Error("a name of 400 bytes is asked for")
	}
	if _, err := newQuestion(bytes.NewReader([]byte{1}), ""); err == nil {
		t.Error("without random bits the number can be foreseen")
	}
}

// What counts as an answer: any response but SERVFAIL.
func TestWhatAnswersAQuestion(t *testing.T) {
	q, ask := asked(t, "name.example")
	for _, c := range []struct {
		name   string
		change func(*dns.Msg)
		cut    int // bytes taken off the end
		ok     bool
		err    error
	}{
		{name: "an address", ok: true},
		{name: "no such name", change: func(m *dns.Msg) { m.Answer, m.Rcode = nil, dns.RcodeNameError }, ok: true},
		{name: "no such record", change: func(m *dns.Msg) { m.Answer = nil }, ok: true},
		{name: "refused", change: func(m *dns.Msg) { m.Answer, m.Rcode = nil, dns.RcodeRefused }, ok: true},
		{name: "refused without the question", change: func(m *dns.Msg) { m.Answer, m.Question, m.Rcode = nil, nil, dns.RcodeRefused }, ok: true},
		{name: "not understood", change: func(m *dns.Msg) { m.Answer, m.Question, m.Rcode = nil, nil, dns.RcodeFormatError }, ok: true},
		{name: "the name spelt otherwise", change: func(m *dns.Msg) { m.Question[0].Name = "NAME.example." }, ok: true},
		{name: "truncated", change: func(m *dns.Msg) { m.Truncated = true }, cut: 3, ok: true},
		{name: "the server has lost its own way out", change: func(m *dns.Msg) { m.Answer, m.Rcode = nil, dns.RcodeServerFailure }, ok: true, err: errServerFailure},
		{name: "another's number", change: func(m *dns.Msg) { m.Id++ }},
		{name: "a question", change: func(m *dns.Msg) { m.Response = false }},
		{name: "another name", change: func(m *dns.Msg) { m.Question[0].Name = "other.example." }},
		{name: "another type", change: func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }},
		{name: "two questions", change: func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }},
		{name: "success about nothing", change: func(m *dns.Msg) { m.Question, m.Answer = nil, nil }},
		{name: "an update", change: func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }},
		{name: "a record cut short", cut: 3},
	} {
		m := new(dns.Msg)
		m.SetReply(ask)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "name.example.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: []byte{192, 0, 2, 1}}}
		if c.change != nil {
			c.change(m)
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := q.answered(b[:len(b)-c.cut]); ok != c.ok || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.name, ok, err)
		}
	}
}

// FuzzAnswered: no bytes from the wire panic, and none without the number count.
func FuzzAnswered(f *testing.F) {
	q, ask := asked(f, "name.example")
	for _, m := range []*dns.Msg{ask, new(dns.Msg).SetReply(ask), new(dns.Msg).SetRcode(ask, dns.RcodeServerFailure)} {
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ok, err := q.answered(b)
		if ok && (len(b) < 12 || binary.BigEndian.Uint16(b) != q.id || b[2]&0x80 == 0) {
			t.Errorf("%x counts as an answer", b)
		}
		if err != nil && !ok {
			t.Errorf("%x: %v, though it is none", b, err)
		}
	})
}

// control is a control message as the kernel writes it.
func control(level, kind int32, data []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func TestComplaint(t *testing.T) {
	from4 := make([]byte, 16)
	copy(from4[4:], []byte{192, 0, 2, 1})
	from6 := make([]byte, 28)
	copy(from6[8:], netip.MustParseAddr("2001:db8::1").AsSlice())
	err := func(origin, kind, code byte, from []byte) []byte {
		return append([]byte{111, 0, 0, 0, origin, kind, code, 0, 0, 0, 0, 0, 0, 0, 0, 0}, from...)
	}
	for _, c := range []struct {
		name string
		oob  []byte
		want icmp
	}{
		{"ICMP", control(unix.SOL_IP, unix.IP_RECVERR, err(unix.SO_EE_ORIGIN_ICMP, 3, 1, from4)), icmp{true, 3, 1, netip.MustParseAddr("192.0.2.1")}},
		{"ICMPv6", control(unix.SOL_IPV6, unix.IPV6_RECVERR, err(unix.SO_EE_ORIGIN_ICMP6, 1, 4, from6)), icmp{true, 1, 4, netip.MustParseAddr("2001:db8::1")}},
		{"nobody's", control(unix.SOL_IP, unix.IP_RECVERR, err(unix.SO_EE_ORIGIN_ICMP, 3, 1, nil)), icmp{is: true, kind: 3, code: 1}},
		{"the machine's own", control(unix.SOL_IP, unix.IP_RECVERR, err(unix.SO_EE_ORIGIN_LOCAL, 3, 1, from4)), icmp{}},
		{"cut short", control(unix.SOL_IP, unix.IP_RECVERR, err(unix.SO_EE_ORIGIN_ICMP, 3, 1, nil)[:9]), icmp{}},
		{"something else", control(unix.SOL_IP, unix.IP_TTL, err(unix.SO_EE_ORIGIN_ICMP, 3, 1, from4)), icmp{}},
		{"nothing", nil, icmp{}},
	} {
		if got := parseComplaint(c.oob); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// When an answer came, and how long it took: the kernel's word where it has one.
func TestHandshake(t *testing.T) {
	const sent, ms = Monotonic(5e9), Monotonic(time.Millisecond)
	for _, c := range []struct {
		name  string
		found Monotonic // after
		info  *unix.TCPInfo
		at    Monotonic
		rtt   time.Duration
	}{
		{"we woke up late", 35 * ms, &unix.TCPInfo{Rtt: 20000}, 20 * ms, 20 * time.Millisecond},
		{"refused", 35 * ms, &unix.TCPInfo{}, 35 * ms, 35 * time.Millisecond},
		{"a longer time than there was", 35 * ms, &unix.TCPInfo{Rtt: 40000}, 35 * ms, 35 * time.Millisecond},
		{"the second SYN, measured", 1060 * ms, &unix.TCPInfo{Rtt: 50000, Total_retrans: 1}, 1060 * ms, 50 * time.Millisecond},
		{"the second SYN, not measured", 1060 * ms, &unix.TCPInfo{Total_retrans: 1}, 1060 * ms, 60 * time.Millisecond},
		{"nothing known", 35 * ms, nil, 35 * ms, 35 * time.Millisecond},
	} {
		if ev := handshake(sent, sent+c.found, c.info); ev.At != sent+c.at || ev.RTT != c.rtt || ev.Kind != Reply {
			t.Errorf("%s: at %v after %v", c.name, time.Duration(ev.At-sent), ev.RTT)
		}
	}
}
