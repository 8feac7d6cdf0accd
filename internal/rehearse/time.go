package rehearse

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"weir/internal/config"
	"weir/internal/lab"
)

const (
	timeLimit = 30 * time.Second       // for a house to know the time
	timeNear  = 250 * time.Millisecond // how exact it has to be on a machine that does a lot else
)

// givesTime says whether the LANs' clients are given the time, in this lab.
func (s *Site) givesTime() bool {
	return s.Config.Time.Serve && len(s.Lines) > 0 && len(s.LANs) > 0 && s.timeless() == ""
}

// timeless is why the time can't be had in this lab; "": it can.
func (s *Site) timeless() string {
	if slices.ContainsFunc(s.Config.Time.Server, func(t config.TimeServer) bool { return t.NTS }) {
		return "nobody here can prove to be a server of nts://"
	}
	return s.Machine.Time
}

// timeNames gives the file's time servers that have names an address each on the
// simulated internet, where all other names have one and the same.
func (s *Site) timeNames() map[string]netip.Addr {
	out := map[string]netip.Addr{}
	a := netip.MustParseAddr("198.18.123.1")
	for _, t := range s.Config.Time.Server {
		if t.Name != "" {
			out[t.Name] = a
			a = a.Next()
		}
	}
	return out
}

// timeAct asks the gateway for the time: it has to be the internet's, which is not
// that of this machine.
func timeAct(l *LAN) Act {
	drill := name("time", l.Name)
	return Act{Drills: []string{drill}, Do: func(ctx context.Context, b *Bench) []Result {
		return []Result{b.time(ctx, l, drill)}
	}}
}

func (b *Bench) time(ctx context.Context, l *LAN, drill string) Result {
	const about = "a client has the internet's time from the gateway"
	server := l.Address4.Addr()
	if !server.IsValid() {
		server = b.resolver(l)
	}
	start := time.Now()
	var ahead time.Duration
	var err error
	if !lab.Until(ctx, b.patience(timeLimit), func() bool {
		ahead, _, err = b.Clients[l.Name].AskTime(netip.Addr{}, server, time.Second)
		return err == nil
	}) {
		return fail(drill, about, "an answer in "+seconds(timeLimit), err.Error(), "time of the file; is there a chronyd beside weir's? weir's log: "+b.Daemon.Log(6))
	}
	if off := (ahead - lab.TimeAhead).Abs(); off > timeNear {
		return fail(drill, about, "a time that is right by "+seconds(timeNear), fmt.Sprintf("one that is off by %v", off.Round(time.Millisecond)), "the file's time servers; weir's log: "+b.Daemon.Log(6))
	}
	took := time.Since(start)
	return timed(drill, about, took, timeLimit, "an answer", "time of the file; weir's log: "+b.Daemon.Log(6), secs("waited", took))
}

// toldTime says what is wrong with the time servers that a lease tells of; "" is
// nothing.
func (b *Bench) toldTime(l *LAN, servers []net.IP) string {
	said := slices.ContainsFunc(l.DHCP.Options, func(o config.Option) bool { return o.Code == 42 })
	want := l.Address4.Addr().String()
	if said || !b.givesTime() || len(servers) == 1 && servers[0].String() == want {
		return ""
	}
	return fmt.Sprintf("time servers %v, not %s", servers, want)
}
