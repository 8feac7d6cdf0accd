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

// Switch is an Ethernet switch: a bridge.
type Switch struct {
	lab   *Lab
	name  string
	ports int
}

// switches is the machine in which all of a lab's switches stand. It forwards
// frames, and has no word in what they carry.
func (l *Lab) switches() (*Host, error) {
	if h := l.Host("switch"); h != nil {
		return h, nil
	}
	h, err := l.Add("switch")
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{
		"net/ipv6/conf/default/disable_ipv6":  "1",
		"net/bridge/bridge-nf-call-iptables":  "0", // br_netfilter would look into packets
		"net/bridge/bridge-nf-call-ip6tables": "0",
		"net/bridge/bridge-nf-call-arptables": "0",
	} {
		if err := h.Sysctl(key, value); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Switch makes a switch called name (at most 10 bytes).
func (l *Lab) Switch(name string) (*Switch, error) {
	h, err := l.switches()
	if err != nil {
		return nil, err
	}
	br := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	br.Name = name
	if err := h.nl.LinkAdd(br); err != nil {
		return nil, fmt.Errorf("switch %s: %w", name, err)
	}
	return &Switch{lab: l, name: name}, h.Up(name)
}

// Plug joins a machine's new link to the switch.
func (s *Switch) Plug(p Plug) error {
	h, err := s.lab.switches()
	if err != nil {
		return err
	}
	s.ports++
	port := fmt.Sprintf("%s-%d", s.name, s.ports)
	if err := s.lab.Cable(p, Plug{Host: h, Dev: port}); err != nil {
		return err
	}
	return s.take(h, port)
}

// link joins a machine's new link to the switch by a Link, a plain cable at first.
// There is from the switch.
func (s *Switch) link(p Plug, seed uint64) (*Link, error) {
	h, err := s.lab.switches()
	if err != nil {
		return nil, err
	}
	s.ports++
	port := fmt.Sprintf("%s-%d", s.name, s.ports)
	l, err := s.lab.Link(Plug{Host: h, Dev: port}, p, Shape{}, Shape{}, seed)
	if err != nil {
		return nil, err
	}
	return l, s.take(h, port)
}

// take makes a link of the switches' machine a port of the switch.
func (s *Switch) take(h *Host, dev string) error {
	link, err := h.nl.LinkByName(dev)
	if err != nil {
		return err
	}
	br, err := h.nl.LinkByName(s.name)
	if err != nil {
		return err
	}
	return wrap(h.nl.LinkSetMaster(link, br), "make %s a port of switch %s", dev, s.name)
}

// Serve joins one of the gateway's ports to the switch: its frames without a tag
// (vlan 0), or those of an 802.1Q VLAN. Several switches may serve one port.
func (s *Switch) Serve(port string, vlan int) error {
	h, err := s.lab.switches()
	if err != nil {
		return err
	}
	trunk, err := s.lab.trunk(port)
	if err != nil {
		return err
	}
	if vlan == 0 {
		return s.take(h, trunk)
	}
	dev := fmt.Sprintf("%s.%d", trunk, vlan)
	if err := h.addVLAN(trunk, dev, vlan); err != nil {
		return err
	}
	return s.take(h, dev)
}

// trunk is the far end of the cable in a port of the gateway, on the switches'
// machine. The first call lays the cable.
func (l *Lab) trunk(port string) (string, error) {
	l.mu.Lock()
	dev, ok := l.trunks[port]
	if !ok {
		dev = fmt.Sprintf("trunk%d", len(l.trunks))
		l.trunks[port] = dev
	}
	l.mu.Unlock()
	if ok {
		return dev, nil
	}
	h, err := l.switches()
	if err != nil {
		return "", err
	}
	return dev, l.Cable(Plug{Host: l.Gateway(), Dev: port}, Plug{Host: h, Dev: dev})
}

// Unplug takes the carrier from one of the gateway's ports, and gives it back
// when on is false.
func (l *Lab) Unplug(port string, on bool) error {
	h, err := l.switches()
	if err != nil {
		return err
	}
	dev, err := l.trunk(port)
	if err != nil {
		return err
	}
	if on {
		return h.Down(dev)
	}
	return h.Up(dev)
}

// addVLAN makes the 802.1Q link dev on parent.
func (h *Host) addVLAN(parent, dev string, id int) error {
	p, err := h.nl.LinkByName(parent)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", parent, h, err)
	}
	v := &netlink.Vlan{LinkAttrs: netlink.NewLinkAttrs(), VlanId: id}
	v.Name, v.ParentIndex = dev, p.Attrs().Index
	if err := h.nl.LinkAdd(v); err != nil {
		return fmt.Errorf("VLAN %d on %s of %s: %w", id, parent, h, err)
	}
	return h.Up(dev)
}
