package lab

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The link between an ISP and its internet: addresses that no file names.
var (
	up4     = netip.MustParsePrefix("169.254.77.1/30")
	inet4   = netip.MustParsePrefix("169.254.77.2/30")
	upLink  = netip.MustParseAddr("fe80::1")
	inetLnk = netip.MustParseAddr("fe80::2")
)

// openInternet makes the internet as one ISP shows it: a machine that has every
// address there is (a local route for all of IPv4 and of 2000::/3) but those of
// the ISP's customers, and answers echo requests, echo servers, DNS and NTP there.
//
// Each ISP has an internet of its own, so that who was asked tells by which
// line, also where two ISPs hand out one and the same address.
func (l *Lab) openInternet(isp *Host, name string) (*Host, error) {
	inet, err := l.Add("inet-" + name)
	if err != nil {
		return nil, err
	}
	if err := l.Cable(Plug{Host: isp, Dev: "up0"}, Plug{Host: inet, Dev: "eth0"}); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		h    *Host
		dev  string
		addr netip.Prefix
	}{
		{isp, "up0", up4}, {isp, "up0", netip.PrefixFrom(upLink, 64)},
		{inet, "eth0", inet4}, {inet, "eth0", netip.PrefixFrom(inetLnk, 64)},
		{inet, "lo", netip.PrefixFrom(web4, 32)}, {inet, "lo", netip.PrefixFrom(web6, 128)},
	} {
		if err := s.h.AddAddr(s.dev, s.addr); err != nil {
			return nil, err
		}
	}
	// Else IPv6 refuses to answer by a source that is on no link (ipv6(7), IPV6_PKTINFO).
	if err := inet.Sysctl("net/ipv6/ip_nonlocal_bind", "1"); err != nil {
		return nil, err
	}
	for _, all := range []string{"0.0.0.0/0", "2000::/3"} {
		if err := inet.localRoute(netip.MustParsePrefix(all), netip.Addr{}, "lo"); err != nil {
			return nil, err
		}
	}
	if err := inet.localRoute(up4.Masked(), netip.Addr{}, "eth0"); err != nil {
		return nil, err
	}
	if err := isp.Route(netip.MustParsePrefix("0.0.0.0/0"), inet4.Addr(), "up0"); err != nil {
		return nil, err
	}
	if err := isp.Route(netip.MustParsePrefix("::/0"), inetLnk, "up0"); err != nil {
		return nil, err
	}
	if err := inet.ServeEcho([]uint16{7, 80, 443}, []uint16{7, 443}); err != nil {
		return nil, err
	}
	if err := inet.serveBulk(); err != nil {
		return nil, err
	}
	if err := inet.serveTime(); err != nil {
		return nil, err
	}
	return inet, inet.serveDNS(name, nil)
}

// localRoute sets a route in table local, which is asked before all others: a
// source address has to be found there (__ip_dev_find in net/ipv4/devinet.c).
// By lo every address of dst is the machine's own.
func (h *Host) localRoute(dst netip.Prefix, via netip.Addr, dev string) error {
	link, err := h.nl.LinkByName(dev)
	if err == nil {
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst), Table: unix.RT_TABLE_LOCAL}
		switch {
		case dev == "lo":
			r.Type = unix.RTN_LOCAL
			if dst.Addr().Is4() {
				r.Scope = netlink.SCOPE_HOST
			}
		case via.IsValid():
			r.Gw = via.AsSlice()
			r.Flags = int(netlink.FLAG_ONLINK)
		case dst.Addr().Is4():
			r.Scope = netlink.SCOPE_LINK
		}
		err = h.nl.RouteReplace(r)
	}
	return wrap(err, "route %s in table local by %s on %s", dst, dev, h)
}

// serveDNS answers DNS on the machine, on every address: any name has the web
// server's addresses, but names of domains that no public server knows, and those
// in rebindDomains, which say themselves what they have (see rebind); and the
// text record of whoami.example names the line and who asked. mine, unless nil,
// says who may ask at all; where it is nil the machine is each of the root's
// servers. Whoever wants signatures gets the root's.
func (h *Host) serveDNS(line string, mine func(netip.Addr) bool) error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		from := addrPort(w.RemoteAddr())
		switch {
		case mine != nil && !mine(from.Addr()), len(q.Question) != 1:
			m.Rcode = dns.RcodeRefused
		case private(q.Question[0].Name):
			m.Rcode = dns.RcodeNameError
		default:
			m.Answer = h.lab.answerDNS(q.Question[0], line, from.Addr())
		}
		m.Authoritative = mine == nil
		if opt := q.IsEdns0(); opt != nil {
			if opt.Do() && m.Rcode != dns.RcodeRefused {
				if err := h.lab.root.complete(m, q, h.lab.Clock.Now()); err != nil {
					h.lab.Log.Error("DNS of the lab", "err", err)
					m.Rcode = dns.RcodeServerFailure
				}
			}
			m.SetEdns0(1232, opt.Do())
		}
		// What can't be sent is an answer that the asker doesn't get.
		_ = w.WriteMsg(m)
	})
	var pc *net.UDPConn
	var ln net.Listener
	err := h.Do(func() (err error) {
		if pc, err = net.ListenUDP("udp", &net.UDPAddr{Port: 53}); err != nil {
			return err
		}
		ln, err = net.ListenTCP("tcp", &net.TCPAddr{Port: 53})
		return err
	})
	if err != nil {
		return fmt.Errorf("DNS server on %s: %w", h, err)
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		ready := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		h.lab.run(func() { _ = s.ActivateAndServe() })
		<-ready
		h.lab.onClose(s.Shutdown)
	}
	return nil
}

// private says whether only a house's own server knows the name's domain.
func private(name string) bool {
	for _, d := range []string{"local.", "home.arpa.", "lan.", "internal."} {
		if name = strings.ToLower(name); name == d || strings.HasSuffix(name, "."+d) {
			return true
		}
	}
	return false
}

// Name gives a name addresses of its own on the internet, and no others, from now on: nobody
// is to keep those that it had.
func (l *Lab) Name(name string, addrs ...netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[dns.CanonicalName(name)] = addrs
}

func (l *Lab) answerDNS(q dns.Question, line string, from netip.Addr) []dns.RR {
	hdr := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 60}
	if rrs, ok := rebind(q, hdr); ok {
		return rrs
	}
	l.mu.Lock()
	own := l.names[dns.CanonicalName(q.Name)]
	l.mu.Unlock()
	if own != nil && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA) {
		hdr.Ttl = 0
		var rrs []dns.RR
		for _, a := range own {
			switch {
			case a.Is4() && q.Qtype == dns.TypeA:
				rrs = append(rrs, &dns.A{Hdr: hdr, A: a.AsSlice()})
			case a.Is6() && q.Qtype == dns.TypeAAAA:
				rrs = append(rrs, &dns.AAAA{Hdr: hdr, AAAA: a.AsSlice()})
			}
		}
		return rrs
	}
	switch q.Qtype {
	case dns.TypeA:
		return []dns.RR{&dns.A{Hdr: hdr, A: web4.AsSlice()}}
	case dns.TypeAAAA:
		return []dns.RR{&dns.AAAA{Hdr: hdr, AAAA: web6.AsSlice()}}
	case dns.TypeTXT:
		hdr.Ttl = 0
		return []dns.RR{&dns.TXT{Hdr: hdr, Txt: []string{line, from.String()}}}
	}
	return nil
}
