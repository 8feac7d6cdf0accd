package gateway

import (
	"time"

	"weir/internal/config"
)

// releaseWait is how long it may take until leases are given back: until a DHCPv4
// client has sent its message, and a DHCPv6 server said that it heard. No line is
// judged meanwhile.
const releaseWait = 300 * time.Millisecond

// released are the lines that were leased something which was given back.
type released struct{ four, six []string }

// release gives back what the lines were leased and cfg asks for no more; nil asks for
// nothing. That is for good: a restart, or a file on trial, gives nothing back.
func (d *daemon) release(cfg *config.Config) released {
	limit := time.After(releaseWait)
	wan := func(name string) config.WAN {
		if cfg != nil {
			if w := cfg.WAN(name); w != nil {
				return *w
			}
		}
		return config.WAN{} // asks for nothing
	}
	return released{
		four: d.release4(limit, func(name string) bool { return wan(name).IPv4.Method == config.MethodDHCP }),
		six: d.release6(limit, func(name string) (address bool, prefix int) {
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

// await waits for all of asked, or for limit.
func await(asked []<-chan struct{}, limit <-chan time.Time) {
	for _, done := range asked {
		select {
		case <-done:
		case <-limit:
			return
		}
	}
}
