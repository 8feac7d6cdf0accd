package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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

const (
	dhcpHouse = `lan "home" {
  interface = "e0"
  address   = "172.31.0.1/16"
  dhcp { pool = "172.31.16.0-172.31.255.254" }
}
`
	keaConf = `{"Dhcp4": {
  "interfaces-config": {"interfaces": ["e0"]},
  "lease-database": {"type": "memfile", "persist": true, "name": "%s/leases.csv"},
  "valid-lifetime": 43200,
  "subnet4": [{"subnet": "172.31.0.0/16", "pools": [{"pool": "172.31.16.0-172.31.255.254"}], "option-data": [
    {"name": "routers", "data": "172.31.0.1"}, {"name": "domain-name-servers", "data": "172.31.0.1"}, {"name": "domain-name", "data": "home.arpa"}]}],
  "loggers": [{"name": "kea-dhcp4", "severity": "ERROR", "output_options": [{"output": "%s/log"}]}]
}}
`
	iscConf = `authoritative;
ping-check off;
default-lease-time 43200;
max-lease-time 43200;
subnet 172.31.0.0 netmask 255.255.0.0 {
  range 172.31.16.0 172.31.255.254;
  option routers 172.31.0.1;
  option domain-name-servers 172.31.0.1;
  option domain-name "home.arpa";
}
`
	dhcpClients = 512  // that wait for an answer at a time
	dhcpMost    = 6000 // exchanges a measurement: the pool has to last
)

var dhcpServers = []string{"weir", "kea", "isc"}

// leases has three DHCP servers take turns at new clients.
func leases(ctx context.Context, weir string, rounds int, lasts time.Duration) error {
	for _, p := range []string{"kea-dhcp4", "kea-dhcp6", "perfdhcp", "dhcpd"} {
		if _, err := exec.LookPath(p); err != nil {
			fmt.Printf("  left out: there is no %s here (test/install)\n", p)
			return nil
		}
	}
	s, err := start(ctx, "dhcp", weir)
	if err != nil {
		return err
	}
	defer s.end()
	rates := map[string][]float64{}
	var kea, isc []float64
	for range rounds {
		rate := map[string]float64{}
		for _, name := range dhcpServers {
			f, err := s.do(order{Do: name, Lasts: lasts})
			if err != nil {
				return fmt.Errorf("DHCP by %s: %w", name, err)
			}
			rate[name] = f.Count / f.Per
			rates[name] = append(rates[name], rate[name])
		}
		kea, isc = append(kea, rate["weir"]/rate["kea"]), append(isc, rate["weir"]/rate["isc"])
	}
	fmt.Printf("  DISCOVER to ACK, new clients, %d at a time, leases on disk\n", dhcpClients)
	for _, name := range dhcpServers {
		fmt.Printf("    %-6s %s exchanges/s\n", name, spread(rates[name], "%.0f"))
	}
	fmt.Printf("    ratio  %s of Kea's memfile, which does not wait for the disk, at least 1.0: %s\n", spread(kea, "%.2f"), holds(median(kea) >= 1))
	fmt.Printf("    ratio  %s of ISC dhcpd, at least 1.4: %s\n", spread(isc, "%.2f"), holds(median(isc) >= 1.4))
	return leases6(s, rounds, lasts)
}

// insideLeases has a machine for each server and one with its clients at the other end of a cable.
func insideLeases(ctx context.Context, weir string) error {
	l, err := lab.New(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("/var/tmp", "weir-bench-") // on a disk: /run is the lab's, and in memory
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	loads := map[string]clients{}
	for _, name := range append([]string{"weir6", "kea6"}, dhcpServers...) {
		h := l.Gateway()
		if name != "weir" {
			if h, err = l.Add(name); err != nil {
				return err
			}
		}
		if loads[name], err = newDHCP(ctx, l, h, name, weir, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(figure{}); err != nil {
		return err
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		f, err := figure{}, json.Unmarshal(orders.Bytes(), &o)
		if err == nil {
			f, err = loads[o.Do].run(ctx, o.Lasts)
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

// newDHCP starts a server and waits until it answers.
func newDHCP(ctx context.Context, l *lab.Lab, h *lab.Host, name, weir, dir string) (clients, error) {
	at, err := l.Add("at-" + name)
	if err != nil {
		return nil, err
	}
	if err := l.Cable(lab.Plug{Host: h, Dev: "e0"}, lab.Plug{Host: at, Dev: "e0"}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "conf")
	var text string
	var args []string
	switch name {
	case "weir":
		text, args = dhcpHouse, []string{weir, "run", conf, "--state-dir", filepath.Join(dir, "state"), "--runtime-dir", runtimeDir}
	case "kea":
		text, args = fmt.Sprintf(keaConf, dir, dir), []string{"kea-dhcp4", "-c", conf}
	case "weir6":
		text, args = dhcp6House, []string{weir, "run", conf, "--state-dir", filepath.Join(dir, "state"), "--runtime-dir", filepath.Join(dir, "run")}
	case "kea6":
		text, args = fmt.Sprintf(kea6Conf, dir, dir), []string{"kea-dhcp6", "-c", conf}
	case "isc":
		text, args = iscConf, []string{"dhcpd", "-4", "-f", "-q", "-cf", conf, "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "e0"}
		if err := os.WriteFile(filepath.Join(dir, "leases"), nil, 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if name != "weir" && name != "weir6" {
		for _, a := range []string{"172.31.0.1/16", "fd00::1/64"} {
			if err := h.AddAddr("e0", netip.MustParsePrefix(a)); err != nil {
				return nil, err
			}
		}
		if err := h.Up("e0"); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KEA_LOCKFILE_DIR="+dir, "KEA_PIDFILE_DIR="+dir)
	cmd.Stdout, cmd.Stderr = log, log
	if err := h.Start(cmd); err != nil {
		return nil, err
	}
	load, err := clientsOf(name, at)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; {
		f, err := load.run(ctx, time.Second)
		if err == nil && f.Count > 0 {
			return load, nil
		}
		if time.Since(began) > 20*time.Second {
			b, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("it answers nobody; it said:\n%s", b)
		}
	}
}

// clients are new ones at each run, that a server serves for a while.
type clients interface {
	run(ctx context.Context, lasts time.Duration) (figure, error)
}

// clientsOf makes the clients of a server on the machine at its other end.
func clientsOf(server string, at *lab.Host) (clients, error) {
	if strings.HasSuffix(server, "6") {
		return &perfLoad{clients: at}, at.Up("e0")
	}
	crowd, err := at.Crowd("e0")
	return &dhcpLoad{crowd: crowd}, err
}

// dhcpLoad is new clients that get an address, a number of them at a time.
type dhcpLoad struct {
	crowd *lab.Crowd
	n     uint32 // clients so far
}

func (d *dhcpLoad) run(ctx context.Context, lasts time.Duration) (figure, error) {
	began := time.Now()
	var f figure
	var over bool // what is answered later is not counted
	left, naks := dhcpMost, 0
	next := func() (e lab.Exchange, ok bool) {
		if left == 0 || time.Since(began) >= lasts {
			f.Per, over = time.Since(began).Seconds(), true
			return e, false
		}
		left--
		d.n++
		return lab.Exchange{Client: d.n, Wish: lab.ToLease}, true
	}
	err := d.crowd.Do(ctx, dhcpClients, 5*time.Second, next, func(e lab.Exchange) {
		if naks += e.NAKs; e.OK && !over {
			f.Count++
		}
	})
	if naks > 0 {
		err = errors.Join(err, fmt.Errorf("%d NAKs", naks))
	}
	return f, err
}
