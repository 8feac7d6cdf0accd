package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/lab"
)

// The house of a side: one line with a fixed address, one LAN, one forward.
const houseFile = `wan "fiber" {
  interface = "eth1"
  ipv4 {
    address = "198.51.100.10/24"
    gateway = "198.51.100.1"
  }
  ipv6 { method = "none" }
}
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
  host "nas" { address = "172.31.0.23" }
}
forward "web" {
  port = [80, 443]
  to   = host.nas
}
`

// quietProbes are for a side whose road is measured at its limit, where an echo
// lost says nothing. The idle daemon probes as it does in a house.
const quietProbes = `failover {
  probe { every = "1m" }
}
`

// peerRules is a stateful firewall with masquerade, as people write it by hand.
const peerRules = `table inet peer {
  chain redirect_in { type nat hook prerouting priority dstnat
    iifname "eth1" tcp dport { 80, 443 } dnat ip to 172.31.0.23
  }
  chain translate_out { type nat hook postrouting priority srcnat
    oifname "eth1" masquerade
  }
  chain through { type filter hook forward priority filter; policy drop
    ct state established,related accept
    ct state invalid drop
    iifname "eth0" accept
    ct status dnat accept
  }
  chain here { type filter hook input priority filter; policy drop
    iifname "lo" accept
    ct state established,related accept
    iifname "eth0" accept
  }
}
`

// inside brings up a side in the lab that this process is pid 1 of, and takes orders.
func inside(kind, weir string) error {
	if err := lab.Enter(); err != nil {
		return err
	}
	ctx := context.Background()
	if strings.HasPrefix(kind, "failover-") {
		return insidePair(ctx, kind, weir)
	}
	if road, ok := strings.CutPrefix(kind, "road-"); ok {
		return insideRoad(ctx, road, weir)
	}
	if kind == "dhcp" {
		return insideLeases(ctx, weir)
	}
	h, err := newHouse(ctx)
	if err != nil {
		return err
	}
	switch kind {
	case "weir":
		_, err = h.weir(ctx, weir, houseFile+quietProbes)
	case "peer":
		err = h.peer(ctx)
	case "wire":
		err = h.bridge(ctx)
	case "daemon":
		// It is told itself when to start what.
	default:
		err = fmt.Errorf("no side is called %q", kind)
	}
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if kind == "daemon" {
		return h.life(ctx, weir, out)
	}
	l, err := newLoad(ctx, h, kind)
	if err != nil {
		return err
	}
	if err := out.Encode(figure{}); err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		f, err := figure{}, json.Unmarshal(orders.Bytes(), &o)
		if err == nil {
			f, err = l.do(ctx, o)
		}
		if err != nil {
			f.Error = err.Error()
		}
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return orders.Err()
}

// A house is a gateway machine between a client and an ISP. The ISP is a bare
// machine, not the lab's: nobody listens on its wire, which would cost more than
// the router does.
type house struct {
	lab    *lab.Lab
	isp    *lab.Host
	client *lab.Client
}

func newHouse(ctx context.Context) (*house, error) {
	l, err := lab.New(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return nil, err
	}
	h := &house{lab: l}
	if h.isp, err = l.Add("isp"); err != nil {
		return nil, err
	}
	if err := l.Cable(lab.Plug{Host: l.Gateway(), Dev: "eth1"}, lab.Plug{Host: h.isp, Dev: "cust0"}); err != nil {
		return nil, err
	}
	if err := h.ispAddrs(); err != nil {
		return nil, err
	}
	sw, err := l.Switch("home")
	if err != nil {
		return nil, err
	}
	if err := sw.Plug(lab.Plug{Host: l.Gateway(), Dev: "eth0"}); err != nil {
		return nil, err
	}
	if h.client, err = l.Join(sw, "client", ""); err != nil {
		return nil, err
	}
	return h, h.client.Static(netip.MustParsePrefix("172.31.0.50/24"), netip.MustParseAddr("172.31.0.1"))
}

