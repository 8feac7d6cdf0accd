package desired

import "weir/internal/config"

// Flows are the links of main that the fast path carries established flows between
// (internal/fastpath).
type Flows struct{ Ports []FlowPort }

// FlowPort is a LAN's link, or a line's cable.
type FlowPort struct {
	Link string
	Line uint8  `json:",omitempty"` // the line's index; 0: a LAN's
	NS   string `json:",omitempty"` // the namespace of the cable's other end
}

// Links are the ports' names, in order.
func (f *Flows) Links() (names []string) {
	if f == nil {
		return nil
	}
	for _, p := range f.Ports {
		names = append(names, p.Link)
	}
	return names
}

// fast says whether there is to be a fast path.
func (b *build) fast() bool {
	f := b.cfg.Gateway.FastPath
	return f != config.FastPathOff && f != "" && b.st.Machine.FastPath
}

// flows are those of main; nil where there are none.
func (b *build) flows() *Flows {
	if !b.fast() {
		return nil
	}
	f := &Flows{}
	for _, l := range b.lans {
		if l.links != nil {
			f.Ports = append(f.Ports, FlowPort{Link: l.link})
		}
	}
	for _, w := range b.wans {
		f.Ports = append(f.Ports, FlowPort{Link: w.Name, Line: w.Index, NS: w.ns})
	}
	if len(f.Ports) == 0 {
		return nil
	}
	return f
}
