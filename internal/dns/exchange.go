package dns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// udpSize is the largest UDP message that we take or send: what passes every
// path without fragments (the flag day's value; RFC 9715, 3.1).
const udpSize = 1232

// maxStray is how many messages on a question's own port may be no answer to it
// before the question goes by TCP: somebody is guessing (RFC 5452, 9.2).
const maxStray = 8

var errStray = errors.New("answers that belong to no question of ours")

// question is the message that asks k. AD asks to be told whether the data was
// validated (RFC 6840, 5.7); whether the client learns it is its own AD bit's.
func question(k key) *dns.Msg {
	m := new(dns.Msg)
	m.RecursionDesired = true
	m.AuthenticatedData = true
	m.CheckingDisabled = k.cd
	m.Question = []dns.Question{{Name: k.name, Qtype: k.rrtype, Qclass: k.class}}
	m.SetEdns0(udpSize, k.do)
	return m
}

// exchanger talks to upstreams: UDP with TCP where an answer does not fit, or
// TLS and never anything else.
type exchanger struct {
	dialer   net.Dialer
	sessions *sessions
}

// exchange asks up the question in m. The answer is checked against the
// question; its names are lower case where they are the question's.
func (x *exchanger) exchange(ctx context.Context, up Upstream, m *dns.Msg) (*dns.Msg, error) {
	ask := x.udp
	if up.TLS {
		ask = x.sessions.exchange
	}
	r, err := ask(ctx, up.Server, m)
	if !up.TLS && (errors.Is(err, errStray) || err == nil && r.Truncated) {
		r, err = x.sessions.exchange(ctx, up.Server, m)
	}
	if err == nil && r.Rcode == dns.RcodeFormatError && r.IsEdns0() == nil && m.IsEdns0() != nil {
		// A server from before EDNS (RFC 6891, 7).
		m.Extra = nil
		return x.exchange(ctx, up, m)
	}
	return r, err
}

// udp asks once over UDP, from a port and with a number of its own, the name
// spelt at random: what a forger has to guess (RFC 5452; draft-vixie-dnsext-dns0x20).
func (x *exchanger) udp(ctx context.Context, s Server, m *dns.Msg) (*dns.Msg, error) {
	conn, err := x.dialer.DialContext(ctx, "udp", s.Addr.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()

	q := m.Copy()
	q.Id = random16()
	q.Question[0].Name = spell(m.Question[0].Name)
	wire, err := q.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack the question: %w", err)
	}
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for stray := 0; ; {
		n, err := conn.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return nil, errors.New("no answer over UDP")
			}
			return nil, err
		}
		r := new(dns.Msg)
		// A message cut off in the middle is taken for its TC bit alone.
		uerr := r.Unpack(buf[:n])
		if uerr != nil && !r.Truncated || r.Id != q.Id || !belongs(r, q) {
			if stray++; stray == maxStray {
				return nil, errStray
			}
			continue
		}
		if r.Question[0].Name != q.Question[0].Name {
			// The right answer by its number, with the name spelt otherwise: a server that
			// does not keep the spelling, or a forger. TCP tells.
			return nil, errStray
		}
		lowerQuestion(r, m.Question[0].Name)
		return r, nil
	}
}

// belongs tells whether r answers the question of q, spelling apart, and can be passed on.
func belongs(r, q *dns.Msg) bool {
	if !r.Response || r.Opcode != dns.OpcodeQuery || len(r.Question) != 1 || !sound(r) {
		return false
	}
	a, b := r.Question[0], q.Question[0]
	return a.Qtype == b.Qtype && a.Qclass == b.Qclass && strings.EqualFold(a.Name, b.Name)
}

// sound tells whether a message that was read can be read again once it is written: not so where
// a record's data ends before its type's does, which the library reads as though it did not.
func sound(m *dns.Msg) bool {
	wire, err := m.Pack()
	return err == nil && new(dns.Msg).Unpack(wire) == nil
}

// lowerQuestion gives the name that was asked for its spelling back, in the
// question and wherever a record has it.
func lowerQuestion(m *dns.Msg, name string) {
	for i := range m.Question {
		if strings.EqualFold(m.Question[i].Name, name) {
			m.Question[i].Name = name
		}
	}
	for _, s := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range s {
			if h := rr.Header(); strings.EqualFold(h.Name, name) {
				h.Name = name
			}
		}
	}
}

// spell writes a name's letters large or small by chance.
func spell(name string) string {
	b := []byte(name)
	coins := make([]byte, len(b))
	_, _ = rand.Read(coins) // never fails (crypto/rand)
	for i, c := range b {
		if coins[i]&1 == 1 && (c >= 'a' && c <= 'z') {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

func random16() uint16 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint16(b[:])
}
