package lab

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Website has h serve an address and port of the lab's internets, in the place of
// what answers there else (ServeEcho); with a certificate by TLS. The port has to be
// one that is answered.
func (l *Lab) Website(at netip.AddrPort, cert *tls.Certificate, h http.Handler) {
	conns := &handed{at: net.TCPAddrFromAddrPort(at), conns: make(chan net.Conn), closed: make(chan struct{})}
	var ln net.Listener = conns
	if cert != nil {
		ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"http/1.1"}})
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	l.onClose(s.Close) // and conns with it
	l.run(func() { _ = s.Serve(ln) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sites[at] = conns
}

// site is who serves what c is connected to; nil: nobody but the echo server.
func (l *Lab) site(c net.Conn) *handed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sites[addrPort(c.LocalAddr())]
}

// handed is a listener of connections that others have accepted.
type handed struct {
	at     net.Addr
	conns  chan net.Conn
	closed chan struct{}
}

// give hands c over, which is closed if nobody takes it.
func (h *handed) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

// Accept returns a connection that was given.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. It is called once, by the server.
func (h *handed) Close() error {
	close(h.closed)
	return nil
}

// Addr is where the connections were made to.
func (h *handed) Addr() net.Addr { return h.at }
