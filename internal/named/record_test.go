package named

import (
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestRecord: the log of questions goes on and off in the named that runs; where
// it can't be told, by a start.
func TestRecord(t *testing.T) {
	alone(t, func(tr *trial) {
		if tr.c.Program.Control == "" {
			tr.Fatal("rndc is not installed: apt-get install bind9-utils (on Debian)")
		}
		pid := tr.start().PID
		turn := func(on bool) int {
			tr.Helper()
			tr.c.Log = on
			tr.send(tr.c)
			limit := time.After(40 * time.Second)
			for {
				select {
				case r := <-tr.reports:
					if r.Err != "" {
						tr.Error(r.Err)
					}
					if r.Ready {
						return r.PID
					}
				case <-limit:
					tr.Fatal("no report")
				}
			}
		}
		told := func(name string) {
			tr.Helper()
			tr.ask(name, dns.TypeA)
			limit := time.After(10 * time.Second)
			for {
				select {
				case r := <-tr.reports:
					for _, a := range r.Asked {
						switch a.Name {
						case name:
							return
						case "quiet.local":
							tr.Error("what was asked while it was off is told")
						}
					}
				case <-limit:
					tr.Fatalf("%s is not told", name)
				}
			}
		}
		tr.ask("quiet.local", dns.TypeA)
		if now := turn(true); now != pid {
			tr.Errorf("turned on, named was started anew: %d, was %d", now, pid)
		}
		told("loud.local")
		if now := turn(false); now != pid {
			tr.Errorf("turned off, named was started anew: %d, was %d", now, pid)
		}
		tr.ask("quiet.local", dns.TypeA)
		if now := turn(true); now != pid {
			tr.Errorf("turned on again, named was started anew: %d, was %d", now, pid)
		}
		told("louder.local")

		tr.c.Program.Control = ""
		if turn(false) == pid {
			tr.Error("without rndc it goes on as it was")
		}
		if turn(true) == pid {
			tr.Error("without rndc it goes on as it was")
		}
		told("loudest.local")
	})
}
