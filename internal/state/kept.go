package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kept is what of the state survives a power cut.
type Kept struct {
	ULA    netip.Prefix      // invalid: none was made yet
	Index  map[string]uint8  // each WAN that the house ever had; never nil
	WANs   map[string]Lease4 // last lease of each WAN; never nil
	WANs6  map[string]Lease6 // what was last leased to each WAN by DHCPv6; never nil
	LANs   map[string]uint16 // each LAN that the house ever had; never nil
	DUID   string            // who the house is to DHCPv6 servers, in hex; "": none was made yet
	Told   map[string][]Told // prefixes that were advertised on a LAN; never nil
	Leases []Lease           // the clients', by LAN and address
	Choice Choice            // of a line, by a person; the zero Choice is none
	Force  Force             // which file is in force; the zero Force: none ever was
}

// Choice says that new connections are to take a WAN while it works.
type Choice struct {
	WAN   string    `json:"wan"`
	By    string    `json:"by"` // who said so
	Since time.Time `json:"since"`
}

// Force says which file is in force; internal/history has the files.
type Force struct {
	ID    uint64 `json:"id"`
	Sum   string `json:"sum"`           // of its text
	Run   string `json:"run,omitempty"` // of the text that the last start read
	Trial *Trial `json:"trial,omitempty"`
}

// Trial is a file that is in force until a time, unless somebody confirms it. It is
// measured by the boot: another boot ends it, and setting the clock does not.
type Trial struct {
	Before uint64        `json:"before"` // the ID of what comes back
	Boot   string        `json:"boot"`   // Clock.Boot
	Until  time.Duration `json:"until"`  // Clock.Up
}

// Left is how long the trial lasts yet; 0 or less: it is over.
func (t Trial) Left(c Clock) time.Duration {
	if t.Boot != c.Boot {
		return 0
	}
	return t.Until - c.Up
}

// Told is a delegated prefix that was advertised on a LAN. At is when that ended;
// zero: it goes on.
type Told struct {
	Prefix netip.Prefix
	For    time.Duration // how long it was said to be valid at most
	At     time.Time     // wall clock
	Boot   string        // Clock.Boot at the time of At
	Up     time.Duration // Clock.Up at the time of At
}

// Age is how long ago it was last advertised, as far as can be known: see
// Lease.Remaining. It is never negative, and 0 while that goes on.
func (t Told) Age(c Clock) time.Duration {
	if t.At.IsZero() {
		return 0
	}
	age, _ := c.since(t.At, t.Boot, t.Up)
	return age
}

// Item is something to keep: Put it.
type Item struct {
	key string
	val json.RawMessage // null deletes
	err error
}

// The first part of a key says what it is.
const (
	keyULA    = "ula"
	keyIndex  = "index"
	keyWAN    = "wan4"
	keyLease  = "lease"
	keyChoice = "use"
	keyWAN6   = "wan6"
	keyLAN    = "lan"
	keyDUID   = "duid"
	keyTold   = "told"
	keyForce  = "force"
)

func item(value any, parts ...string) Item {
	i := Item{key: strings.Join(parts, "/")}
	i.val, i.err = json.Marshal(value)
	if i.err != nil {
		i.err = fmt.Errorf("encode %q for the store: %w", i.key, i.err)
	} else if len(i.key)+len(i.val) > maxRecord-recordRoom {
		i.err = fmt.Errorf("%q has %d bytes: too many for the store", i.key, len(i.val))
	}
	return i
}

// KeepULA keeps the house's own /48.
func KeepULA(p netip.Prefix) Item { return item(p, keyULA) }

// KeepIndex keeps the number of a WAN.
func KeepIndex(wan string, index uint8) Item { return item(index, keyIndex, wan) }

// KeepChoice keeps what a person chose; nil forgets it.
func KeepChoice(c *Choice) Item { return item(c, keyChoice) }

// KeepForce keeps which file is in force.
func KeepForce(f Force) Item { return item(f, keyForce) }

// KeepWAN keeps the lease that a WAN holds; nil forgets it.
func KeepWAN(wan string, l *Lease4) Item { return item(l, keyWAN, wan) }

// KeepWAN6 keeps what is leased to a WAN by DHCPv6; nil forgets it.
func KeepWAN6(wan string, l *Lease6) Item { return item(l, keyWAN6, wan) }

// KeepLAN keeps the number of a LAN.
func KeepLAN(lan string, n uint16) Item { return item(n, keyLAN, lan) }

// KeepDUID keeps who the house is to DHCPv6 servers.
func KeepDUID(hex string) Item { return item(hex, keyDUID) }

// KeepTold keeps which delegated prefixes were advertised on a LAN; none forgets it.
func KeepTold(lan string, t []Told) Item {
	if len(t) == 0 {
		return item(nil, keyTold, lan)
	}
	return item(t, keyTold, lan)
}

// KeepLease keeps a client's lease in the place of any that its address had.
func KeepLease(l Lease) Item {
	if l.Part > 0 {
		return item(l, keyLease, l.LAN, "part", strconv.FormatUint(uint64(l.Part), 10))
	}
	return item(l, keyLease, l.LAN, l.Addr.String())
}

// ForgetLease forgets that an address of a LAN was ever leased.
func ForgetLease(lan string, addr netip.Addr) Item {
	return item(nil, keyLease, lan, addr.String())
}

// kept reads the stored values. What can't be understood is told, and left out.
func kept(values map[string]json.RawMessage) (Kept, []string) {
	k := Kept{Index: map[string]uint8{}, WANs: map[string]Lease4{}, WANs6: map[string]Lease6{}, LANs: map[string]uint16{}, Told: map[string][]Told{}}
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		kind, name, _ := strings.Cut(key, "/")
		val := values[key]
		var err error
		switch kind {
		case "format":
		case keyULA:
			err = json.Unmarshal(val, &k.ULA)
		case keyIndex:
			var i uint8
			if err = json.Unmarshal(val, &i); err == nil {
				k.Index[name] = i
			}
		case keyChoice:
			err = json.Unmarshal(val, &k.Choice)
		case keyForce:
			err = json.Unmarshal(val, &k.Force)
		case keyWAN:
			var l Lease4
			if err = json.Unmarshal(val, &l); err == nil {
				k.WANs[name] = l
			}
		case keyWAN6:
			var l Lease6
			if err = json.Unmarshal(val, &l); err == nil {
				k.WANs6[name] = l
			}
		case keyLAN:
			var n uint16
			if err = json.Unmarshal(val, &n); err == nil {
				k.LANs[name] = n
			}
		case keyDUID:
			err = json.Unmarshal(val, &k.DUID)
		case keyTold:
			var t []Told
			if err = json.Unmarshal(val, &t); err == nil {
				k.Told[name] = t
			}
		case keyLease:
			var l Lease
			if err = json.Unmarshal(val, &l); err == nil {
				k.Leases = append(k.Leases, l)
			}
		default:
			err = fmt.Errorf("nothing of this kind is known")
		}
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("stored %q is left out: %v", key, err))
		}
	}
	slices.SortFunc(k.Leases, func(a, b Lease) int {
		return cmp.Or(strings.Compare(a.LAN, b.LAN), cmp.Compare(a.Part, b.Part), a.Addr.Compare(b.Addr))
	})
	return k, unknown
}
