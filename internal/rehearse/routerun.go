package rehearse

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

// routeRun is the lab in which the file's routes are tried: each with all lines
// well, and with each line lost that one of them leaves by.
func (s *Site) routeRun() (Run, bool) {
	all := s.probers
	if len(all) == 0 {
		return Run{}, false
	}
	run := Run{Name: "routes", About: "each route's connections, also with its line lost"}
	plain := Act{}
	for _, p := range all {
		plain.Drills = append(plain.Drills, p.drill())
	}
	plain.Do = func(ctx context.Context, b *Bench) []Result {
		var out []Result
		for _, p := range all {
			out = append(out, b.routed(ctx, p))
		}
		return out
	}
	run.Acts = append(run.Acts, plain)
	var lost, back time.Duration
	for _, l := range s.Lines {
		by := slices.DeleteFunc(slices.Clone(all), func(p prober) bool { return s.exit(p.route, p.v6, "") != l.Name })
		if len(by) == 0 {
			continue
		}
		act := Act{}
		for _, p := range by {
			act.Drills = append(act.Drills, p.drill("without", l.Name))
			if s.returns() {
				act.Drills = append(act.Drills, p.drill("back", l.Name))
			}
		}
		act.Do = func(ctx context.Context, b *Bench) []Result { return b.routesWithout(ctx, by, l.Name) }
		run.Acts = append(run.Acts, act)
		lost, back = lost+s.noticed(l.Name), back+s.found(l.Name)
	}
	run.Takes = s.minutes(lost, back)
	return run, true
}

// tried is one connection tried by a route's prober.
type tried struct {
	at     time.Time
	answer lab.Answer
	wan    string // whose internet answered
	wrong  string // what is wrong with the answer
}

// askRoute tries a connection.
func (b *Bench) askRoute(ctx context.Context, p prober, limit time.Duration) tried {
	t := tried{at: time.Now()}
	g, a, err := b.from(p).Ask(ctx, p.network, netip.Addr{}, p.to, limit)
	t.answer = a
	if a != lab.Answered {
		t.wrong = fmt.Sprintf("%s (%v)", a, err)
		return t
	}
	for wan, isp := range b.ISPs {
		if g.Host == isp.Inet.Name {
			t.wan = wan
			if !isp.Owns(g.From.Addr()) {
				t.wrong = fmt.Sprintf("by %s from %s, which is not that line's", wan, g.From.Addr())
			}
		}
	}
	return t
}

func (b *Bench) from(p prober) *lab.Host {
	switch {
	case p.lan == nil:
		return b.Lab.Gateway()
	case p.machine == "":
		return b.Clients[p.lan.Name].Host
	}
	return b.Hosts[p.machine].Host
}

// readyRoute gives a prober's machine an address and its far end a server, once.
func (b *Bench) readyRoute(ctx context.Context, p prober) error {
	if p.machine != "" {
		c := b.Hosts[p.machine]
		switch {
		case !p.v6 && !c.Addr4.IsValid():
			ack, err := c.Lease(ctx)
			if err != nil {
				return err
			}
			if err := c.Use(ack); err != nil {
				return err
			}
		case p.v6 && !c.Addr6.IsValid():
			if _, _, ok := c.Autoconfigured(ctx, b.joins()); !ok {
				return fmt.Errorf("%s has no IPv6 address", c.Host)
			}
		}
	}
	port := p.to.Port()
	tcp, udp := []uint16{port}, []uint16(nil)
	if p.network == "udp" {
		tcp, udp = udp, tcp
	}
	key := fmt.Sprintf("%s %d", p.network, port)
	if b.serving[key] || port == 7 || port == 443 || port == 80 && tcp != nil { // openInternet serves these
		return nil
	}
	b.serving[key] = true
	for _, isp := range b.ISPs {
		if err := isp.Inet.ServeEcho(tcp, udp); err != nil {
			return err
		}
	}
	return nil
}

// routed tries a route with all lines well.
func (b *Bench) routed(ctx context.Context, p prober) Result {
	want := b.exit(p.route, p.v6, "")
	about := fmt.Sprintf("%s: %s", wayText(p.route), p)
	look := fmt.Sprintf("%s; `weir why`; weir's log: %s", place(p.route.Pos), b.Daemon.Log(3))
	if err := b.readyRoute(ctx, p); err != nil {
		return fail(p.drill(), about, "a house in order", err.Error(), look)
	}
	seen := b.seeRoute(p, b.allowed(p, "")...)
	defer seen.stop()
	start := time.Now()
	// A line that faltered as the house came up is preferred after its hold-down.
	got := b.untilRoute(ctx, p, want, b.Config.Failover.HoldDown+askLimit)
	return p.judge(p.drill(), about, look, want, got, seen, secs("took", time.Since(start)))
}

// allowed are the lines that connections of a route may take while lost is lost,
// or just about to be: with a prefer also those that failover says meanwhile.
func (b *Bench) allowed(p prober, lost string) []string {
	may := []string{b.exit(p.route, p.v6, ""), b.exit(p.route, p.v6, lost)}
	if p.route.Way == config.Prefer {
		may = append(may, b.Order(p.v6)...)
	}
	return may
}

