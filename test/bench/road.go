package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"weir/internal/lab"
)

// A kind is what carries the packets of a row.
type kind struct {
	name, title string
	nat         bool // packets leave under the line's address
	tracks      bool // it has an entry of conntrack for each flow
	fast        bool // what conntrack has an entry of is to pass it by
	routes      bool // TCP gets through, and answers
}

var kinds = []kind{
	{name: "wire", title: "no router: the generator and the sink alone", routes: true},
	{name: "plain", title: "routed in one namespace, no state", routes: true},
	{name: "peer", title: "nftables: stateful filter and masquerade in one namespace", nat: true, tracks: true, routes: true},
	{name: "iptables", title: "the same by iptables", nat: true, tracks: true, routes: true},
	{name: "weir", title: `fast_path = "off"`, nat: true, tracks: true, routes: true},
	{name: "tc", title: `fast_path = "tc"`, nat: true, tracks: true, fast: true, routes: true},
	{name: "xdp", title: `fast_path = "xdp"`, nat: true, tracks: true, fast: true, routes: true},
	{name: "bare-tc", title: "bpf_redirect in one namespace, and nothing else"},
	{name: "bare-tc-2", title: "bpf_redirect_peer over a cable, bpf_redirect behind it"},
	{name: "bare-xdp", title: "XDP by a devmap in one namespace, and nothing else"},
	{name: "bare-xdp-2", title: "XDP by a devmap to a port of another namespace"},
}

func kindOf(name string) (kind, error) {
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("no side is called %q", name)
}

// threeRules is the least that does a gateway's work: the peer of the fast path.
const threeRules = `table inet peer {
  chain translate_out { type nat hook postrouting priority srcnat
    oifname "eth1" masquerade
  }
  chain through { type filter hook forward priority filter; policy drop
    ct state established,related accept
    iifname "eth0" accept
  }
}
`

var threeCommands = []string{
	"-t nat -A POSTROUTING -o eth1 -j MASQUERADE",
	"-P FORWARD DROP",
	"-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
	"-A FORWARD -i eth0 -j ACCEPT",
}

var (
	insideAddr = netip.MustParseAddr("172.31.0.50")
	lineAddr   = netip.MustParseAddr("198.51.100.10")
)

// A road is a client, an ISP and what is between them, on direct cables:
//
//	client e0 === eth0 gateway eth1 === cust0 ISP
//
// All four ends gather packets (GRO), by which they are polled (NAPI) and take frames
// that were redirected to them.
type road struct {
	*house
	kind
	src       netip.Addr // of the client's packets as the ISP sees them
	far, near *sink      // at cust0, and at e0 for what comes back
	attached  []link.Link
	between   []link.Link // of the gateway's machine
	talks     map[int]*talk
	plain     bool // without offloads
	server    bool // iperf3's runs
}

// newRoad brings up a kind of road in a lab.
func newRoad(ctx context.Context, l *lab.Lab, name, weir string) (*road, error) {
	k, err := kindOf(name)
	if err != nil {
		return nil, err
	}
	r := &road{house: &house{lab: l}, kind: k, src: insideAddr}
	if k.nat {
		r.src = lineAddr
	}
	for _, h := range []string{"client", "isp", "far"} {
		if _, err := l.Add(h); err != nil {
			return nil, err
		}
	}
	r.client, r.isp = &lab.Client{Host: l.Host("client")}, l.Host("isp")
	if err := r.cables(); err != nil {
		return nil, err
	}
	if err := r.ispAddrs(); err != nil {
		return nil, err
	}
	if err := r.client.Static(netip.PrefixFrom(insideAddr, 24), netip.MustParseAddr("172.31.0.1")); err != nil {
		return nil, err
	}
	if err := r.newSink(); err != nil {
		return nil, err
	}
	if err := r.gateway(ctx, weir); err != nil {
		return nil, err
	}
	// Not before they are up: only then a veth tells its other end that it takes frames.
	ports, err := r.ports()
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		if _, err := p.Host.Run(ctx, "ethtool", "-K", p.Dev, "gro", "on"); err != nil {
			return nil, fmt.Errorf("%w (test/install has ethtool)", err)
		}
	}
	return r, nil
}

// ports are the ends of the road's cables.
func (r *road) ports() ([]lab.Plug, error) {
	ports := []lab.Plug{{Host: r.client.Host, Dev: "e0"}, {Host: r.isp, Dev: "cust0"}}
	outer := r.out()
	switch {
	case r.name == "wire":
		return ports, nil
	case r.fast || r.name == "weir":
		var err error
		if outer, err = r.lab.Attach("wan-fiber"); err != nil {
			return nil, err
		}
	}
	return append(ports, lab.Plug{Host: r.lab.Gateway(), Dev: "eth0"}, lab.Plug{Host: outer, Dev: "eth1"}), nil
}

// out is the machine that has eth1 before weir takes it.
func (r *road) out() *lab.Host {
	if strings.HasSuffix(r.name, "-2") {
		return r.lab.Host("far")
	}
	return r.lab.Gateway()
}

