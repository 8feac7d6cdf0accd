package plan

import (
	"slices"
	"strings"

	"weir/internal/desired"
)

// links compares the links of all namespaces together: a cable is in two of
// them, and a port may be in the wrong one.
func (d *differ) links() {
	for i := range d.want.Namespaces {
		w := &d.want.Namespaces[i]
		for _, l := range w.Links {
			switch l.Kind {
			case desired.Port:
				d.port(w.Name, l)
			case desired.Veth:
				d.cable(w.Name, l)
			case desired.Bridge, desired.VLAN:
				d.device(w.Name, l)
			default:
				d.refuse("link %s in %s has no kind", l.Name, place(w.Name))
			}
		}
	}
	d.surplusLinks()
	d.portsBack()
	// Attributes last: a master may be listed after its member. And a VLAN can't
	// be up, nor wider, before the port it sits on is.
	for _, ports := range []bool{true, false} {
		for i := range d.want.Namespaces {
			w := &d.want.Namespaces[i]
			for _, l := range w.Links {
				if (l.Kind == desired.Port) == ports {
					d.attrs(w.Name, l)
				}
			}
		}
	}
}

// cable sees to a veth pair. The end in main stands for both.
func (d *differ) cable(ns string, l desired.Link) {
	if ns != "" {
		return
	}
	near, far := linkKey{ns, l.Name}, linkKey{l.PeerNS, l.Peer}
	have := d.actual.namespace(ns).link(l.Name)
	if have != nil && have.Kind == "veth" && have.Peer == l.Peer && have.PeerNS == l.PeerNS {
		return // whoever made it: this is the cable
	}
	if have != nil && !have.Ours && !d.lastHas(ns, l) {
		d.refuse("a link called %s is in %s already, and weir did not make it. Rename it (ip link set %s name ...), or the WAN", l.Name, place(ns), l.Name)
		d.waits[near], d.waits[far] = true, true
		return
	}
	step := Step{Op: Add, NS: ns, Object: "link", Name: l.Name, New: linkText(l), Do: AddLink{NS: ns, Link: l}}
	if have != nil {
		d.unlink(ns, *have, "it is not the cable")
	}
	if d.lastHas(ns, l) && d.last(l.PeerNS).Name != "" && d.actual.namespace(l.PeerNS) != nil {
		step = mend(step)
	}
	if other := d.actual.namespace(l.PeerNS).link(l.Peer); other != nil && !d.gone[far] {
		if !other.Ours && other.Kind != "veth" {
			d.refuse("a link called %s is in %s already, and weir did not make it. Rename it (ip -n %s link set %s name ...)", l.Peer, l.PeerNS, l.PeerNS, l.Peer)
			d.waits[near], d.waits[far] = true, true
			return
		}
		d.unlink(l.PeerNS, *other, "it is not the cable")
	}
	if d.gone[near] || d.gone[far] {
		d.disturb(near)
		d.disturb(far)
	}
	d.void[near], d.void[far] = made, made
	d.add(atLink, step)
}

// device sees to a bridge or a VLAN.
func (d *differ) device(ns string, l desired.Link) {
	at := linkKey{ns, l.Name}
	if l.Kind == desired.VLAN {
		if !d.actual.Machine.VLAN {
			d.refuse("%s needs 802.1Q VLANs, and this kernel has none (module 8021q)", l.Name)
			d.waits[at] = true
			return
		}
		if d.waits[linkKey{"", l.Parent}] || (d.actual.namespace("").link(l.Parent) == nil && d.void[linkKey{"", l.Parent}] == 0) {
			d.waits[at] = true
			return // the port itself says that it is waited for
		}
	}
	if l.Kind == desired.Bridge && !d.actual.Machine.Bridge {
		d.refuse("%s needs a bridge, and this kernel has none (module bridge)", l.Name)
		d.waits[at] = true
		return
	}
	have := d.actual.namespace(ns).link(l.Name)
	if have != nil {
		ours := have.Ours || d.lastHas(ns, l)
		same := have.Kind == kindWord(l.Kind) && (l.Kind != desired.VLAN || have.VID == l.VID && have.Parent == l.Parent)
		switch {
		case same && ours:
			return
		case !ours:
			d.refuse("a link called %s is in %s already, and weir did not make it. Rename it (ip link set %s name ...), or the LAN", l.Name, place(ns), l.Name)
			d.waits[at] = true
			return
		}
		d.unlink(ns, *have, "it is not the one wanted")
		d.disturb(at)
	} else if l.Kind == desired.VLAN && d.disturbed[linkKey{"", l.Parent}] {
		d.disturb(at)
	}
	step := Step{Op: Add, NS: ns, Object: "link", Name: l.Name, New: linkText(l), Do: AddLink{NS: ns, Link: l}}
	if d.lastHas(ns, l) {
		step = mend(step)
	}
	d.void[at] = made
	d.add(atLink, step)
}

