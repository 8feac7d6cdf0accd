package named

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// A Forwarder is whom named asks for what is in a zone.
type Forwarder struct {
	Zone   string // no trailing dot; "" is all that no other zone has
	Server netip.AddrPort
}

// Silent is a forwarder that gives no answer.
type Silent struct {
	Forwarder
	Why string
}

// forwarders are those of a configuration.
func forwarders(c Config) (out []Forwarder) {
	for _, s := range c.Upstreams {
		out = append(out, Forwarder{"", s})
	}
	for _, z := range c.Zones {
		for _, s := range z.Forward {
			out = append(out, Forwarder{strings.TrimSuffix(z.Name, "."), s})
		}
	}
	return out
}

// unanswered is how named tells of a server that refused or could not be reached
// (lib/dns/resolver.c, add_bad), and failed how it tells of a name that nobody gave an
// answer for, which is all that is heard of servers that are silent (lib/ns/query.c).
var (
	unanswered = regexp.MustCompile(`^.+ resolving '([^' ]*)/[A-Z0-9]+/IN': ([0-9A-Fa-f.:]+)(?:%\S+)?#(\d{1,5})$`)
	failed     = regexp.MustCompile(`^(\S+) resolver failure, stale answer `)
)

// suspects are those of the forwarders that a line of named's log complains of.
func suspects(of []Forwarder, text string) (out []Forwarder) {
	var name string
	var server netip.AddrPort // not valid: all of the name's zone
	if m := failed.FindStringSubmatch(text); m != nil {
		name = m[1]
	} else if m := unanswered.FindStringSubmatch(text); m != nil {
		var err error
		if server, err = netip.ParseAddrPort(net.JoinHostPort(m[2], m[3])); err != nil {
			return nil
		}
		name = m[1]
	} else {
		return nil
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	zone, some := "", false // the nearest to the name
	for _, f := range of {
		if (f.Zone == "" || name == f.Zone || strings.HasSuffix(name, "."+f.Zone)) && (!some || len(f.Zone) > len(zone)) {
			zone, some = f.Zone, true
		}
	}
	for _, f := range of {
		if some && f.Zone == zone && (!server.IsValid() || f.Server == server) {
			out = append(out, f)
		}
	}
	return out
}

// A watch knows which forwarders give no answer. One question without an answer
// may be the name's fault: who is suspected is asked for the zone itself, and whoever does
// not answer that is asked again until he does.
type watch struct {
	of     []Forwarder
	silent []Silent
	asking []Forwarder
	heard  chan Silent // what came of asking; an empty Why: an answer
}

func newWatch() *watch { return &watch{heard: make(chan Silent)} }

// keep goes on with the forwarders of another configuration, and says whether there are others.
func (w *watch) keep(of []Forwarder) (others bool) {
	others = !slices.Equal(w.of, of)
	w.of = of
	w.silent = slices.DeleteFunc(slices.Clone(w.silent), func(s Silent) bool { return !slices.Contains(of, s.Forwarder) })
	return others
}

// ask asks f, unless that is under way.
func (w *watch) ask(ctx context.Context, f Forwarder) {
	if slices.Contains(w.asking, f) || !slices.Contains(w.of, f) {
		return
	}
	w.asking = append(w.asking, f)
	go func() { // ends with ctx, or when the watch has heard
		s := Silent{Forwarder: f}
		if err := answers(ctx, f); err != nil {
			s.Why = err.Error()
		}
		select {
		case w.heard <- s:
		case <-ctx.Done():
		}
	}()
}

// askAll asks everybody: of two servers of a zone the one that is silent is missed by nobody.
func (w *watch) askAll(ctx context.Context) {
	for _, f := range w.of {
		w.ask(ctx, f)
	}
}

// askAgain asks those that gave no answer.
func (w *watch) askAgain(ctx context.Context) {
	for _, s := range w.silent {
		w.ask(ctx, s.Forwarder)
	}
}

// take takes what came of asking in, and says whether it is news.
func (w *watch) take(s Silent, log *slog.Logger) (news bool) {
	w.asking = slices.DeleteFunc(w.asking, func(f Forwarder) bool { return f == s.Forwarder })
	if !slices.Contains(w.of, s.Forwarder) {
		return false // the file has it no more
	}
	zone := s.Zone
	if zone == "" {
		zone = "."
	}
	i := slices.IndexFunc(w.silent, func(o Silent) bool { return o.Forwarder == s.Forwarder })
	out := slices.Clone(w.silent) // the last report has the old one
	switch {
	case i < 0 && s.Why == "":
		return false
	case i < 0:
		log.Warn("whom a zone is forwarded to gives no answer", "zone", zone, "server", s.Server, "err", s.Why, "again_in", silentAgain)
		out = append(out, s)
	case s.Why == "":
		log.Info("whom a zone is forwarded to answers again", "zone", zone, "server", s.Server)
		out = slices.Delete(out, i, i+1)
	case out[i] == s:
		return false
	default:
		out[i] = s
	}
	w.silent = out
	return true
}

const (
	allAgain     = 10 * time.Minute // from one question to all forwarders to the next
	othersAsked  = 10 * time.Second // from forwarders that are new to the first: a line that came up has its routes
	silentAgain  = 10 * time.Second // from one question to a silent forwarder to the next
	silentWithin = 2 * time.Second  // for each of two; named itself goes on to the next server after 0.8 s
)

// answers asks a forwarder for its zone's SOA, twice, as one packet may be lost.
func answers(ctx context.Context, f Forwarder) (err error) {
	for range 2 {
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(f.Zone), dns.TypeSOA)
		var r *dns.Msg
		r, _, err = (&dns.Client{Timeout: silentWithin}).ExchangeContext(ctx, m, f.Server.String())
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = fmt.Errorf("not within %s", silentWithin)
		case err != nil:
			if op := (*net.OpError)(nil); errors.As(err, &op) {
				err = op.Err // the addresses are known
			}
		case r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError:
			err = fmt.Errorf("it answers %s", dns.RcodeToString[r.Rcode])
		default:
			return nil
		}
	}
	return err
}
