package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"weir/internal/lab"
)

// The DHCPv6 servers, beside each other: addresses of a network that both know.
const (
	dhcp6House = `lan "home" {
  interface = "e0"
  address   = ["172.31.0.1/16", "fd00::1/64"]
  dhcp6 { pool = "::1:0-::ffff:ffff" }
}
`
	kea6Conf = `{"Dhcp6": {
  "interfaces-config": {"interfaces": ["e0"]},
  "server-id": {"type": "LL", "persist": false},
  "lease-database": {"type": "memfile", "persist": true, "name": "%s/leases.csv"},
  "preferred-lifetime": 2700, "valid-lifetime": 5400,
  "subnet6": [{"subnet": "fd00::/64", "interface": "e0", "pools": [{"pool": "fd00::1:0-fd00::ffff:ffff"}], "option-data": [
    {"name": "dns-servers", "data": "fd00::1"}, {"name": "domain-search", "data": "home.arpa"}]}],
  "loggers": [{"name": "kea-dhcp6", "severity": "ERROR", "output_options": [{"output": "%s/log"}]}]
}}
`
)

// leases6 has the two take turns at new clients, and prints how they did.
func leases6(s *side, rounds int, lasts time.Duration) error {
	rates := map[string][]float64{}
	var ratios []float64
	for range rounds {
		rate := map[string]float64{}
		for _, name := range []string{"weir6", "kea6"} {
			f, err := s.do(order{Do: name, Lasts: lasts})
			if err != nil {
				return fmt.Errorf("DHCPv6 by %s: %w", name, err)
			}
			rate[name] = f.Count / f.Per
			rates[name] = append(rates[name], rate[name])
		}
		ratios = append(ratios, rate["weir6"]/rate["kea6"])
	}
	fmt.Printf("  SOLICIT to REPLY, new clients of perfdhcp, leases on disk\n")
	for _, name := range []string{"weir6", "kea6"} {
		fmt.Printf("    %-6s %s exchanges/s\n", name, spread(rates[name], "%.0f"))
	}
	fmt.Printf("    ratio  %s of Kea's memfile, which does not wait for the disk, at least 1.0: %s\n", spread(ratios, "%.2f"), holds(median(ratios) >= 1))
	return nil
}

// perfLoad is new clients of DHCPv6: Kea's own perfdhcp, on the machine at the
// server's other end.
type perfLoad struct {
	clients *lab.Host
	runs    int
}

// fourWay is how many exchanges perfdhcp saw to their end.
var fourWay = regexp.MustCompile(`\*\*\*Statistics for: REQUEST-REPLY\*\*\*\nsent packets: \d+\nreceived packets: (\d+)`)

// run has clients begin at a rate that neither server keeps up with, each with a DUID
// of its own, and counts who was served within the time.
func (p *perfLoad) run(ctx context.Context, lasts time.Duration) (figure, error) {
	p.runs++
	out, err := p.clients.Run(ctx, "sh", "-c", fmt.Sprintf("perfdhcp -6 -l e0 -R 1000000 -r %d -p %d -b duid=00030001020000%02x000000; [ $? = 0 -o $? = 3 ]",
		perfRate, max(1, int(lasts.Seconds())), p.runs)) // 3: not all were served
	m := fourWay.FindStringSubmatch(out)
	if m == nil {
		return figure{}, errors.Join(err, fmt.Errorf("perfdhcp says\n%s", out))
	}
	count, err := strconv.Atoi(m[1])
	return figure{Count: float64(count), Per: max(1, lasts.Seconds())}, err
}

// perfRate is how many clients begin in a second.
const perfRate = 20000