// lastHas says whether the last turn left such a link.
func (d *differ) lastHas(ns string, l desired.Link) bool {
	return slices.ContainsFunc(d.last(ns).Links, func(x desired.Link) bool {
		return x.Name == l.Name && x.Kind == l.Kind && x.VID == l.VID && x.Parent == l.Parent && x.Peer == l.Peer && x.PeerNS == l.PeerNS
	})
}

// unlink removes a link that is in the way, or not wanted any more.
func (d *differ) unlink(ns string, l Link, why string) {
	at := atUnlink
	if why == "" {
		at = atLinkGone
	}
	lost := d.lost(ns, l.Name)
	if at == atLinkGone {
		// Our routes by it go before it, each in a step of its own.
		lost.Routes = slices.DeleteFunc(lost.Routes, ourRoute)
		d.late[linkKey{ns, l.Name}] = true
	}
	if l.Kind == "veth" && l.PeerNS != "?" {
		far := d.lost(l.PeerNS, l.Peer)
		lost.Far = &far
	}
	s := Step{Op: Remove, NS: ns, Object: "link", Name: l.Name, Old: actualLinkText(l), Why: why,
		Do: DeleteLink{NS: ns, Link: asDesired(l), Lost: lost}}
	d.gone[linkKey{ns, l.Name}] = true
	if l.Kind == "veth" && l.PeerNS != "?" {
		d.gone[linkKey{l.PeerNS, l.Peer}] = true
	}
	d.add(at, d.surplus(s, slices.ContainsFunc(d.last(ns).Links, func(x desired.Link) bool { return x.Name == l.Name })))
}

// surplusLinks removes what weir made and nobody wants.
func (d *differ) surplusLinks() {
	for i := range d.actual.Namespaces {
		h := &d.actual.Namespaces[i]
		w := d.wanted(h.Name)
		for _, l := range h.Links {
			if !l.Ours || d.gone[linkKey{h.Name, l.Name}] || wantsLink(w, l.Name) {
				continue
			}
			d.unlink(h.Name, l, "")
		}
	}
}

func wantsLink(w *desired.Namespace, name string) bool {
	return w != nil && slices.ContainsFunc(w.Links, func(l desired.Link) bool { return l.Name == name })
}

// makesLink says whether a namespace has a link of that name that is no port.
func makesLink(w *desired.Namespace, name string) bool {
	return slices.ContainsFunc(w.Links, func(l desired.Link) bool { return l.Name == name && l.Kind != desired.Port })
}

