package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/desired"
	"weir/internal/dns"
	"weir/internal/failover"
	"weir/internal/named"
	"weir/internal/ruleset"
	"weir/internal/state"
)

// Status asks the loop for all there is to show.
func (d *daemon) Status(ctx context.Context) (api.Status, error) {
	return call(ctx, d, func() (api.Status, error) {
		s := status(d.cfg, d.world, d.machine.Status())
		s.Version, s.Started = d.o.Version, d.started
		s.Choice = d.choice()
		s.File = d.file()
		for i, wan := range s.WANs {
			if f, ok := d.flows[wan.Name]; ok {
				s.WANs[i].Flows = &f
			}
		}
		d.fastPaths(&s)
		d.lanNews(&s)
		d.resolvers(&s)
		s.Time = d.statusTime()
		d.blockLists(&s)
		s.Turn = d.turns
		for _, v := range d.services() {
			s.Services = append(s.Services, v.status())
		}
		s.Notes = slices.Concat(d.notes, d.seen, s.Notes)
		if err := d.unstored.err; err != nil {
			s.Unstored = err.Error()
		}
		if err := d.unstored.names; err != nil {
			s.Notes = append(s.Notes, "the machine itself does not ask weir for names: "+err.Error())
		}
		return s, nil
	})
}

// lanNews adds what the LANs' services tell.
func (d *daemon) lanNews(s *api.Status) {
	clock, err := state.ReadClock()
	if err != nil {
		s.Notes = append(s.Notes, err.Error())
	}
	if d.named != nil {
		for _, n := range slices.Concat(d.named.notes, d.named.state.Notes) {
			s.Notes = append(s.Notes, "dns: "+n)
		}
	}
	leases, _ := held(d.leases, d.cfg, clock)
	for i := range s.LANs {
		l := &s.LANs[i]
		for _, v := range leases {
			if v.LAN == l.Name {
				l.Leases++
			}
		}
		for _, v := range d.lanStatus {
			if v.LAN == l.Name && v.Note != "" {
				s.Notes = append(s.Notes, "lan "+l.Name+": "+v.Note)
			}
		}
		if d.ra == nil {
			continue
		}
		for _, v := range d.ra.state.LANs {
			for _, o := range v.Others {
				if v.Name == l.Name && o.Lifetime > 0 {
					s.Notes = append(s.Notes, fmt.Sprintf("lan %s: another router offers itself there: %s", l.Name, o.Addr))
				}
			}
		}
	}
}

// resolvers adds which resolvers give no answer: a line's own to the line, where
// all of a family's are silent, and else a note of each, as of the file's.
func (d *daemon) resolvers(s *api.Status) {
	s.Notes = append(s.Notes, unasked(d.cfg, d.world, d.dns != nil)...)
	if d.named != nil {
		for _, f := range d.named.state.Silent {
			d.silent(s, f.Server, f.Zone, f.Why)
		}
	}
	if d.dns == nil {
		return
	}
	for _, u := range d.dns.state.Upstreams {
		if u.Up {
			continue
		}
		a, err := netip.ParseAddrPort(u.Server)
		if bare, berr := netip.ParseAddr(u.Server); berr == nil {
			a, err = netip.AddrPortFrom(bare, 53), nil
		}
		if err != nil || u.WAN == "" { // one by TLS, or the file's
			s.Notes = append(s.Notes, fmt.Sprintf("resolver %s gives no answer: %s", u.Server, u.Err))
			continue
		}
		d.silent(s, a, "", u.Err)
	}
}

// silent adds that a resolver gives no answer, to which zone, "" being all, is forwarded.
func (d *daemon) silent(s *api.Status, at netip.AddrPort, zone, why string) {
	who := "resolver " + server(at)
	line := slices.IndexFunc(s.WANs, func(l api.WAN) bool { return slices.Contains(d.far[l.Name], at.Addr()) })
	if line >= 0 {
		w := &s.WANs[line]
		known := resolversOf(d.world.state(d.cfg).WANs[w.Name], at.Addr().Is6())
		who = "wan " + w.Name + "'s own resolver"
		if n := int(at.Port()) - int(ruleset.ResolverPort(0)); n < len(known) {
			who += " " + known[n].String()
		}
		all := true
		for n := range known {
			all = all && d.isSilent(netip.AddrPortFrom(at.Addr(), ruleset.ResolverPort(n)))
		}
		switch {
		case !all && zone == "":
			zone = "."
		case all && at.Addr().Is4():
			w.IPv4.DNSError = why
		case all:
			w.IPv6.DNSError = why
		}
	}
	switch {
	case zone == "." || zone == "" && line < 0:
		s.Notes = append(s.Notes, fmt.Sprintf("%s gives no answer: %s", who, why))
	case zone != "":
		s.Notes = append(s.Notes, fmt.Sprintf("dns: %s, to which zone %s is forwarded, gives no answer: %s", who, zone, why))
	}
}

