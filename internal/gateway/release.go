package gateway

import (
	"context"
	"time"

	"weir/internal/api"
	"weir/internal/config"
)

// releaseWait is how long it may take until leases are given back: until a DHCPv4
// client has sent its message, and a DHCPv6 server said that it heard.
const releaseWait = 300 * time.Millisecond

// released are the clients, by line, that were told to give something back.
type released struct {
	four map[string]*dhcp4Client
	six  map[string]*dhcp6Client
}

// wait waits until all is given back, or for a while. It waits for the network, so the
// loop does not call it: other lines are judged meanwhile.
func (r released) wait() {
	limit := time.NewTimer(releaseWait)
	defer limit.Stop()
	var asked []<-chan struct{}
	for _, s := range r.four {
		asked = append(asked, s.released)
	}
	for _, s := range r.six {
		asked = append(asked, s.released)
	}
	for _, done := range asked {
		select {
		case <-done:
		case <-limit.C:
			return
		}
	}
}

// settle ends what was told to give back, once a file is in force that asks for nothing
// more, or could not be put in force: then the lines get others. It may be called twice.
func (d *daemon) settle(r released, inForce bool) {
	d.end4(r.four)
	if !inForce {
		d.end6(r.six, "it was given back for a file that could not be put in force")
	}
}

// releaseFor gives back what cfg asks for no more, before it is put in force: the lines'
// namespaces may go with it. For a file that is refused, or on trial, which is undone
// again, nothing is given back.
func (d *daemon) releaseFor(ctx context.Context, cfg *config.Config, c api.Change) (released, error) {
	if c.ConfirmS != 0 {
		return released{}, nil
	}
	r, err := call(ctx, d, func() (released, error) {
		if len(d.dhcp4)+len(d.dhcp6) == 0 || c.Files != nil && d.book.Trial != nil {
			return released{}, nil
		}
		if _, err := d.check(ctx, cfg, c); err != nil {
			return released{}, err
		}
		return d.release(cfg), nil
	})
	r.wait()
	return r, err
}

// afterwards has the loop settle r, whatever became of the change and of who asked for it.
func (d *daemon) afterwards(ctx context.Context, r released, cfg *config.Config) {
	if len(r.four)+len(r.six) > 0 {
		d.postSoon(context.WithoutCancel(ctx), func() { d.settle(r, d.cfg == cfg) })
	}
}

// release has given back what the lines were leased and cfg asks for no more; nil asks for
// nothing. That is for good: a restart gives nothing back.
func (d *daemon) release(cfg *config.Config) released {
	wan := func(name string) config.WAN {
		if cfg != nil {
			if w := cfg.WAN(name); w != nil {
				return *w
			}
		}
		return config.WAN{} // asks for nothing
	}
	return released{
		four: d.release4(func(name string) bool { return wan(name).IPv4.Method == config.MethodDHCP }),
		six: d.release6(func(name string) (address bool, prefix int) {
			w := wan(name)
			return wantsAddr6(w, d.world.wans[name]), w.IPv6.Delegate
		}),
	}
}

// wake tells who waits for it that what was asked for is given back.
func wake(given chan<- struct{}) {
	select {
	case given <- struct{}{}:
	default:
	}
}
