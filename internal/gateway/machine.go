package gateway

import (
	"fmt"
	"net/netip"
	"os"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/kernel"
	"weir/internal/plan"
)

// cuts is the error of a plan that would cut the ssh session that it is given by,
// unless that is wanted.
func cuts(s *api.Session, wanted bool, wayOut string, a plan.Actual, p plan.Plan) error {
	if s == nil || wanted {
		return nil
	}
	peer, err1 := netip.ParseAddr(s.Peer)
	local, err2 := netip.ParseAddr(s.Local)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("an ssh session from %q to %q: these are no addresses", s.Peer, s.Local)
	}
	if why := (kernel.Session{Peer: peer, Local: local}).Cut(a, p); why != "" {
		return fmt.Errorf("not done: %s. Nothing was changed; %s", why, wayOut)
	}
	return nil
}

// managers names the other programs that look after the file's ports.
func managers(c *config.Config, a plan.Actual) []string {
	var ports []string
	for _, w := range c.WANs {
		ports = append(ports, w.Interface)
	}
	for _, l := range c.LANs {
		ports = append(ports, l.Interface...)
	}
	return kernel.Managers(os.DirFS("/"), ports, func(port string) int {
		if l := linkOf(actualNamespace(a, ""), port); l != nil {
			return l.Index
		}
		return 0
	})
}
