// Package lab simulates what surrounds a gateway: ISPs with their faults, the
// internet behind them, and the LANs' clients.
//
//	          isp-fiber ---- inet-fiber          the internet as fiber shows it
//	         / cust0  up0 ==== eth0
//	    eth1/
//	gateway                                      the machine under trial
//	    eth2\
//	   eth0  \ isp-lte ------ inet-lte           the internet as lte shows it
//	     |
//	   switch ---- client-home, host-nas, ...
//
// A lab lives in mount, pid, UTS and network namespaces of its own (in a user
// namespace too where there is no root), made by Command and furnished by Enter
// in the new process, which is its pid 1: whatever ends that process, kill -9
// included, ends all that ran in it and leaves nothing. The namespace that
// process starts in is the gateway machine; the other machines are namespaces
// under /run/netns, where `ip netns exec` finds them. None has a link to the
// network of the machine outside.
//
// A line can be a Link: two TAPs with delay, jitter, loss, rate and a queue
// between them, each direction by itself, in place of what netem would do.
//
// What a lab says of a gateway is taken from packets: what a client got, what an
// ISP's router saw on the wire, whom an internet host heard.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
)

// Lab is the machines of one lab.
type Lab struct {
	Log   *slog.Logger
	Clock Clock

	ctx  context.Context
	stop context.CancelFunc
	wait sync.WaitGroup
	root root

	mu     sync.Mutex
	hosts  map[string]*Host
	names  map[string][]netip.Addr // on the internet, of their own
	sites  map[netip.AddrPort]*handed
	trunks map[string]string // the gateway's port: the link at the other end
	close  []func() error
}

// New starts a lab in the namespaces that Enter furnished. Its only machine is
// the gateway, which has nothing but lo.
func New(ctx context.Context, log *slog.Logger) (*Lab, error) {
	ctx, stop := context.WithCancel(ctx)
	l := &Lab{Log: log, ctx: ctx, stop: stop, hosts: map[string]*Host{}, trunks: map[string]string{}}
	l.names, l.sites = map[string][]netip.Addr{}, map[netip.AddrPort]*handed{}
	l.Clock.open(time.Now())
	var err error
	if l.root, err = newRoot(); err != nil {
		stop()
		return nil, err
	}
	gw, err := l.open("")
	if err != nil {
		stop()
		return nil, err
	}
	l.hosts[""] = gw
	// As on any machine: what its own programs are told comes by lo.
	if err := gw.Up("lo"); err != nil {
		stop()
		return nil, err
	}
	return l, nil
}

// Gateway is the machine under trial.
func (l *Lab) Gateway() *Host { return l.Host("") }

// Host returns the machine called name, or nil.
func (l *Lab) Host(name string) *Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[name]
}

// Close stops what the lab's own goroutines do and closes their sockets. The
// namespaces end with the process.
func (l *Lab) Close() error {
	l.stop()
	l.mu.Lock()
	fs := l.close
	l.close = nil
	l.mu.Unlock()
	var errs []error
	for i := len(fs) - 1; i >= 0; i-- {
		errs = append(errs, fs[i]())
	}
	l.wait.Wait()
	return errors.Join(errs...)
}

// onClose has f called by Close, last one first.
func (l *Lab) onClose(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close = append(l.close, f)
}

// run starts f on a goroutine that Close waits for.
func (l *Lab) run(f func()) { l.wait.Go(f) }

// Until calls done every few milliseconds until it says yes or the time is over,
// and tells which. It is for what the kernel announces to nobody. To ask may be dear,
// as where a program is started for it: the pause is as long as the question took.
func Until(ctx context.Context, limit time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		asked := time.Now()
		if done() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(max(5*time.Millisecond, time.Since(asked)), 50*time.Millisecond)):
		}
	}
}

// Documentation addresses (RFC 5737, 3849) that the lab's internet has beside
// those that the file under trial names.
var (
	web4 = netip.MustParseAddr("192.0.2.80")
	web6 = netip.MustParseAddr("2001:db8:80::80")
)

// Web returns an address of the internet's server in the family.
func Web(v6 bool) netip.Addr {
	if v6 {
		return web6
	}
	return web4
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