// ispAddrs makes the ISP's machine the line's router, the internet's server and what is probed.
func (h *house) ispAddrs() error {
	addrs := []struct{ dev, prefix string }{{"cust0", "198.51.100.1/24"}, {"lo", lab.Web(false).String() + "/32"}}
	for _, target := range []string{"1.1.1.1/32", "8.8.8.8/32", "9.9.9.9/32"} {
		addrs = append(addrs, struct{ dev, prefix string }{"lo", target})
	}
	for _, a := range addrs {
		if err := h.isp.AddAddr(a.dev, netip.MustParsePrefix(a.prefix)); err != nil {
			return err
		}
	}
	return nil
}

const stateDir, runtimeDir = "/run/bench/state", "/run/weir"

// weir starts the daemon and waits until packets pass; it returns how long that took.
func (h *house) weir(ctx context.Context, weir, text string) (*daemonProcess, error) {
	file := "/run/bench/house.hcl"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	d := &daemonProcess{cmd: exec.Command(weir, "run", file, "--state-dir", stateDir, "--runtime-dir", runtimeDir)}
	log, err := os.OpenFile("/run/bench/weir.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	d.cmd.Stderr = log
	d.from = time.Now()
	if err := h.lab.Gateway().Start(d.cmd); err != nil {
		return nil, err
	}
	if err := h.passes(ctx, time.Millisecond); err != nil {
		b, _ := os.ReadFile("/run/bench/weir.log")
		return nil, fmt.Errorf("%w; weir said:\n%s", err, b)
	}
	d.took = time.Since(d.from)
	return d, nil
}

func (h *house) peer(ctx context.Context) error {
	if err := plainRouter(h.lab.Gateway()); err != nil {
		return err
	}
	if err := loadRules(ctx, h.lab.Gateway(), peerRules); err != nil {
		return err
	}
	return h.passes(ctx, time.Millisecond)
}

// plainRouter has the gateway's machine route between its ports.
func plainRouter(gw *lab.Host) error {
	for dev, p := range map[string]string{"eth0": "172.31.0.1/24", "eth1": "198.51.100.10/24"} {
		if err := gw.AddAddr(dev, netip.MustParsePrefix(p)); err != nil {
			return err
		}
		if err := gw.Up(dev); err != nil {
			return err
		}
	}
	if err := gw.Route(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("198.51.100.1"), "eth1"); err != nil {
		return err
	}
	return gw.Sysctl("net/ipv4/ip_forward", "1")
}

func loadRules(ctx context.Context, h *lab.Host, text string) error {
	rules := "/run/peer.nft"
	if err := os.WriteFile(rules, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := h.Run(ctx, "nft", "-f", rules)
	return err
}

// bridge has no router at all: the gateway machine joins its two ports, which is
// as near to a wire as the lab comes with the same links.
func (h *house) bridge(ctx context.Context) error {
	gw := h.lab.Gateway()
	for _, args := range [][]string{
		{"link", "add", "wire0", "type", "bridge"}, {"link", "set", "eth0", "master", "wire0", "up"},
		{"link", "set", "eth1", "master", "wire0", "up"}, {"link", "set", "wire0", "up"},
	} {
		if _, err := gw.Run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	// The ISP's router has an address of the LAN and is the client's way out.
	if err := h.isp.AddAddr("cust0", netip.MustParsePrefix("172.31.0.1/24")); err != nil {
		return err
	}
	return h.passes(ctx, time.Millisecond)
}

// passes waits until an echo comes back from the internet.
func (h *house) passes(ctx context.Context, every time.Duration) error {
	from := time.Now()
	ping, err := h.client.Ping(lab.Web(false), every)
	if err != nil {
		return err
	}
	defer ping.Stop()
	if _, ok := ping.Answered(ctx, from, 20*time.Second); !ok {
		return fmt.Errorf("no echo came back from %s within 20 s", lab.Web(false))
	}
	return nil
}
