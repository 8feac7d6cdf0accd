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
	"weir/internal/lab"
)

// leaseAct plugs a new device into the LAN and tells what it gets by DHCP, and
// asks as each host that has a fixed address.
func leaseAct(l *LAN) Act {
	drills := []string{name("lease", l.Name, "new")}
	for _, h := range l.Hosts {
		if h.leases(l) {
			drills = append(drills, name("lease", l.Name, h.Of.Name))
		}
	}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		out := []Result{b.newLease(ctx, l, drills[0])}
		for _, h := range l.Hosts {
			if h.leases(l) {
				out = append(out, b.hostLease(ctx, l, h))
			}
		}
		return out
	}}
}

// device plugs a new device into a LAN.
func (b *Bench) device(l *LAN) (*lab.Client, error) {
	b.devices++
	return b.Lab.Join(b.switches[l.Name], fmt.Sprintf("new-%d-%s", b.devices, l.Name), "")
}

// leases says whether the host should be leased its own address.
func (h Host) leases(l *LAN) bool {
	return l.DHCP.Enabled && h.Of != nil && h.MAC != "" && h.addr4(l).IsValid()
}

func (h Host) addr4(l *LAN) netip.Addr {
	for _, a := range h.Addr {
		if l.Address4.IsValid() && l.Address4.Contains(a) {
			return a
		}
	}
	return netip.Addr{}
}

func (b *Bench) newLease(ctx context.Context, l *LAN, drill string) Result {
	const about = "a new device gets an address of the pool, router, DNS and domain"
	c, err := b.device(l)
	if err != nil {
		return fail(drill, about, "a device on the LAN", err.Error(), "the lab")
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.joins())
	defer cancel()
	ack, err := c.Lease(ctx)
	took := time.Since(start)
	look := fmt.Sprintf("dhcp of lan %s; weir's log: %s", l.Name, b.Daemon.Log(3))
	if err != nil {
		return fail(drill, about, "a lease", fmt.Sprintf("none in %s (%v)", seconds(took), err), look)
	}
	var wrong []string
	a, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !in(l.DHCP.Pool, a) {
		wrong = append(wrong, fmt.Sprintf("address %s, which is not in the pool", a))
	}
	said := func(code uint8) bool {
		return slices.ContainsFunc(l.DHCP.Options, func(o config.Option) bool { return o.Code == code })
	}
	own := l.Address4.Addr()
	if r := ack.Router(); !said(3) && (len(r) != 1 || r[0].String() != own.String()) {
		wrong = append(wrong, fmt.Sprintf("router %v, not %s", r, own))
	}
	if d := ack.DNS(); !said(6) && (len(d) == 0 || d[0].String() != own.String()) {
		wrong = append(wrong, fmt.Sprintf("DNS %v, not %s", d, own))
	}
	if d := ack.DomainName(); !said(15) && d != l.Domain[0] {
		wrong = append(wrong, fmt.Sprintf("domain %q, not %q", d, l.Domain[0]))
	}
	if w := b.toldTime(l, ack.NTPServers()); w != "" {
		wrong = append(wrong, w)
	}
	if t := ack.IPAddressLeaseTime(0); t != l.DHCP.Lease.Truncate(time.Second) {
		wrong = append(wrong, fmt.Sprintf("a lease for %s, not %s", t, l.DHCP.Lease))
	}
	if wrong != nil {
		return fail(drill, about, "what the file says", strings.Join(wrong, "; "), look)
	}
	return pass(drill, about, secs("took", took))
}

func (b *Bench) hostLease(ctx context.Context, l *LAN, h Host) Result {
	drill, about := name("lease", l.Name, h.Of.Name), "a host gets its own address"
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, b.joins())
	defer cancel()
	ack, err := b.Hosts[h.Name].Lease(ctx)
	if err != nil {
		return fail(drill, about, "a lease of "+h.addr4(l).String(), err.Error(), place(h.Of.Pos)+"; weir's log: "+b.Daemon.Log(3))
	}
	if a, _ := netip.AddrFromSlice(ack.YourIPAddr.To4()); a != h.addr4(l) {
		return fail(drill, about, "a lease of "+h.addr4(l).String(), "a lease of "+a.String(), place(h.Of.Pos))
	}
	return pass(drill, about, secs("took", time.Since(start)))
}

// advertiseAct tells how the LAN's client autoconfigured IPv6.
func advertiseAct(l *LAN) Act {
	drill := name("advertise", l.Name)
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		const about = "a new device autoconfigures an IPv6 address and its router"
		look := "advertise of lan " + l.Name + "; weir's log: " + b.Daemon.Log(3)
		c, err := b.device(l)
		if err != nil {
			return []Result{fail(drill, about, "a device on the LAN", err.Error(), "the lab")}
		}
		start := time.Now()
		auto, router, ok := c.Autoconfigured(ctx, b.joins())
		if !ok {
			return []Result{fail(drill, about, "an address and a router by router advertisement",
				fmt.Sprintf("address %s, router %s after %s", auto, router, b.joins()), look)}
		}
		took := time.Since(start)
		want := l.Advertise.Prefix
		if want == nil {
			for _, p := range l.Address6 {
				want = append(want, p.Masked())
			}
		}
		if want != nil && !slices.ContainsFunc(want, func(p netip.Prefix) bool { return p.Contains(auto.Addr()) }) {
			return []Result{fail(drill, about, fmt.Sprintf("an address in %v", want), auto.String(), look)}
		}
		return []Result{pass(drill, about, secs("took", took))}
	}}
}

