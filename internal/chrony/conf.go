package chrony

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// Where things are within Config.Dir and Config.Run.
const (
	confFile  = "chrony.conf"
	hostsFile = "hosts"
	knownFile = "addresses.json"
	workDir   = "work" // chronyd's own: the clock's drift, NTS cookies

	socketFile = "chronyd.sock"
	pidFile    = "chronyd.pid"
	setFile    = "set" // there since the clock was set in this boot
)

// Conf is chrony.conf. set says that the clock was set since the machine was
// started: then it is never stepped again, but for an owner who does.
func Conf(c Config, set bool) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("# weir makes this file, and makes it again whenever something changes.")
	of, ours := c.servers()
	nts := false
	for _, s := range of {
		text := "server " + s.String() + " iburst offline" // until a line works
		if s.NTS {
			text, nts = text+" nts", true
		}
		if ours {
			// The first three answers within two seconds, not six: then the time is known.
			// The worker makes it a minute once it is (see settle).
			text += " minpoll 0 maxpoll 10"
		}
		line("%s", text)
	}
	// A majority of three or more, so that one alone moves nothing while the others are silent.
	if len(of) > 2 {
		line("minsources %d", len(of)/2+1)
	}
	if c.Steer {
		line("rtcsync")
	}
	if c.Steer && !set {
		line("makestep 0.1 3")
		if nts {
			line("nocerttimecheck 1") // by a clock of 1970 no certificate is valid yet
		}
	}
	work := filepath.Join(c.Dir, workDir)
	line("driftfile %s", filepath.Join(work, "drift"))
	if nts {
		line("ntsdumpdir %s", work)
	}
	if c.Serve {
		line("port 123")
		for _, p := range c.allowed() {
			line("allow %s", p)
		}
	} else {
		line("port 0")
	}
	line("cmdport 0")
	line("bindcmdaddress %s", filepath.Join(c.Run, socketFile))
	line("pidfile %s", filepath.Join(c.Run, pidFile))
	return b.String()
}

// allowed are the networks that are served, in an order that is always the same.
func (c Config) allowed() []netip.Prefix {
	if !c.Serve {
		return nil
	}
	out := []netip.Prefix{netip.MustParsePrefix("fe80::/10")} // a LAN's own: nothing comes in from a line
	for _, p := range c.Allow {
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// bare is a configuration without what can be changed while chronyd runs.
func (c Config) bare() Config {
	c.Allow = nil
	return c
}

// Hosts is chronyd's /etc/hosts: the addresses of the servers that have names, of
// the family that works, IPv4 first, where both do. A server is asked at one
// address of each operator, so that each has one vote.
func Hosts(c Config, known map[string][]netip.Addr) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# weir makes this file for chronyd.")
	for _, name := range c.names() {
		of := known[name]
		if len(of) == 0 {
			of = builtIn[name]
		}
		for _, a := range pick(c, of) {
			fmt.Fprintf(&b, "%s %s\n", a, name)
		}
	}
	return b.String()
}

// pick are the addresses that a server is asked at: IPv4, unless only IPv6 works
// or it has no other.
func pick(c Config, of []netip.Addr) []netip.Addr {
	six := c.V6 && !c.V4
	first := slices.DeleteFunc(slices.Clone(of), func(a netip.Addr) bool { return a.Is6() != six })
	if len(first) == 0 {
		return of
	}
	return first
}
