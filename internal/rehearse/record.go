package rehearse

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"weir/internal/config"
)

// recordAct asks the gateway for what the file puts into zones beside hosts:
// aliases and records; and whether what it says of the world is validated.
func recordAct(l *LAN) Act {
	drills := []string{name("name", l.Name, "records"), name("name", l.Name, "validated")}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		return []Result{b.fileRecords(ctx, l, drills[0]), b.validated(ctx, l, drills[1])}
	}}
}

// resolver is the address that a client of the LAN asks.
func (b *Bench) resolver(l *LAN) netip.Addr {
	server := l.Address4.Addr()
	if c := b.Clients[l.Name]; len(c.DNS) > 0 {
		server = c.DNS[0]
	}
	if !server.IsValid() && len(l.Address6) > 0 {
		server = l.Address6[0].Addr()
	}
	return server
}

func (b *Bench) fileRecords(ctx context.Context, l *LAN, drill string) Result {
	const about = "aliases and records of the file are in the zones"
	all, err := records(b.Config)
	if err != nil {
		return fail(drill, about, "records", err.Error(), "dns")
	}
	server := b.resolver(l)
	for _, want := range all {
		h := want.Header()
		asked := strings.Replace(h.Name, "*", "any", 1)
		look := "dns of the file; is BIND installed? weir's log: " + b.Daemon.Log(3)
		m, err := b.Clients[l.Name].Resolve(ctx, server, asked, h.Rrtype, 3*time.Second)
		if err != nil {
			return fail(drill, about, want.String(), err.Error(), look)
		}
		if !slices.ContainsFunc(m.Answer, func(rr dns.RR) bool {
			got := dns.Copy(rr)
			got.Header().Name, got.Header().Ttl = h.Name, h.Ttl
			return rr.Header().Name == dns.Fqdn(asked) && dns.IsDuplicate(got, want)
		}) {
			return fail(drill, about, want.String(), fmt.Sprintf("%s %v", dns.RcodeToString[m.Rcode], m.Answer), look)
		}
	}
	return pass(drill, about, packets("records", len(all)))
}

// records are what aliases and record blocks stand for, but for addresses that
// depend on what weir makes itself.
func records(c *config.Config) ([]dns.RR, error) {
	var out []dns.RR
	add := func(zone, name, rrtype, data string) error {
		zp := dns.NewZoneParser(strings.NewReader(fmt.Sprintf("%s 60 IN %s %s\n", name, rrtype, data)), dns.Fqdn(zone), "")
		rr, _ := zp.Next()
		if err := zp.Err(); err != nil {
			return fmt.Errorf("%s %s %s: %w", name, rrtype, data, err)
		}
		out = append(out, rr)
		return nil
	}
	for _, l := range c.LANs {
		for _, h := range l.Hosts {
			for _, a := range h.Alias {
				if err := add(".", a+".", "CNAME", h.DNSName+"."+l.Domain[0]+"."); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, z := range c.DNS.Zones {
		for _, r := range z.Records {
			for _, a := range c.Addrs(r.Address, c.Gateway.ULA) {
				t := "A"
				if a.Is6() {
					t = "AAAA"
				}
				if err := add(z.Name, r.Name, t, a.String()); err != nil {
					return nil, err
				}
			}
			for _, d := range r.Data {
				if err := add(z.Name, r.Name, d.Type, d.Data); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// validated asks for a name of the world, which the lab's root has signed.
func (b *Bench) validated(ctx context.Context, l *LAN, drill string) Result {
	const about = "names of the world are validated (DNSSEC)"
	m, err := b.Clients[l.Name].Resolve(ctx, b.resolver(l), fmt.Sprintf("signed-%s.example.com", l.Name), dns.TypeA, 6*time.Second)
	look := "dns; weir's log: " + b.Daemon.Log(3)
	switch {
	case err != nil:
		return fail(drill, about, "an answer said to be authentic (AD)", err.Error(), look)
	case len(m.Answer) == 0 || m.AuthenticatedData != b.Config.DNS.Validate:
		return fail(drill, about, "an answer said to be authentic (AD)", fmt.Sprintf("%s, AD %t, %v", dns.RcodeToString[m.Rcode], m.AuthenticatedData, m.Answer), look)
	}
	return pass(drill, about)
}
