package rehearse_test

import (
	"strings"

	"github.com/ti-mo/conntrack"

	"weir/internal/rehearse"
)

const (
	oneLine = "testdata/one-line.hcl"
	home    = "../../examples/home.hcl"
	metered = "testdata/metered.hcl"
)

// alone are the saboteurs of a house with one line.
var alone = []stage{
	{oneLine, "dark-fiber", []saboteur{
		{"nobody notices", at(rehearse.Cut, freeze), []string{"dark/fiber/told/IPv4", "dark/fiber/told/IPv6"}},
	}},
	{oneLine, "dark-fiber", goneOn("dark")},
	{metered, "dark-fiber", []saboteur{
		{"no datagram by the line that is back", at(rehearse.Restored, refuse("forward", `oifname fiber meta nfproto 2 udp dport 7 drop`)), []string{"dark/fiber/calm"}},
	}},
	{oneLine, "carrier-fiber", []saboteur{
		{"nobody notices", at(rehearse.Cut, freeze), []string{"carrier/fiber/told/IPv4", "carrier/fiber/told/IPv6"}},
	}},
	{oneLine, "carrier-fiber", goneOn("carrier")},
	{oneLine, "deaf-fiber", []saboteur{
		{"nobody acts on the lease's end", at(rehearse.Cut, freeze), []string{"deaf/fiber/told", "deaf/fiber/quiet"}},
		{"a blip", at(rehearse.Cut, blip), []string{"deaf/fiber/held"}},
		{"nobody asks again", at(rehearse.Restored, freezeWorker("dhcp4", "fiber")), []string{"deaf/fiber/back"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/deaf-fiber"}},
	}},
	{oneLine, "nak-fiber", []saboteur{
		{"no lease after the NAK, and a long silence", at(rehearse.Cut, afterNAK("fiber")), []string{"nak/fiber/again", "nak/fiber/gap", "renumber/fiber/IPv4"}},
		{"nobody sees the new prefix", at(rehearse.Restored, freeze), []string{"renumber/fiber/IPv6"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/nak-fiber"}},
	}},
	{oneLine, "rule", []saboteur{
		{"ports shut outside", at(rehearse.Up, refuse("prerouting", `iifname fiber tcp dport { 22, 113 } drop`, `iifname fiber udp dport 51820 drop`)), []string{"rule/ssh", "rule/ident", "rule/tunnel"}},
		{"a no instead of silence, and silence instead of a no", at(rehearse.Up, refuse("forward", `ether saddr 02:00:00:00:10:31 reject`, `oifname fiber tcp dport 25 drop`)),
			[]string{"rule/bedtime", "rule/no-mail"}},
		{"silence inside", at(rehearse.Up, refuse("input", `iifname home udp dport 161 drop`)), []string{"rule/no-console"}},
	}},
	{oneLine, "steady", []saboteur{
		{"UDP forwards shut", at(rehearse.Up, refuse("prerouting", `udp dport 6010 drop`)), []string{
			"forward/vpn/fiber/IPv4", "forward/vpn/fiber/IPv6", "hairpin/vpn/home/fiber/IPv4", "hairpin/vpn/home/fiber/IPv6", "closed/fiber/IPv4/UDP", "closed/fiber/IPv6/UDP"}},
		{"a limited forward shut", at(rehearse.Up, refuse("prerouting", `iifname home tcp dport 2222 drop`, `iifname fiber meta nfproto 2 tcp dport 2222 drop`)), []string{
			"forward/backup/fiber/IPv4", "hairpin/backup/home/fiber/IPv4", "hairpin/backup/home/fiber/IPv6", "closed/fiber/IPv4"}},
		{"a closed port refuses", at(rehearse.Up, refuse("forward", `iifname fiber meta nfproto 10 tcp dport 2222 reject with tcp reset`)), []string{"forward/backup/fiber/IPv6", "closed/fiber/IPv6"}},
		{"the gateway is shut to the home", at(rehearse.Up, refuse("input", `iifname home tcp dport 7 drop`)), []string{"policy/home/self"}},
	}},
	{lans, "rule", []saboteur{
		{"no printing", at(rehearse.Up, refuse("forward", `iifname eth1 tcp dport 9100 drop`)), []string{"rule/guests-print"}},
		{"the camera answers", at(rehearse.Up, open("eth0", "eth2")), []string{"rule/camera"}},
	}},
	{oneLine, "port", []saboteur{
		{"a port out of the bridge", at(rehearse.Up, freeze, onGateway("ip", "link", "set", "eth3", "nomaster")), []string{"port/home/eth3"}},
	}},
	{oneLine, "port", []saboteur{
		{"a port shut off from the others", at(rehearse.Up, onGateway("ip", "link", "set", "eth0", "type", "bridge_slave", "isolated", "on"),
			onGateway("ip", "link", "set", "eth3", "type", "bridge_slave", "isolated", "on")), []string{"port/home/eth3"}},
	}},
	// Without a forward it is told from what goes out.
	{home, "renumber", []saboteur{
		{"nobody sees the new addresses", at(rehearse.Restored, freeze), []string{"renumber/fiber/IPv4", "renumber/fiber/IPv6"}},
	}},
}

// goneOn breaks what has to go on after the only line's outage.
func goneOn(way string) []saboteur {
	return []saboteur{
		{"flows are forgotten", at(rehearse.Restored, forget), lost(way, "kept/sending", "kept/receiving", "kept/idle")},
		{"no datagram leaves", at(rehearse.Restored, refuse("postrouting", `oifname fiber udp dport 7 drop`)), lost(way, "kept/datagrams")},
		{"nothing new leaves", at(rehearse.Cut, refuse("forward", `oifname fiber tcp flags & (syn|ack) == syn drop`)), lost(way, "back/IPv4", "back/IPv6")},
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname fiber tcp dport 80 drop`)), lost(way, "inbound")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/" + way + "-fiber"}},
	}
}

// onGateway runs a command on the gateway.
func onGateway(command string, args ...string) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		_, err := b.Lab.Gateway().Run(bg, command, args...)
		return err
	}
}

// forget has the gateway know no connection any more.
func forget(b *rehearse.Bench) error {
	return b.Lab.Gateway().Do(func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Flush()
	})
}

// usual says whether a drill of the house with one line is made as that of the
// reference gateway, whose saboteurs stand for both.
func usual(drill string) bool {
	for _, prefix := range []string{"lease/", "advertise/", "name/", "out/", "forward/web/", "hairpin/web/", "closed/fiber/IPv4", "closed/fiber/IPv6",
		"restart/", "overlap/", "leak/fiber/steady", "leak/fiber/overlap",
		"rough/", "leak/fiber/alone-fiber"} {
		if strings.HasPrefix(drill, prefix) {
			return true
		}
	}
	return false
}
