package api

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TrafficQuery is what of the traffic is asked for.
type TrafficQuery struct {
	Watch bool          // again and again
	Every time.Duration // that rates are of; 0: TrafficEvery
	Most  int           // hosts and flows that are listed; 0: TrafficListed
	Sort  string        // one of TrafficSorts; "": the first
}

// What a TrafficQuery may say, and what it says if it says nothing.
const (
	TrafficEvery     = 2 * time.Second
	MinTrafficEvery  = time.Second / 2
	MaxTrafficEvery  = time.Hour
	TrafficListed    = 20
	MaxTrafficListed = 1000
)

// TrafficSorts are what hosts and flows can be ordered by, the most first: bits both
// ways, down, up, packets, and bytes since what is counted began.
var TrafficSorts = []string{"rate", "down", "up", "packets", "total"}

// Check says all that is wrong with q, which says all.
func (q TrafficQuery) Check() error {
	var all []error
	if q.Every < MinTrafficEvery || q.Every > MaxTrafficEvery {
		all = append(all, fmt.Errorf("an interval of %v is not within %v and %v", q.Every, MinTrafficEvery, MaxTrafficEvery))
	}
	if q.Most < 1 || q.Most > MaxTrafficListed {
		all = append(all, fmt.Errorf("%d can't be listed: 1 to %d", q.Most, MaxTrafficListed))
	}
	if !slices.Contains(TrafficSorts, q.Sort) {
		all = append(all, fmt.Errorf("nothing is sorted by %q: %s", q.Sort, strings.Join(TrafficSorts, ", ")))
	}
	return errors.Join(all...)
}

func (q TrafficQuery) values() url.Values {
	v := url.Values{}
	if q.Watch {
		v.Set("watch", "")
	}
	if q.Every != 0 {
		v.Set("interval_s", strconv.FormatFloat(q.Every.Seconds(), 'f', -1, 64))
	}
	if q.Most != 0 {
		v.Set("n", strconv.Itoa(q.Most))
	}
	if q.Sort != "" {
		v.Set("sort", q.Sort)
	}
	return v
}

// trafficQuery reads a query, and says all that is wrong with it.
func trafficQuery(v url.Values) (TrafficQuery, error) {
	q := TrafficQuery{Watch: v.Has("watch"), Every: TrafficEvery, Most: TrafficListed, Sort: TrafficSorts[0]}
	var all []error
	for name := range v {
		if !slices.Contains([]string{"watch", "interval_s", "n", "sort"}, name) {
			all = append(all, fmt.Errorf("%s says nothing here", name))
		}
	}
	if v.Has("interval_s") {
		s, err := strconv.ParseFloat(v.Get("interval_s"), 64)
		if err != nil || !(s > 0 && s <= MaxTrafficEvery.Seconds()) {
			all = append(all, fmt.Errorf("interval_s=%s is no interval: %v to %v", v.Get("interval_s"), MinTrafficEvery.Seconds(), MaxTrafficEvery.Seconds()))
		} else {
			q.Every = max(time.Duration(s*float64(time.Second)), 1)
		}
	}
	if v.Has("n") {
		n, err := strconv.Atoi(v.Get("n"))
		if err != nil || n < 1 {
			all = append(all, fmt.Errorf("n=%s is not how many are to be listed: 1 to %d", v.Get("n"), MaxTrafficListed))
		} else {
			q.Most = n
		}
	}
	if v.Has("sort") {
		q.Sort = v.Get("sort")
	}
	return q, errors.Join(append(all, q.Check())...)
}

// Traffic is who sends how much: GET /v1/traffic. Down is towards a host, up from it;
// of a WAN down is what the ISP sends.
type Traffic struct {
	At         time.Time     `json:"at"`
	MonotonicS float64       `json:"monotonic_s"` // CLOCK_MONOTONIC, when it was read
	IntervalS  float64       `json:"interval_s"`  // that the rates are of
	WANs       []WANTraffic  `json:"wans"`        // in file order
	Main       MainTraffic   `json:"main"`
	Hosts      []HostTraffic `json:"hosts"`      // the busiest first
	HostCount  int           `json:"host_count"` // of all that have flows
	Flows      []FlowTraffic `json:"flows"`      // the busiest first; none that was silent
	FlowCount  int           `json:"flow_count"` // of all
	Uncounted  int           `json:"uncounted,omitempty"`
}

