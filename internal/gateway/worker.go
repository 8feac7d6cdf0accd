package gateway

import (
	"weir/internal/blocklist"
	"weir/internal/chrony"
	"weir/internal/dhcpd"
	"weir/internal/dhcpd6"
	"weir/internal/dns"
	"weir/internal/named"
	"weir/internal/probe"
	"weir/internal/ra"
	"weir/internal/refused"
	"weir/internal/wan/dhcp4"
	"weir/internal/wan/dhcp6"
	"weir/internal/worker"
)

// Worker is the whole life of a child: `weir worker` with args behind it. It
// returns the exit status.
func Worker(args []string) int {
	return worker.Main(args, probe.Worker, dhcp4.Worker, dhcp6.Worker, dhcpd.Worker, dhcpd6.Worker, ra.Worker, dns.Worker, named.Worker, blocklist.Worker, chrony.Worker, refused.Worker)
}
