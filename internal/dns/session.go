package dns

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// How long a session without questions is kept (RFC 7766, 6.2.3). One over TLS
// costs to set up; a plain one is the exception, for an answer too long for UDP,
// and a small server that takes one connection at a time must not be held up by it.
const (
	sessionIdle = 10 * time.Second
	plainIdle   = 50 * time.Millisecond
)

// maxSession is how many questions wait on one session.
const maxSession = 256

var errSessionEnded = errors.New("the server ended the session")

// sessions keeps one stream to each server that is asked over TCP or TLS, and
// sends questions down it without waiting for the answers before (RFC 7766, 6.2.1).
type sessions struct {
	dialer net.Dialer
	tls    tls.Config // but for the server's name
	mu     sync.Mutex
	open   map[Server]*session
}

func newSessions(roots *x509.CertPool) *sessions {
	return &sessions{
		tls: tls.Config{
			RootCAs:            roots,
			MinVersion:         tls.VersionTLS12,
			NextProtos:         []string{"dot"},
			ClientSessionCache: tls.NewLRUClientSessionCache(8),
		},
		open: map[Server]*session{},
	}
}

// session is a stream to a server.
type session struct {
	ready chan struct{} // closed when dialled, well or not
	idle  time.Duration // how long it is kept
	conn  net.Conn      // valid after ready, if err is nil

	mu      sync.Mutex
	waiting map[uint16]chan *dns.Msg
	reads   uint64 // messages so far
	err     error  // why it ended
}

// exchange asks s the question in m. A session that was kept and turns out to
// be dead is replaced once.
func (ss *sessions) exchange(ctx context.Context, s Server, m *dns.Msg) (*dns.Msg, error) {
	for {
		se, kept := ss.get(ctx, s)
		select {
		case <-se.ready:
		case <-ctx.Done():
			return nil, errors.New("no connection in time")
		}
		r, err := se.exchange(ctx, m, s.TLS)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		ss.forget(s, se)
		if !kept {
			return nil, err
		}
	}
}

// get returns the session to s, kept from before or started now.
func (ss *sessions) get(ctx context.Context, s Server) (se *session, kept bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if se, ok := ss.open[s]; ok {
		return se, true
	}
	se = &session{ready: make(chan struct{}), idle: plainIdle, waiting: map[uint16]chan *dns.Msg{}}
	if s.TLS {
		se.idle = sessionIdle
	}
	ss.open[s] = se
	go func() {
		// The dial is every waiting question's, not only the first one's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTimeout)
		defer cancel()
		conn, err := ss.dial(ctx, s)
		se.mu.Lock()
		if se.err != nil && conn != nil { // closed meanwhile
			conn.Close()
		}
		se.conn, se.err = conn, errors.Join(se.err, err)
		failed := se.err != nil
		se.mu.Unlock()
		close(se.ready)
		if !failed {
			se.read()
		}
		ss.forget(s, se)
	}()
	return se, false
}

func (ss *sessions) dial(ctx context.Context, s Server) (net.Conn, error) {
	conn, err := ss.dialer.DialContext(ctx, "tcp", s.Addr.String())
	if err != nil || !s.TLS {
		return conn, err
	}
	c := ss.tls.Clone()
	c.ServerName = s.Name
	if c.ServerName == "" {
		c.ServerName = s.Addr.Addr().String()
	}
	t := tls.Client(conn, c)
	if err := t.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return t, nil
}

// forget drops a session: the next question starts another.
func (ss *sessions) forget(s Server, se *session) {
	ss.mu.Lock()
	if ss.open[s] == se {
		delete(ss.open, s)
	}
	ss.mu.Unlock()
	se.close(errSessionEnded)
}

// closeAll ends all sessions: the road to the servers changed.
func (ss *sessions) closeAll() {
	ss.mu.Lock()
	old := ss.open
	ss.open = map[Server]*session{}
	ss.mu.Unlock()
	for _, se := range old {
		se.close(errSessionEnded)
	}
}

// close ends a session; whoever waits is told err.
func (se *session) close(err error) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.err == nil {
		se.err = err
	}
	if se.conn != nil {
		se.conn.Close()
	}
	for id, c := range se.waiting {
		close(c)
		delete(se.waiting, id)
	}
}

// exchange sends m and waits for its answer. A session on which nothing at all
// came while a question's time ran out is closed: its peer is gone.
func (se *session) exchange(ctx context.Context, m *dns.Msg, pad bool) (*dns.Msg, error) {
	q := m.Copy()
	c := make(chan *dns.Msg, 1)
	se.mu.Lock()
	if se.err != nil {
		defer se.mu.Unlock()
		return nil, se.err
	}
	if len(se.waiting) >= maxSession {
		se.mu.Unlock()
		return nil, errBusy
	}
	for {
		q.Id = random16()
		if _, used := se.waiting[q.Id]; !used {
			break
		}
	}
	wire, err := packStream(q, pad)
	if err != nil {
		se.mu.Unlock()
		return nil, err
	}
	if len(se.waiting) == 0 {
		_ = se.conn.SetReadDeadline(time.Now().Add(sessionIdle))
	}
	se.waiting[q.Id] = c
	reads := se.reads
	_ = se.conn.SetWriteDeadline(time.Now().Add(tryTimeout))
	_, err = se.conn.Write(wire) // under the lock: messages must not mix
	se.mu.Unlock()
	if err != nil {
		se.close(err)
		return nil, err
	}
	select {
	case r, ok := <-c:
		if !ok {
			se.mu.Lock()
			defer se.mu.Unlock()
			return nil, se.err
		}
		if !belongs(r, q) {
			se.close(errStray)
			return nil, errStray
		}
		lowerQuestion(r, m.Question[0].Name)
		return r, nil
	case <-ctx.Done():
		se.mu.Lock()
		delete(se.waiting, q.Id)
		silent := se.reads == reads
		se.mu.Unlock()
		if silent {
			se.close(errors.New("no answer on the session"))
		}
		return nil, errors.New("no answer over TCP")
	}
}

// read hands answers to whoever waits for them, until the session ends.
func (se *session) read() {
	var length [2]byte
	for {
		if _, err := io.ReadFull(se.conn, length[:]); err != nil {
			se.close(err)
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(se.conn, buf); err != nil {
			se.close(err)
			return
		}
		r := new(dns.Msg)
		if err := r.Unpack(buf); err != nil {
			se.close(fmt.Errorf("an answer that cannot be read: %w", err))
			return
		}
		se.mu.Lock()
		se.reads++
		c, ok := se.waiting[r.Id]
		delete(se.waiting, r.Id)
		wait := sessionIdle
		if len(se.waiting) == 0 {
			wait = se.idle
		}
		_ = se.conn.SetReadDeadline(time.Now().Add(wait))
		se.mu.Unlock()
		if ok {
			c <- r // has room: one answer for each question
		}
	}
}

// packStream packs a message with its length before it (RFC 1035, 4.2.2); with
// pad to a multiple of 128 bytes, so that its size tells an onlooker little
// (RFC 7830; RFC 8467, 4.1).
func packStream(m *dns.Msg, pad bool) ([]byte, error) {
	if opt := m.IsEdns0(); pad && opt != nil {
		p := &dns.EDNS0_PADDING{}
		opt.Option = append(opt.Option, p)
		if over := m.Len() % 128; over > 0 {
			p.Padding = make([]byte, 128-over)
		}
	}
	wire, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack the question: %w", err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...), nil
}