// Volume is how much went one way.
type Volume struct {
	Bytes       uint64  `json:"bytes"` // since what is counted began
	Packets     uint64  `json:"packets"`
	BitsPerS    float64 `json:"bits_per_s"`
	PacketsPerS float64 `json:"packets_per_s"`
}

// WANTraffic is what passes a line's port, as that counts it: whole frames, and what
// is no flow's as well.
type WANTraffic struct {
	Name  string `json:"name"`
	Down  Volume `json:"down"`
	Up    Volume `json:"up"`
	Flows int    `json:"flows"`

	// FastPercent is the share of IP packets that took the shortcut, both ways. Left
	// out: there is no shortcut, or no packet passed.
	FastPercent *float64 `json:"fast_percent,omitempty"`

	Slow        []SlowTraffic `json:"slow,omitempty"`          // those that did not, by why; left out: there is no shortcut
	FastPath    string        `json:"fast_path"`               // the shortcut's form: "tc" or "off"
	FastPathWhy string        `json:"fast_path_why,omitempty"` // why it is off
}

// MainTraffic is how packets pass main, between the LANs and the lines: those of
// established flows are carried from port to port.
type MainTraffic struct {
	FastPath    string        `json:"fast_path"` // its form on the LANs: "tc", or "off" where it is on none
	FastPathWhy string        `json:"fast_path_why,omitempty"`
	FastPercent *float64      `json:"fast_percent,omitempty"` // of the IP packets that came to main; left out: it is off, or none came
	Slow        []SlowTraffic `json:"slow,omitempty"`         // those that main passed itself, by why
}

// Why packets do not take the fast path: a line's shortcut, or that of main's flows.
const (
	SlowFirst    = "first"    // of a TCP connection (SYN): its MSS is clamped
	SlowProtocol = "protocol" // neither TCP nor UDP
	SlowFragment = "fragment"
	SlowOdd      = "odd"     // options, the last hop, a length that is not so
	SlowRead     = "read"    // DNS answers and DHCP
	SlowLong     = "long"    // longer than the next link takes
	SlowAddress  = "address" // one is not known to be ours or beyond
	SlowNoHop    = "no_hop"  // no next hop is known

	SlowKind     = "kind"     // of main: what the program leaves to main always, as SYN, FIN, fragments, and what is no TCP or UDP
	SlowNoFlow   = "no_flow"  // of no flow that is carried: young ones, and such as are main's own or are to be seen by its rules
	SlowShut     = "shut"     // while rules or routes change
	SlowAsleep   = "asleep"   // nobody has looked after the flows for 30 s
	SlowStale    = "stale"    // of flows that are closing, or have to be judged again
	SlowChecksum = "checksum" // the transport's is wrong
)

// SlowTraffic are packets that were left to the line's namespace.
type SlowTraffic struct {
	Why         string  `json:"why"`
	Packets     uint64  `json:"packets"`
	PacketsPerS float64 `json:"packets_per_s"`
}

// HostTraffic is a device of a LAN, or the gateway itself.
type HostTraffic struct {
	Name        string   `json:"name,omitempty"`
	LAN         string   `json:"lan,omitempty"` // left out: the gateway itself
	Addresses   []string `json:"addresses"`     // that it has flows with
	Down        Volume   `json:"down"`          // of the flows that there are now
	Up          Volume   `json:"up"`
	Flows       int      `json:"flows"`
	FastPercent *float64 `json:"fast_percent,omitempty"` // of its packets; left out: flows have no fast path here, or none passed
}

// FlowTraffic is a flow as its host sees it: that of a LAN; of two who began it.
type FlowTraffic struct {
	Protocol    string   `json:"protocol"`
	Host        string   `json:"host"` // address and port, untranslated
	Name        string   `json:"name,omitempty"`
	LAN         string   `json:"lan,omitempty"`
	Peer        string   `json:"peer"`
	PeerName    string   `json:"peer_name,omitempty"`
	WAN         string   `json:"wan,omitempty"`     // left out: by none
	Inbound     bool     `json:"inbound,omitempty"` // the peer began it
	Dialled     string   `json:"dialled,omitempty"` // whom who began it dialled; left out: who answers
	Seen        string   `json:"seen,omitempty"`    // who began it, as who answers sees it; left out: as it is
	Down        Volume   `json:"down"`
	Up          Volume   `json:"up"`
	FastPercent *float64 `json:"fast_percent,omitempty"`
}
