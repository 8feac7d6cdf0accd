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
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weir/internal/foreign"
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
// was written by hand, in one run. The figures are no test, and mean
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

		// What is known already.
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
		// Both at once, and again and again: what else the machine does meets both.
		var ratios []float64
		var answered [2]float64
		before := [2]time.Duration{processorTime(tr.T, tr.c.Dir), processorTime(tr.T, hand)}
		for range 2 * rounds {
			long := strconv.Itoa(lasts)
			var x, y float64
			var both sync.WaitGroup
			both.Go(func() { x = perf(ours, "-l", long)["Queries completed"] })
			both.Go(func() { y = perf(theirs, "-l", long)["Queries completed"] })
			both.Wait()
			ratios = append(ratios, x/y)
			answered[0], answered[1] = answered[0]+x, answered[1]+y
		}
		each := [2]float64{}
		for i, dir := range []string{tr.c.Dir, hand} {
			each[i] = (processorTime(tr.T, dir) - before[i]).Seconds() / answered[i] * 1e6
		}
		tr.Logf("cached queries by the processor's time: %.1f us each, by hand %.1f us: %.2f of what it is by hand", each[0], each[1], each[1]/each[0])
		slices.Sort(ratios)
		tr.Logf("cached queries: %.2f of what it is by hand (%.2f .. %.2f in %d rounds), at least 0.95", middle(ratios), ratios[0], ratios[len(ratios)-1], len(ratios))

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

// processorTime is what the named that runs by the files in dir has had of the
// processors, by the scheduler's own sum (schedstat).
func processorTime(t *testing.T, dir string) (sum time.Duration) {
	t.Helper()
	for p := range foreign.Here(os.DirFS("/")) {
		if filepath.Base(p.Args[0]) != "named" || !slices.Contains(p.Args, filepath.Join(dir, "named.conf")) {
			continue
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID))
		if err != nil {
			t.Fatal(err)
		}
		for _, th := range threads {
			b, err := os.ReadFile(th)
			if err != nil {
				t.Fatal(err)
			}
			ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(ns)
		}
	}
	if sum == 0 {
		t.Fatalf("no named runs by the files in %s", dir)
	}
	return sum
}

func middle[T float64 | time.Duration](v []T) T { return slices.Sorted(slices.Values(v))[len(v)/2] }
