package rehearse_test

import (
	"fmt"
	"time"

	"weir/internal/rehearse"
)

// brief is the pace at which saboteurs have what takes minutes; the line that flaps
// owes more good time than it ever has, as at the real pace.
var brief = rehearse.Pace{Flaps: 3, Up: 3 * time.Second, Down: 4 * time.Second, Outage: 10 * time.Second, Lease: 6 * time.Second}

const twoLines = "testdata/two-lines.hcl"

// long are the saboteurs of what takes minutes.
var long = []stage{
	{twoLines, "flaps-fiber", []saboteur{
		{"new connections go to and fro", at(rehearse.Restored, toAndFro(500*time.Millisecond, 4*time.Second)), []string{"flaps/fiber/moves"}},
		{"who talks by the other line is cut", at(rehearse.Restored, refuse("forward", `oifname lte tcp dport 7 ct original packets > 20 drop`)), []string{"flaps/fiber/calm"}},
		{"now and then no echo is answered", at(rehearse.Restored, refuse("forward", `oifname lte icmp type echo-request limit rate over 60/second drop`)), []string{"flaps/fiber/without"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/flaps-fiber", "leak/lte/flaps-fiber"}},
	}},
	{twoLines, "blackout-fiber", []saboteur{
		{"nobody is told", at(rehearse.Cut, untold), []string{"blackout/fiber/told"}},
		{"nobody sees that a line is back", at(rehearse.Restored, freeze), []string{"blackout/fiber/first", "blackout/fiber/others"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/blackout-fiber", "leak/lte/blackout-fiber"}},
	}},
	{twoLines, "blackout-lte", []saboteur{
		{"nobody is told", at(rehearse.Cut, untold), []string{"blackout/lte/told"}},
		{"nothing new by the first that is back", at(rehearse.Restored, refuse("forward", `oifname lte tcp flags & (syn|ack) == syn drop`)), []string{"blackout/lte/first"}},
		{"the preferred asks for no lease", at(rehearse.Restored, freezeWorker("dhcp4", "fiber")), []string{"blackout/lte/others"}},
		{"inside addresses on the lines", at(rehearse.Up, leak), []string{"leak/fiber/blackout-lte", "leak/lte/blackout-lte"}},
	}},
}

// untold keeps from the house what tells it that there is no way.
var untold = refuse("postrouting", `oifname eth0 icmp type destination-unreachable drop`, `oifname eth0 tcp flags & rst != 0 drop`)

// toAndFro takes new connections to the line that comes and goes, after a while, for
// a while.
func toAndFro(after, stay time.Duration) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		table, err := tableOf(b, "fiber")
		if err != nil {
			return err
		}
		gw, wait := b.Lab.Gateway(), after
		go func() {
			for _, do := range []string{"add", "del"} {
				time.Sleep(wait) // into the outages
				if _, err := gw.Run(bg, "ip", "rule", do, "pref", "50", "iif", "eth0", "to", "192.0.2.80", "ipproto", "tcp", "dport", "7", "lookup", table); err != nil {
					fmt.Println(err)
				}
				wait = stay
			}
		}()
		return nil
	}
}
