package rehearse_test

import (
	"errors"
	"os"
	"time"

	"weir/internal/rehearse"
)

// rough are the saboteurs of lines that are bad, of picky ISPs, and of lines dead
// one way.
var rough = []stage{
	{reference, "rough-fiber", []saboteur{
		{"new connections are moved", at(rehearse.Cut, once("moved", wrongLine)), []string{"rough/fiber/loss", "rough/fiber/buffer"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/rough-fiber", "leak/lte/rough-fiber"}},
	}},
	{reference, "rough/fiber/loss", []saboteur{
		{"conversations are reset", at(rehearse.Cut, refuse("forward", `iifname eth0 tcp dport 7 ct state established reject with tcp reset`)), []string{"rough/fiber/loss"}},
	}},
	{reference, "blinks-fiber", []saboteur{
		{"conversations are reset", at(rehearse.Cut, refuse("forward", `iifname eth0 tcp dport 7 ct state established reject with tcp reset`)), []string{"rough/fiber/blinks", "rough/fiber/blinks/moves"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/blinks-fiber", "leak/lte/blinks-fiber"}},
	}},
	{reference, "rough/fiber/blinks/moves", []saboteur{
		{"new connections go to and fro", at(rehearse.Cut, toAndFro(2*time.Second, 4*time.Second)), []string{"rough/fiber/blinks/moves"}},
	}},
	{reference, "alone-fiber", []saboteur{
		{"conversations are reset", at(rehearse.Cut, refuse("forward", `iifname eth0 tcp dport 7 ct state established reject with tcp reset`)), []string{"rough/fiber/alone/buffer", "rough/fiber/alone/loss"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/alone-fiber", "leak/lte/alone-fiber"}},
	}},
	{reference, "pings-fiber", []saboteur{
		{"only echoes are tried", at(rehearse.Up, refuse("output", `oifname { fiber, lte } tcp dport 443 drop`)), []string{"pings/fiber/new", "pings/fiber/datagrams", "pings/fiber/told", "pings/fiber/back", "pings/fiber/calm"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/pings-fiber", "leak/lte/pings-fiber"}},
	}},
	{reference, "pings-fiber", []saboteur{
		{"no reset is told", at(rehearse.Cut, refuse("postrouting", `oifname eth0 tcp flags & rst != 0 drop`)), []string{"pings/fiber/told"}},
		{"no datagram by the other line", at(rehearse.Cut, refuse("forward", `oifname lte udp dport 7 drop`)), []string{"pings/fiber/datagrams", "pings/fiber/calm"}},
	}},
	{reference, "pings-fiber", []saboteur{
		{"nobody goes back", at(rehearse.Restored, freeze), []string{"pings/fiber/back"}},
		{"nobody may come in again", at(rehearse.Restored, refuse("prerouting", `iifname fiber tcp dport 80 drop`)), []string{"pings/fiber/inbound"}},
	}},
	{reference, "nopings-fiber", []saboteur{
		{"only echoes are tried", at(rehearse.Cut, refuse("output", `oifname fiber tcp dport 443 drop`)), []string{"nopings/fiber/calm", "nopings/fiber/back"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/nopings-fiber", "leak/lte/nopings-fiber"}},
	}},
	{reference, "nopings-fiber", []saboteur{
		{"new connections are moved when pings pass again", at(rehearse.Restored, wrongLine), []string{"nopings/fiber/back"}},
	}},
	{reference, "uplink-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("uplink", "gap", "new", "sending", "receiving", "idle")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/uplink-fiber", "leak/lte/uplink-fiber"}},
	}},
	{reference, "uplink-fiber", []saboteur{
		{"no reset is told", at(rehearse.Cut, refuse("postrouting", `oifname eth0 tcp flags & rst != 0 drop`)), lost("uplink", "sending", "receiving", "idle")},
	}},
	{reference, "downlink-fiber", []saboteur{
		{"nobody fails over", at(rehearse.Cut, freeze), lost("downlink", "gap", "new", "sending", "receiving", "idle")},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/downlink-fiber", "leak/lte/downlink-fiber"}},
	}},
}

// once does a thing at the first of several moments of a lab.
func once(name string, f func(*rehearse.Bench) error) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		done, err := os.OpenFile("/run/lab/once-"+name, os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(done.Close(), f(b))
	}
}