// attrs compares what can be set on a link that is, or will be, there.
func (d *differ) attrs(ns string, l desired.Link) {
	at := linkKey{ns, l.Name}
	if d.waits[at] || !d.exists(at) {
		return
	}
	have := d.actual.namespace(ns).link(l.Name)
	set := SetLink{NS: ns, Link: l.Name}
	switch {
	case d.void[at] == made && l.Kind == desired.Port:
		_, from := d.locate(ns, l.Name)
		moved := *from
		moved.Up, moved.Master, moved.AddrGen = false, "", 0
		have = &moved
	case d.void[at] == made:
		// AddLink gives a cable's other end the mode of the end in main.
		have = &Link{Ours: true, AddrGen: d.addrGen(ns, l)}
		if l.Kind != desired.Veth || ns == "" {
			have.MTU, have.MAC = l.MTU, l.MAC
		}
	}
	if have.Master != "" && d.gone[linkKey{ns, have.Master}] {
		bare := *have
		bare.Master = "" // goes with the bridge
		have = &bare
	}
	if d.void[at] != made {
		set.Old, set.Lost = attrsOf(have), d.lost(ns, l.Name)
	} else if l.Kind == desired.Port {
		set.Old = attrsOf(have) // it goes back with what it had
	}
	if l.Kind != desired.Port && !have.Ours {
		set.New.Alias = Alias
	}
	if l.MTU != 0 && l.MTU != have.MTU {
		set.New.MTU = l.MTU
	}
	if l.MAC != "" && !strings.EqualFold(l.MAC, have.MAC) {
		set.New.MAC, set.Bounce = l.MAC, have.Up
	}
	// Ports keep their mode, unless Build wants none made: the user's way of
	// making addresses.
	if (l.Kind != desired.Port || l.AddrGen != 0) && l.AddrGen != have.AddrGen {
		set.New.AddrGen = &l.AddrGen
	}
	fromLast := func(same func(x desired.Link) bool) bool {
		return d.void[at] == 0 && slices.ContainsFunc(d.last(ns).Links, func(x desired.Link) bool { return x.Name == l.Name && same(x) })
	}
	last := fromLast(func(x desired.Link) bool { return x == l })
	finish := func(phase phase) {
		s, ok := setStep(set, "")
		if !ok {
			return
		}
		switch {
		case last:
			s = mend(s)
		case set.Bounce:
			s.Why = "it goes down for it, and up again"
		}
		d.add(phase, s)
	}
	if l.Master != have.Master && !d.waits[linkKey{ns, l.Master}] {
		set.New.Master = &l.Master
	}
	if set.Bounce && d.void[at] == 0 {
		d.void[at] = bounced
	}
	// A VLAN can't be wider than its port: where that is disturbed, it comes after.
	if set.Bounce || have.Up && (set.New.Master != nil || set.New.MTU != 0 && l.Kind == desired.Port) || l.Kind == desired.VLAN && d.disturbed[linkKey{"", l.Parent}] {
		d.disturb(at)
	}
	// A bridge has the MAC address of a port, and makes its own link-local address of it
	// when it comes up: a new one waits for its ports.
	if master := (linkKey{ns, l.Master}); set.New.Master != nil && d.disturbed[at] && d.void[master] == made {
		d.disturb(master)
	}
	finish(atLink)
	if l.Up != have.Up {
		set = SetLink{NS: ns, Link: l.Name, Old: set.Old, New: LinkAttrs{Up: &l.Up}, Lost: set.Lost}
		finish(atUp)
	}
}

// addrGen is the address generation mode that AddLink gives a new link.
func (d *differ) addrGen(ns string, l desired.Link) uint8 {
	if l.Kind == desired.Veth && ns != "" {
		for _, near := range d.wanted("").Links {
			if near.Kind == desired.Veth && near.Name == l.Peer {
				return near.AddrGen
			}
		}
	}
	return l.AddrGen
}

func attrsOf(l *Link) LinkAttrs {
	return LinkAttrs{Up: &l.Up, MTU: l.MTU, MAC: l.MAC, Master: &l.Master, AddrGen: &l.AddrGen}
}

// asDesired is what it takes to make a link again.
func asDesired(l Link) desired.Link {
	out := desired.Link{Name: l.Name, Up: l.Up, MTU: l.MTU, MAC: l.MAC, Master: l.Master, AddrGen: l.AddrGen}
	switch l.Kind {
	case "veth":
		out.Kind, out.Peer, out.PeerNS = desired.Veth, l.Peer, l.PeerNS
	case "bridge":
		out.Kind = desired.Bridge
	case "vlan":
		out.Kind, out.Parent, out.VID = desired.VLAN, l.Parent, l.VID
	}
	return out
}
