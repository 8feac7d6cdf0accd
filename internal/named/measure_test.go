package named

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/netns/netnstest"
)

// bare is a named.conf as people write it for a resolver.
const bare = `options {
	directory %[1]q; pid-file none; lock-file none; session-keyfile none;
	listen-on { 127.0.0.9; }; listen-on-v6 { none; };
	recursion yes; dnssec-validation yes; allow-query { any; };
};
controls { };
trust-anchors { . initial-ds %[2]d %[3]d %[4]d %[5]q; };
`

// TestBesideByHand prints how BIND does by weir's configuration and by one that
// was written by hand, turn by turn in one run. The figures are no test, and mean
// something in make bench alone, which takes its time; that an edit loses nobody a
// question is one.
func TestBesideByHand(t *testing.T) {
	tool, err := exec.LookPath("dnsperf")
	if err != nil {
		netnstest.Missing(t, "dnsperf", err)
	}
	rounds, lasts, rate, editing := 1, 1, 1000, 3
	if os.Getenv("WEIR_BENCH") != "" {
		rounds, lasts, rate, editing = 7, 2, 3000, 6
	}
	alone(t, func(tr *trial) {
		const dir, hand = "/run/internet", "/run/hand"
		for _, d := range []string{dir, hand} {
			if err := os.Mkdir(d, 0o700); err != nil {
				tr.Fatal(err)
			}
		}
		tr.c.Anchors = internetOf(tr.T, dir)
		ds, err := ParseAnchors(tr.c.Anchors)
		if err != nil {
			tr.Fatal(err)
		}
		i := &internet{tr.T, hand}
		i.write("named.conf", fmt.Sprintf(bare, hand, ds[0].KeyTag, ds[0].Algorithm, ds[0].DigestType, ds[0].Digest))
		i.write("queries", "www.good.lab A\nwww.good3.lab A\nx.wild.good.lab TXT\nwww.insecure.lab A\n")
		const ours, theirs = "127.0.0.1", byHand

		// The first answer of each, several times.
		first := map[string][]time.Duration{}
		for range rounds {
			for _, server := range []string{ours, theirs} {
				stop := func() { _ = tr.end() }
				if server == ours {
					tr.start()
				} else {
					stop = serveBy(tr.T, hand, theirs+":53", "named", "-g", "-c", filepath.Join(hand, "named.conf"))
				}
				begin := time.Now()
				if got := judge(tr.T, server+":53", "www.good.lab.", "A"); got != secure+" NOERROR" {
					tr.Errorf("%s: %s", server, got)
				}
				first[server] = append(first[server], time.Since(begin))
				stop()
			}
		}
		a, b := middle(first[ours]), middle(first[theirs])
		tr.Logf("first validated answer: %v, by hand %v: %.2f, at most 1.3", a, b, a.Seconds()/b.Seconds())

		// What is known already, by turns.
		tr.start()
		serveBy(tr.T, hand, theirs+":53", "named", "-g", "-c", filepath.Join(hand, "named.conf"))
		perf := func(server string, more ...string) map[string]float64 {
			args := append([]string{"-s", server, "-d", filepath.Join(hand, "queries"), "-t", "3"}, more...)
			out, err := exec.Command(tool, args...).CombinedOutput()
			if err != nil {
				tr.Errorf("dnsperf: %v: %s", err, out)
			}
			figures := map[string]float64{}
			for line := range strings.Lines(string(out)) {
				what, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				if f := strings.Fields(value); len(f) > 0 {
					figures[what], _ = strconv.ParseFloat(f[0], 64) // 0: not one of those that are looked at
				}
			}
			return figures
		}
		var ratios []float64
		for range rounds {
			long := strconv.Itoa(lasts)
			x, y := perf(ours, "-l", long)["Queries per second"], perf(theirs, "-l", long)["Queries per second"]
			tr.Logf("  cached: %.0f/s, by hand %.0f/s", x, y)
			ratios = append(ratios, x/y)
		}
		tr.Logf("cached queries: %.2f of what it is by hand, at least 0.95", middle(ratios))

		// An edit in the middle of questions, 18,000 in the bench.
		edited := make(chan Report)
		go func() {
			time.Sleep(time.Duration(editing) * time.Second / 3) // in the middle; nothing waits for it
			c := tr.c
			c.Hosts = append(slices.Clone(c.Hosts), Host{Name: "new", Addrs: []netip.Addr{addr("172.31.0.60")}})
			c.Zones = append(slices.Clone(c.Zones), Zone{Name: "new.example", Records: []Record{{Name: "@", Texts: []string{"x"}}}})
			c.Clients = append(slices.Clone(c.Clients), pfx("10.9.0.0/16"))
			tr.send(c)
			edited <- <-tr.reports
		}()
		got := perf(ours, "-Q", strconv.Itoa(rate), "-l", strconv.Itoa(editing))
		if r := <-edited; r.Err != "" {
			tr.Error(r.Err)
		}
		tr.has("new.example", dns.TypeTXT, `"x"`)
		tr.Logf("an edit at %d a second: %.0f of %.0f lost", rate, got["Queries lost"], got["Queries sent"])
		if got["Queries sent"] < float64(rate*editing)*0.9 || got["Queries lost"] > 0 {
			tr.Errorf("an edit loses questions: %v", got)
		}
	})
}

func middle[T float64 | time.Duration](v []T) T { return slices.Sorted(slices.Values(v))[len(v)/2] }