// isSilent says whether a resolver gives no answer to one of the engines.
func (d *daemon) isSilent(at netip.AddrPort) bool {
	if d.named != nil {
		return slices.ContainsFunc(d.named.state.Silent, func(f named.Silent) bool { return f.Server == at })
	}
	return slices.ContainsFunc(d.dns.state.Upstreams, func(u dns.UpstreamReport) bool { return !u.Up && u.Server == server(at) })
}

// server is a resolver as the file names it.
func server(a netip.AddrPort) string {
	if a.Port() == 53 {
		return a.Addr().String()
	}
	return a.String()
}

// Changed returns a channel that is closed when the status is another one.
func (d *daemon) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// announce wakes whoever waits for Changed.
func (d *daemon) announce() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
}

// status is the part of the status that the file, the world and the verdicts make.
func status(c *config.Config, w world, v failover.Status) api.Status {
	st := w.state(c)
	s := api.Status{Gateway: c.Gateway.Name, WANs: []api.WAN{}, LANs: []api.LAN{}, Forwards: []api.Forward{}, Services: []api.Service{}}
	for _, cw := range c.WANs {
		s.WANs = append(s.WANs, statusWAN(cw, w.wans[cw.Name], st, v))
	}
	s.IPv4, s.IPv6 = uses(st, v)
	for _, l := range c.LANs {
		s.LANs = append(s.LANs, api.LAN{Name: l.Name, Interface: l.Interface, Link: lanLink(l), Present: w.lans[l.Name].index != 0, Addresses: texts(lanAddresses(c, l, st))})
	}
	for _, f := range c.Forwards {
		s.Forwards = append(s.Forwards, statusForward(f, st, w))
	}
	return s
}

// uses is what new connections take in each family, and the address that they
// appear as.
func uses(st state.State, v failover.Status) (use4, use6 api.Use) {
	use := func(c failover.Choice, l state.Line) api.Use {
		u := api.Use{WAN: c.WAN, Why: c.Why, Since: c.Since}
		if c.WAN != "" && len(l.Addr) > 0 {
			u.Address = l.Addr[0].Addr().String()
		}
		return u
	}
	return use(v.Use4, st.WANs[v.Use4.WAN].V4), use(v.Use6, st.WANs[v.Use6.WAN].V6)
}

func statusWAN(c config.WAN, k wan, st state.State, v failover.Status) api.WAN {
	known := st.WANs[c.Name]
	a := api.WAN{
		Name: c.Name, Interface: c.Interface, Namespace: desired.NSPrefix + c.Name, Cable: c.Name, Link: k.port.name,
		Mark: st.Index[c.Name], Present: k.present, Carrier: k.carrier, MTU: known.MTU,
		IPv4: statusLine(known.V4, v, failover.LineID{WAN: c.Name, Family: failover.IPv4}),
		IPv6: statusLine(known.V6, v, failover.LineID{WAN: c.Name, Family: failover.IPv6}),
	}
	a.IPv4.Method, a.IPv6.Method = string(c.IPv4.Method), string(c.IPv6.Method)
	a.IPv4.Used, a.IPv6.Used = v.Use4.WAN == c.Name, v.Use6.WAN == c.Name
	if ok, why := complete4(c, k); !ok {
		a.IPv4.Why = why
	}
	if ok, why := complete6(c, k); !ok {
		a.IPv6.Why = why
	}
	if k.lease != nil && c.IPv4.Method == config.MethodDHCP {
		a.IPv4.Lease = statusLease(*k.lease)
	}
	if k.lease6 != nil && wants6(c, k) {
		a.IPv6.Lease = statusLease6(*k.lease6)
		a.IPv6.Delegated = texts(known.Delegated)
	}
	for _, l := range []*api.Line{&a.IPv4, &a.IPv6} {
		if l.Method == string(config.MethodNone) {
			*l = api.Line{Method: l.Method, Verdict: api.VerdictOff}
		}
	}
	return a
}