func (r *road) cables() error {
	type end = lab.Plug
	gw := r.lab.Gateway()
	e0, cust0 := end{Host: r.client.Host, Dev: "e0"}, end{Host: r.isp, Dev: "cust0"}
	eth0, eth1 := end{Host: gw, Dev: "eth0"}, end{Host: r.out(), Dev: "eth1"}
	pairs := [][2]end{{eth0, e0}, {eth1, cust0}}
	if r.name == "wire" {
		pairs = [][2]end{{e0, cust0}}
	}
	if r.name == "bare-tc-2" {
		pairs = append(pairs, [2]end{{Host: gw, Dev: "near"}, {Host: r.out(), Dev: "far"}})
	}
	for _, p := range pairs {
		if err := r.lab.Cable(p[0], p[1]); err != nil {
			return err
		}
		for _, e := range p {
			if e.Host != gw || r.fast || r.name == "weir" {
				continue // weir sets its ports up itself
			}
			if err := gw.Up(e.Dev); err != nil {
				return err
			}
		}
	}
	return nil
}

// gateway sets up what is between the client and the ISP.
func (r *road) gateway(ctx context.Context, weir string) error {
	gw := r.lab.Gateway()
	switch r.name {
	case "wire":
		return r.isp.AddAddr("cust0", netip.MustParsePrefix("172.31.0.1/24"))
	case "plain":
		if err := r.isp.Route(netip.MustParsePrefix("172.31.0.0/24"), lineAddr, "cust0"); err != nil {
			return err
		}
		return plainRouter(gw)
	case "peer":
		if err := plainRouter(gw); err != nil {
			return err
		}
		return loadRules(ctx, gw, threeRules)
	case "iptables":
		if err := plainRouter(gw); err != nil {
			return err
		}
		for _, c := range threeCommands {
			if _, err := gw.Run(ctx, "iptables-legacy", strings.Fields(c)...); err != nil {
				return err
			}
		}
		return nil
	case "weir", "tc", "xdp":
		return r.daemon(ctx, weir)
	}
	return r.bare()
}

// daemon starts weir with the fast path that the row is of.
func (r *road) daemon(ctx context.Context, weir string) error {
	form := r.name
	if !r.fast {
		form = "off"
	}
	text := "gateway \"gw\" { fast_path = \"" + form + "\" }\n" + houseFile + quietProbes
	file := filepath.Join("/run", r.name+".hcl")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command(weir, "check", file).CombinedOutput(); err != nil {
		return fmt.Errorf("weir refuses it: %s", strings.SplitN(string(out), "\n", 2)[0])
	}
	_, err := r.weir(ctx, weir, text)
	return err
}

// bare attaches programs that only redirect.
func (r *road) bare() error {
	gw, out := r.lab.Gateway(), r.out()
	index := func(h *lab.Host, dev string) (int, error) {
		l, err := h.Netlink().LinkByName(dev)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", dev, h, err)
		}
		return l.Attrs().Index, nil
	}
	put := func(h *lab.Host, dev string, f form, p *ebpf.Program, err error) error {
		if err != nil {
			return err
		}
		l, err := attach(h, dev, f, p)
		r.between = append(r.between, l)
		return err
	}
	if strings.HasPrefix(r.name, "bare-xdp") {
		p, err := bareDevmap(out, "eth1")
		return put(gw, "eth0", xdp, p, err)
	}
	port, err := index(out, "eth1")
	if err != nil {
		return err
	}
	p, err := bareRedirect(tc, asm.FnRedirect, port)
	if r.name == "bare-tc" {
		return put(gw, "eth0", tc, p, err)
	}
	if err := put(out, "far", tc, p, err); err != nil {
		return err
	}
	cable, err := index(gw, "near")
	if err != nil {
		return err
	}
	p, err = bareRedirect(tc, asm.FnRedirectPeer, cable)
	return put(gw, "eth0", tc, p, err)
}

// newSink makes the sinks for packets as they should be.
func (r *road) newSink() (err error) {
	if err := r.use(""); err != nil {
		return err
	}
	if r.far, err = newSink(r.src, lab.Web(false), 36); err != nil {
		return err
	}
	r.near, err = newSink(lab.Web(false), insideAddr, 34)
	return err
}

// use has the ISP's port drop the UDP that comes in, by tc or XDP, or send it back, or
// let it in (""). What comes back is dropped at the client's.
func (r *road) use(what string) error {
	for _, l := range r.attached {
		if err := l.Close(); err != nil {
			return err
		}
	}
	r.attached = nil
	if what == "" {
		return nil
	}
	f := xdp
	if what == "tc" {
		f = tc
	}
	p := r.far.drop[f]
	if what == "back" {
		p = r.far.back
	}
	for _, x := range []struct {
		h   *lab.Host
		dev string
		f   form
		p   *ebpf.Program
	}{{r.isp, "cust0", f, p}, {r.client.Host, "e0", tc, r.near.drop[tc]}} {
		l, err := attach(x.h, x.dev, x.f, x.p)
		if err != nil {
			return err
		}
		r.attached = append(r.attached, l)
	}
	return nil
}

// generator makes one for the client's end.
func (r *road) generator(flows int) (*generator, error) {
	from, err := r.client.MAC("e0")
	if err != nil {
		return nil, err
	}
	h, dev := r.lab.Gateway(), "eth0"
	if r.name == "wire" {
		h, dev = r.isp, "cust0"
	}
	to, err := h.MAC(dev)
	if err != nil {
		return nil, err
	}
	return newGenerator(from, to, insideAddr, lab.Web(false), flows)
}