// judge compares a try with where it has to go.
func (p prober) judge(drill, about, look, want string, got tried, seen *strayed, f ...Figure) Result {
	expected := "it leaves by " + want
	if want == "" {
		expected = "it is refused, and by no line a packet of it"
	}
	switch n, where := seen.count(); {
	case n > 0:
		return fail(drill, about, expected, fmt.Sprintf("%d packets of it by %s", n, where), look)
	case want == "" && got.answer != lab.Refused:
		return fail(drill, about, expected, got.wrong+got.wan, look)
	case want != "" && (got.wan != want || got.wrong != ""):
		return fail(drill, about, expected, cmp.Or(got.wrong, "it leaves by "+got.wan), look)
	}
	return pass(drill, about, f...)
}

// strayed counts what lines saw of a route that it may not leave by.
type strayed struct {
	mu    sync.Mutex
	by    map[string]int
	stops []func()
}

// seeRoute watches all lines but those that a route's connections may take.
func (b *Bench) seeRoute(p prober, may ...string) *strayed {
	s := &strayed{by: map[string]int{}}
	proto := uint8(config.TCP)
	if p.network == "udp" {
		proto = uint8(config.UDP)
	}
	for wan, isp := range b.ISPs {
		if slices.Contains(may, wan) {
			continue
		}
		s.stops = append(s.stops, isp.Wire.Watch(func(f lab.Frame) {
			if f.Dst == p.to.Addr() && f.DPort == p.to.Port() && f.Proto == proto {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.by[wan]++
			}
		}))
	}
	return s
}

func (s *strayed) count() (n int, where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for wan, k := range s.by {
		n += k
		names = append(names, wan)
	}
	slices.Sort(names)
	return n, strings.Join(names, " and ")
}

func (s *strayed) stop() {
	for _, f := range s.stops {
		f()
	}
}

// routesWithout loses a line that routes leave by, and gives it back: a prefer
// goes over, an only is refused, and of an only or never no packet is seen on a
// line that it may not use, from before the line is lost until it is used again.
func (b *Bench) routesWithout(ctx context.Context, all []prober, wan string) []Result {
	about := wan + " goes dark behind its router and comes back: "
	bad := func(expected string, err error) []Result {
		var out []Result
		for _, p := range all {
			for _, what := range []string{"without", "back"} {
				out = append(out, fail(p.drill(what, wan), about+p.String(), expected, err.Error(), "weir's log: "+b.Daemon.Log(5)))
			}
		}
		return out
	}
	for _, p := range all {
		if err := b.readyRoute(ctx, p); err != nil {
			return bad("a house in order", err)
		}
	}
	seen := make([]*strayed, len(all))
	for i, p := range all {
		seen[i] = b.seeRoute(p, b.allowed(p, wan)...)
		defer seen[i].stop()
	}
	if err := b.fault(ways[0], wan, true); err != nil {
		return bad("an outage", err)
	}
	cut := time.Now()
	results := make([]Result, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			want := b.exit(p.route, p.v6, wan)
			got := b.untilRoute(ctx, p, want, b.doubted(wan))
			look := fmt.Sprintf("%s; weir's log: %s", place(p.route.Pos), b.Daemon.Log(5))
			results[i] = p.judge(p.drill("without", wan), about+p.String(), look, want, got, seen[i], secs("after", got.at.Sub(cut)))
		})
	}
	wg.Wait()
	if !b.returns() {
		return results
	}
	if err := b.fault(ways[0], wan, false); err != nil {
		return append(results, bad("the outage's end", err)...)
	}
	back := make([]Result, len(all))
	restored := time.Now()
	for i, p := range all {
		wg.Go(func() {
			got := b.untilRoute(ctx, p, wan, b.Config.Failover.HoldDown+b.found(wan)+10*time.Second)
			look := fmt.Sprintf("%s; weir's log: %s", place(p.route.Pos), b.Daemon.Log(5))
			back[i] = p.judge(p.drill("back", wan), about+p.String(), look, wan, got, seen[i], secs("after", got.at.Sub(restored)))
		})
	}
	wg.Wait()
	return append(results, back...)
}

// untilRoute tries until a connection goes where it has to, and returns the try
// that did, or the last.
func (b *Bench) untilRoute(ctx context.Context, p prober, want string, limit time.Duration) tried {
	end := time.Now().Add(limit)
	for {
		got := b.askRoute(ctx, p, 900*time.Millisecond)
		if want == "" && got.answer == lab.Refused || want != "" && got.wan == want && got.wrong == "" || time.Now().After(end) {
			return got
		}
		if !pause(ctx, 50*time.Millisecond) {
			return got
		}
	}
}

func wayText(r *config.Route) string {
	names := make([]string, len(r.WANs))
	for i, w := range r.WANs {
		names[i] = "wan." + w
	}
	return fmt.Sprintf("%s %s", r.Way, strings.Join(names, ", "))
}