// statusLine tells of a line what the machine says of it.
func statusLine(l state.Line, v failover.Status, id failover.LineID) api.Line {
	a := api.Line{Addresses: texts(l.Addr), DNS: texts(l.DNS), Verdict: api.VerdictAbsent}
	for _, r := range l.Routes {
		if r.Dst.Bits() == 0 && r.Gateway.IsValid() {
			a.Gateway = r.Gateway.String()
		}
	}
	i := slices.IndexFunc(v.Lines, func(l failover.Line) bool { return l.LineID == id })
	if i < 0 {
		return a
	}
	j := v.Lines[i]
	a.Verdict, a.Why, a.Since = j.Verdict.String(), j.Why, j.Since
	if j.Probes > 0 {
		a.LossPct = &j.Loss
	}
	if rtt := cmp.Or(j.Latency, j.RTT); rtt > 0 {
		ms := float64(rtt.Microseconds()) / 1000
		a.LatencyMS = &ms
	}
	a.HoldDownS, a.GoodAt, a.Relapses = j.HoldDown.Seconds(), j.GoodAt, j.Relapses
	if j.Relapses > 0 || j.HoldDown > 0 {
		a.NextHoldDownS = j.NextHoldDown.Seconds()
	}
	if len(j.Deaf) > 0 {
		a.Deaf = texts(j.Deaf)
	}
	return a
}

func statusLease(l state.Lease4) *api.WANLease {
	a := &api.WANLease{Server: l.Server.String(), Since: l.Obtained, Note: l.Note}
	if l.T1 > 0 {
		a.Renew = l.Obtained.Add(l.T1)
	}
	if l.Duration > 0 {
		a.Expires = l.Obtained.Add(l.Duration)
	}
	return a
}

// statusLease6 is a DHCPv6 lease as the status shows it; it expires when all of it
// has.
func statusLease6(l state.Lease6) *api.WANLease {
	a := &api.WANLease{Server: l.Server.String(), Since: l.Obtained, Note: l.Note}
	if l.T1 != state.Forever {
		a.Renew = l.Obtained.Add(l.T1)
	}
	var valid time.Duration
	for _, p := range slices.Concat(l.Prefix, l.Addr) {
		valid = max(valid, p.Valid)
	}
	if valid != state.Forever {
		a.Expires = l.Obtained.Add(valid)
	}
	return a
}

// statusForward says where a forward answers: at each address of each of its
// lines, in the families that it has a target in.
func statusForward(f config.Forward, st state.State, w world) api.Forward {
	a := api.Forward{Name: f.Name, Protocol: protocols(f.Protocol), Port: ports(f.Port), To: []string{}, Answers: []string{}}
	for i, to := range []netip.Addr{f.To4, f.To6} {
		if !to.IsValid() {
			continue
		}
		a.To = append(a.To, to.String())
		for _, name := range f.On {
			l := st.WANs[name].V4
			if i == 1 {
				l = st.WANs[name].V6
			}
			if !w.wans[name].present || !w.wans[name].carrier {
				continue
			}
			for _, p := range l.Addr {
				a.Answers = append(a.Answers, fmt.Sprintf("%v by %s", p.Addr(), name))
			}
		}
	}
	return a
}

func protocols(ps []config.Protocol) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		switch p {
		case config.TCP:
			out[i] = "tcp"
		case config.UDP:
			out[i] = "udp"
		case config.ICMP:
			out[i] = "icmp"
		default:
			out[i] = fmt.Sprint(uint8(p))
		}
	}
	return out
}

func ports(rs []config.PortRange) []string {
	out := make([]string, len(rs))
	for i, r := range rs {
		if out[i] = fmt.Sprint(r.From); r.To != r.From {
			out[i] = fmt.Sprintf("%d-%d", r.From, r.To)
		}
	}
	return out
}

func texts[T fmt.Stringer](vs []T) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = v.String()
	}
	return out
}

// lanAddresses are the gateway's addresses on a LAN.
func lanAddresses(c *config.Config, l config.LAN, st state.State) []netip.Prefix {
	var out []netip.Prefix
	if l.Address4.IsValid() {
		out = append(out, l.Address4)
	}
	out = append(out, c.Address6(l.Name, st.ULA)...)
	return append(out, desired.Delegated(c, st, l.Name)...)
}
