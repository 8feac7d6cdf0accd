package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// question is what a DNS server is asked: the root's SOA, which every resolver
// has at hand and answers in a hundred bytes, or a name's A record.
type question struct {
	id uint16
	q  dnsmessage.Question
}

// newQuestion makes the question for a name, "" being the root, with a number
// from random. A name too long for a message is an error.
func newQuestion(random io.Reader, name string) (question, error) {
	q := dnsmessage.Question{Type: dnsmessage.TypeSOA, Class: dnsmessage.ClassINET}
	if name != "" {
		q.Type = dnsmessage.TypeA
	}
	var err error
	if q.Name, err = dnsmessage.NewName(strings.TrimSuffix(name, ".") + "."); err != nil {
		return question{}, fmt.Errorf("ask for %q: %w", name, err)
	}
	var id [2]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return question{}, fmt.Errorf("read random bits for a probe: %w", err)
	}
	return question{binary.BigEndian.Uint16(id[:]), q}, nil
}

// message is the question as it goes on the wire (RFC 1035, 4.1), without EDNS,
// so that a server of any age understands it.
func (q question) message() ([]byte, error) {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.id, RecursionDesired: true}, Questions: []dnsmessage.Question{q.q}}
	b, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("ask for %q: %w", q.q.Name, err)
	}
	return b, nil
}

// errServerFailure is what a modem or an ISP's resolver says that has lost its own
// way out, at once and as often as it is asked. So it is no answer.
var errServerFailure = errors.New("server failure (SERVFAIL)")

// answered says whether b is a whole response to the question: the number, the
// question itself, and records that can be read. The code may be any, and a
// server that refuses may leave the question out; SERVFAIL is an error. ok is
// false for everything else, which is passed over.
func (q question) answered(b []byte) (ok bool, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || !h.Response || h.ID != q.id || h.OpCode != 0 {
		return false, nil //nolint:nilerr // not a response of ours
	}
	qs, err := p.AllQuestions()
	switch {
	case err != nil || len(qs) > 1:
		return false, nil //nolint:nilerr // not well-formed
	case len(qs) == 0 && h.RCode == dnsmessage.RCodeSuccess:
		return false, nil
	case len(qs) == 1 && (qs[0].Type != q.q.Type || qs[0].Class != q.q.Class || !strings.EqualFold(qs[0].Name.String(), q.q.Name.String())):
		return false, nil
	}
	if !h.Truncated {
		for _, skip := range []func() error{p.SkipAllAnswers, p.SkipAllAuthorities, p.SkipAllAdditionals} {
			if err := skip(); err != nil {
				return false, nil //nolint:nilerr // not well-formed
			}
		}
	}
	if h.RCode == dnsmessage.RCodeServerFailure {
		return true, errServerFailure
	}
	return true, nil
}
