package rehearse_test

import (
	"syscall"
	"testing"
	"time"

	"weir/internal/rehearse"
)

const (
	seldom = "testdata/seldom.hcl"
	paid   = "testdata/paid.hcl"
)

// slow are the saboteurs of houses whose lines are tried seldom: what is promised of
// them is later, and no later than the file has it.
var slow = []stage{
	{seldom, "dark-fiber", []saboteur{
		{"all is noticed, and late", at(rehearse.Cut, late(24*time.Second)), []string{
			"dark/fiber/gap/IPv4", "dark/fiber/gap/IPv6", "dark/fiber/sending", "dark/fiber/receiving", "dark/fiber/idle", "dark/fiber/datagrams"}},
	}},
}

// late stops the daemon for a while.
func late(d time.Duration) func(*rehearse.Bench) error {
	return func(b *rehearse.Bench) error {
		time.AfterFunc(d, func() { _ = b.Daemon.Signal(syscall.SIGCONT) })
		return freeze(b)
	}
}

// TestSeldom: houses whose lines are tried seldom, or not at all while there is
// traffic, keep what follows from their file. Its labs wait for most of a minute and
// more, and so among all others.
func TestSeldom(t *testing.T) {
	t.Parallel()
	for file, only := range map[string][]string{
		seldom: {"dark", "carrier", "uplink", "downlink", "route"},
		paid:   {"dark", "carrier", "uplink", "downlink", "route", "rough"},
	} {
		for _, run := range rehearse.RunNames(t, file, only) {
			t.Run(file+" "+run, func(t *testing.T) {
				t.Parallel()
				r := try(t, rehearse.Options{Only: []string{run}}, file)
				for _, d := range r.Drills {
					if !d.OK {
						t.Errorf("%s: expected %s, seen %s; look at %s", d.Drill, d.Expected, d.Seen, d.Look)
					}
				}
			})
		}
	}
}