// nameLimit is for all names of the house: a lease is one before the client has
// taken in its ACK.
const nameLimit = 3 * time.Second

// nameAct asks the gateway for names: of the house, forward and reverse, and of
// the world.
func nameAct(l *LAN) Act {
	drills := []string{name("name", l.Name, "house"), name("name", l.Name, "world")}
	return Act{Drills: drills, Do: func(ctx context.Context, b *Bench) []Result {
		c := b.Clients[l.Name]
		server := b.resolver(l)
		var out []Result
		if matches(drills[0], nil) {
			out = append(out, b.houseNames(ctx, l, server, drills[0]))
		}
		world := func() Result {
			const about = "a client's gateway resolves names of the world"
			start := time.Now()
			m, err := c.Resolve(ctx, server, "www.example.com", dns.TypeA, 6*time.Second)
			switch {
			case err != nil:
				return fail(drills[1], about, lab.Web(false).String(), err.Error(), "dns; weir's log: "+b.Daemon.Log(3))
			case m.Rcode != dns.RcodeSuccess || len(m.Answer) == 0 || !strings.HasSuffix(m.Answer[0].String(), lab.Web(false).String()):
				return fail(drills[1], about, lab.Web(false).String(), fmt.Sprintf("%s %v", dns.RcodeToString[m.Rcode], m.Answer), "dns; weir's log: "+b.Daemon.Log(3))
			}
			return pass(drills[1], about, secs("took", time.Since(start)))
		}
		return append(out, world())
	}}
}

// houseNames asks for the names that the file gives, and for the client's own,
// which its lease made.
func (b *Bench) houseNames(ctx context.Context, l *LAN, server netip.Addr, drill string) Result {
	const about = "names of the house resolve, forward and reverse"
	type entry struct {
		name   string
		addr   netip.Addr
		called bool // the address is called so
	}
	var all []entry
	called := func(label string, a netip.Addr, domains []string) {
		for i, d := range domains {
			all = append(all, entry{label + "." + d, a, i == 0})
		}
	}
	for _, other := range b.LANs {
		for _, h := range other.Hosts {
			if h.Of == nil {
				continue
			}
			for _, a := range h.Of.Address {
				called(h.Of.DNSName, a, other.Domain)
			}
		}
	}
	if j := b.Joined[l.Name]; j.ack != nil {
		a, _ := netip.AddrFromSlice(j.ack.YourIPAddr.To4())
		called(l.Client, a, l.Domain)
	}
	if l.Address4.IsValid() {
		called(b.Config.Gateway.Name, l.Address4.Addr(), b.Config.Domains()[:1])
	}
	c := b.Clients[l.Name]
	start := time.Now()
	for _, e := range all {
		// right asks for what is to be there, until it is.
		var seen string
		right := func(q string, qtype uint16, is func(dns.RR) bool) bool {
			return lab.Until(ctx, b.patience(nameLimit), func() bool {
				m, err := c.Resolve(ctx, server, q, qtype, 3*time.Second)
				if err != nil {
					seen = err.Error()
					return false
				}
				seen = fmt.Sprintf("%s %v", dns.RcodeToString[m.Rcode], m.Answer)
				return slices.ContainsFunc(m.Answer, is)
			})
		}
		qtype := dns.TypeA
		if e.addr.Is6() {
			qtype = dns.TypeAAAA
		}
		look := "dns and the hosts of the file; weir's log: " + b.Daemon.Log(3)
		if !right(e.name, qtype, func(rr dns.RR) bool { return strings.HasSuffix(rr.String(), "\t"+e.addr.String()) }) {
			return fail(drill, about, e.name+" is "+e.addr.String(), seen, look)
		}
		arpa, err := dns.ReverseAddr(e.addr.String())
		if err != nil || !e.called {
			continue
		}
		if !right(arpa, dns.TypePTR, func(rr dns.RR) bool { return strings.EqualFold(lastField(rr), e.name+".") }) {
			return fail(drill, about, e.addr.String()+" is called "+e.name, seen, look)
		}
	}
	return timed(drill, about, time.Since(start), nameLimit, "all answers", "dns; weir's log: "+b.Daemon.Log(3), packets("names", len(all)))
}

func lastField(rr dns.RR) string {
	f := strings.Fields(rr.String())
	return f[len(f)-1]
}
