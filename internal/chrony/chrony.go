// Package chrony has chronyd keep the house's time: from a configuration that is
// made here, with nothing of a distribution's defaults in play.
//
//	Config --text (pure)--> DIR/chrony.conf, DIR/hosts
//	                        chronyd -d -f DIR/chrony.conf
//	Report <--chronyc, at each thing that chronyd says
//
// Time needs no names: a gateway without a clock chip starts with a wrong clock,
// by which no DNSSEC signature is right, so no server's name resolves, so the
// clock stays wrong. The addresses of servers that have names are built in, looked
// up once a day, kept, and given to chronyd as its /etc/hosts. They are looked up
// without validation (RFC 4035, 3.2.2, the CD bit): an NTP server is no more to be
// trusted than its answer, and one that is asked with NTS proves who it is.
//
// chronyd never has more rights than to set the clock and to open port 123. Where
// the clock is not ours (a rehearsal, a namespace) it has not the first of them:
// it follows the time beside the clock, and serves that.
package chrony

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"weir/internal/foreign"
)

// Config is all that the worker needs to know. It is sent whole at the start and
// again whenever something of it changed.
type Config struct {
	Program Program
	Dir     string // what is kept for good, absolute: the configuration, the servers' addresses, the clock's drift
	Run     string // what is kept until the machine goes down, absolute: chronyd's socket

	Servers []Server // none: BuiltIn
	Serve   bool
	Allow   []netip.Prefix // who is served

	Steer bool // the machine's clock is set

	// Way is by which lines the servers are reached: whenever it changes they are
	// asked at once. "": there is none. V4 and V6 say in which families.
	Way    string
	V4, V6 bool

	Resolver netip.AddrPort // whom to ask for servers' addresses
}

// Server is an NTP server, by its address or its name.
type Server struct {
	Addr netip.Addr // invalid: by Name
	Name string
	NTS  bool // RFC 8915; has a Name
}

// String is the server as chronyd is told, and people.
func (s Server) String() string {
	if s.Addr.IsValid() {
		return s.Addr.String()
	}
	return s.Name
}

// Report is what the worker tells whenever it is another.
type Report struct {
	Ready   bool
	PID     int           // of chronyd
	Synced  bool          // it knows the time
	Source  string        // by whom: name or address
	Addr    netip.Addr    // where that is
	Stratum int           // of the gateway, as clients are told
	Behind  time.Duration // how much the machine's clock is behind the time; negative: ahead
	Updated time.Time     // when the source was last heard, by the machine's clock
	Sources []Source
	Err     string // what of the last configuration could not be put in force; "": all is
}

// Source is a server as chronyd judges it.
type Source struct {
	Name    string
	Addr    netip.Addr // invalid: none is known yet
	State   State
	Stratum int
	Reach   uint8         // the last eight requests, the latest in the lowest bit
	Behind  time.Duration // what the machine's clock is behind it
}

// State is what chronyd thinks of a source.
type State string

// The states.
const (
	Selected    State = "selected"
	Combined    State = "combined"    // counts too
	NotCombined State = "good"        // would do
	Falseticker State = "wrong"       // disagrees with most
	Variable    State = "variable"    // jitters too much
	Unreachable State = "unreachable" // does not answer, or not often enough yet
)

// Program is chrony as it is installed.
type Program struct {
	Path     string // of chronyd
	Control  string // of chronyc
	UID, GID uint32 // whom it runs as; 0, 0: whom weir runs as
}

// ErrMissing says that chrony is not installed.
var ErrMissing = errors.New("chrony is not installed: apt-get install chrony (on Debian)")

// daemonUser is the user that Debian's package makes for it.
const daemonUser = "_chrony"

// Find looks for chrony where distributions put it. The error is ErrMissing if it
// is not there.
func Find() (Program, error) {
	p := Program{Path: foreign.Program("chronyd"), Control: foreign.Program("chronyc")}
	if p.Path == "" || p.Control == "" {
		return Program{}, ErrMissing
	}
	var err error
	p.UID, p.GID, err = foreign.User(daemonUser)
	return p, err
}

// builtIn are anycast servers of three operators that do not smear leap seconds,
// with their addresses of 2026.
var builtIn = map[string][]netip.Addr{
	"time.cloudflare.com": addrs("162.159.200.1", "162.159.200.123", "2606:4700:f1::1", "2606:4700:f1::123"),
	"ntp.se":              addrs("194.58.200.20", "2a01:3f7::1"),   // Netnod
	"any.time.nl":         addrs("194.0.5.123", "2001:678:8::123"), // SIDN Labs
}

// BuiltIn are the servers of a house whose file names none, in this order. Each
// operator is one: of three, one that lies moves nothing.
var BuiltIn = []Server{{Name: "time.cloudflare.com"}, {Name: "ntp.se"}, {Name: "any.time.nl"}}

func addrs(text ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range text {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// servers are those of a configuration, and whether they are our choice.
func (c Config) servers() (of []Server, ours bool) {
	if len(c.Servers) == 0 {
		return BuiltIn, true
	}
	return c.Servers, false
}

// names are the names of the servers, each once.
func (c Config) names() []string {
	var out []string
	of, _ := c.servers()
	for _, s := range of {
		if !s.Addr.IsValid() && !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
	}
	return out
}
