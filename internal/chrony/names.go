package chrony

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/miekg/dns"

	"weir/internal/durable"
)

// When servers' addresses are looked up: once a day, and sooner where that failed.
const (
	lookUpEvery = 24 * time.Hour
	lateBy      = 30 * time.Second // it may be, after the machine slept: timers stand still then
	lookUpSoon  = time.Second
	lookUpLate  = time.Hour // the longest after failures
	askTimeout  = 4 * time.Second
	mostAddrs   = 8 // of a name
)

// names are the addresses of servers that have names. They are looked up on a
// goroutine of its own, one at a time, and taken in by the worker's.
type names struct {
	log   *slog.Logger
	known map[string][]netip.Addr // as stored

	ask    *time.Timer
	found  chan map[string][]netip.Addr
	asking bool
	wait   time.Duration // after the next failure
	due    time.Duration // a day after all were found: the machine's time since its boot
}

func newNames(log *slog.Logger) *names {
	n := &names{log: log, ask: time.NewTimer(time.Hour), found: make(chan map[string][]netip.Addr, 1), wait: lookUpSoon}
	n.ask.Stop()
	return n
}

// load takes in what is stored. All names are to be looked up: there may be new ones.
func (n *names) load(c Config) {
	n.due = 0
	n.known = map[string][]netip.Addr{}
	if err := durable.Machine.Recover(filepath.Join(c.Dir, knownFile), &n.known); err != nil {
		n.log.Error("the time servers' addresses that were found are lost; they are looked up again", "err", err)
		n.known = map[string][]netip.Addr{}
	}
}

// soon has them looked up in a moment, unless that was done today.
func (n *names) soon() { n.ask.Reset(lookUpSoon) }

// lookUp asks for the addresses of all names, if that was not done in the day
// before up.
func (n *names) lookUp(ctx context.Context, c Config, up time.Duration) {
	if up < n.due {
		n.ask.Reset(min(n.due-up, lateBy))
		return
	}
	of := c.names()
	if n.asking || len(of) == 0 || !c.Resolver.IsValid() {
		return
	}
	n.asking = true
	go func() {
		out := map[string][]netip.Addr{}
		for _, name := range of {
			a, err := addresses(ctx, c.Resolver.String(), name)
			if err != nil {
				n.log.Debug("a time server's address was not found", "name", name, "err", err)
				continue
			}
			out[name] = a
		}
		n.found <- out // there is room for one, and one asks at a time
	}()
}

// take takes in what was found, and says whether anything changed. The next time
// is a day away if all were found.
func (n *names) take(c Config, found map[string][]netip.Addr, up time.Duration) bool {
	n.asking = false
	if all := c.names(); len(found) < len(all) {
		n.ask.Reset(n.wait)
		n.wait = min(2*n.wait, lookUpLate)
	} else {
		n.ask.Reset(lateBy)
		n.wait, n.due = lookUpSoon, up+lookUpEvery
	}
	changed := false
	times := map[netip.Addr]int{}
	for _, of := range found {
		for _, a := range of {
			times[a]++
		}
	}
	for name, a := range found {
		// An address that several names have is a captive portal's, which answers whatever is asked.
		a = slices.DeleteFunc(slices.Clone(a), func(a netip.Addr) bool { return times[a] > 1 })
		if len(a) > 0 && !reflect.DeepEqual(n.known[name], a) {
			n.log.Info("a time server's addresses", "name", name, "addrs", a, "before", n.known[name])
			n.known[name], changed = a, true
		}
	}
	if !changed {
		return false
	}
	if err := durable.Machine.Keep(filepath.Join(c.Dir, knownFile), n.known); err != nil {
		n.log.Error("the time servers' addresses are not stored, and would not survive a restart", "err", err)
	}
	return true
}

// addresses asks a resolver for a name's addresses, without validation: by a clock
// that is wrong no signature is right.
func addresses(ctx context.Context, resolver, name string) ([]netip.Addr, error) {
	var out []netip.Addr
	var errs error
	for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m := new(dns.Msg)
		m.SetQuestion(dns.Fqdn(name), t)
		m.CheckingDisabled = true
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		r, err := dns.ExchangeContext(ctx, m, resolver)
		cancel()
		if err == nil && r.Rcode != dns.RcodeSuccess {
			err = fmt.Errorf("%s: %s", name, dns.RcodeToString[r.Rcode])
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		for _, rr := range r.Answer {
			var a netip.Addr
			switch rr := rr.(type) {
			case *dns.A:
				a, _ = netip.AddrFromSlice(rr.A.To4())
			case *dns.AAAA:
				a, _ = netip.AddrFromSlice(rr.AAAA)
			}
			if a.IsValid() && usable(name, a) && len(out) < mostAddrs {
				out = append(out, a)
			}
		}
	}
	if errs != nil {
		return nil, errs // half of them would take the place of all
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no address", name)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// usable says whether a can be the address of a server: one of the house may be
// in it, one of the world not. A captive portal says otherwise.
func usable(name string, a netip.Addr) bool {
	if builtIn[name] != nil {
		return a.IsGlobalUnicast() && !a.IsPrivate()
	}
	return a.IsGlobalUnicast()
}
