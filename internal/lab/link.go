package lab

import (
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"

	"weir/internal/netns"
)

// Plug is an end of a cable: a link of a machine. MAC is "" for a random one.
type Plug struct {
	Host *Host
	Dev  string
	MAC  string
}

// Cable joins two machines by a veth pair. Ends on the gateway are down, as
// ports are that nobody has configured; others are up.
func (l *Lab) Cable(a, b Plug) error {
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: b.Dev}
	v.Name = a.Dev
	for _, m := range []struct {
		text string
		mac  *net.HardwareAddr
	}{{a.MAC, &v.HardwareAddr}, {b.MAC, &v.PeerHardwareAddr}} {
		if m.text == "" {
			continue
		}
		mac, err := net.ParseMAC(m.text)
		if err != nil {
			return err
		}
		*m.mac = mac
	}
	f, err := os.Open(netns.Path(b.Host.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	v.PeerNamespace = netlink.NsFd(f.Fd())
	if err := a.Host.nl.LinkAdd(v); err != nil {
		return fmt.Errorf("cable from %s of %s to %s of %s: %w", a.Dev, a.Host, b.Dev, b.Host, err)
	}
	for _, p := range []Plug{a, b} {
		if p.Host.Name == "" {
			continue
		}
		if err := p.Host.Up(p.Dev); err != nil {
			return err
		}
	}
	return nil
}

// Switch is an Ethernet switch: a bridge on a machine of its own that has
// nothing else to say.
type Switch struct {
	host  *Host
	name  string
	ports int
}

// Switch makes a switch called name (at most 10 bytes). All of a lab's switches
// stand in one namespace.
func (l *Lab) Switch(name string) (*Switch, error) {
	h := l.Host("switch")
	if h == nil {
		var err error
		if h, err = l.Add("switch"); err != nil {
			return nil, err
		}
		// It forwards frames, and has no word in what they carry.
		if err := h.Sysctl("net/ipv6/conf/default/disable_ipv6", "1"); err != nil {
			return nil, err
		}
	}
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name = name
	if err := h.nl.LinkAdd(br); err != nil {
		return nil, fmt.Errorf("switch %s: %w", name, err)
	}
	return &Switch{host: h, name: name}, h.Up(name)
}

// Plug joins a machine's new link to the switch.
func (s *Switch) Plug(p Plug) error {
	s.ports++
	port := Plug{Host: s.host, Dev: fmt.Sprintf("%s-%d", s.name, s.ports)}
	if err := p.Host.lab.Cable(p, port); err != nil {
		return err
	}
	link, err := s.host.nl.LinkByName(port.Dev)
	if err != nil {
		return err
	}
	br, err := s.host.nl.LinkByName(s.name)
	if err != nil {
		return err
	}
	return wrap(s.host.nl.LinkSetMaster(link, br), "plug %s of %s into switch %s", p.Dev, p.Host, s.name)
}
