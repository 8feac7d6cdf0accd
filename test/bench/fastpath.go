package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A packetLoad is the small packets of so many flows in turn.
type packetLoad struct {
	flows int
	share int           // of the rounds
	limit time.Duration // for the flows to be carried as they are to be
	least map[string]float64
}

// The bounds are of the peer, by the row's own sink.
var packetLoads = []packetLoad{
	{flows: 256, share: 1, limit: 20 * time.Second, least: map[string]float64{"tc": 1.7, "xdp": 4.5}},
	{flows: 50000, share: 3, limit: 20 * time.Second, least: map[string]float64{"tc": 1.5, "xdp": 2.5}},
	{flows: 500000, share: 7, limit: 30 * time.Second},
}

// Both sinks are behind each row; a ratio is of figures with the same one.
var sinks = []string{"tc", "xdp"}

// own is the sink by whose figure a row is judged.
func (k kind) own() string {
	if strings.Contains(k.name, "xdp") {
		return "xdp"
	}
	return "tc"
}

// A bench is the rows and what they showed.
type bench struct {
	rounds int
	lasts  time.Duration
	kinds  []kind
	sides  map[string]*side
	soft   string // ksoftirqd's schedstat
	told   []string
	line   map[string]string // of the summary
}

// fastPath has all rows take turns, under each load.
func fastPath(ctx context.Context, weir string, rounds int, lasts time.Duration) error {
	b := &bench{rounds: rounds, lasts: lasts, sides: map[string]*side{}, line: map[string]string{}}
	var err error
	if b.soft, err = softirqd(); err != nil {
		return err
	}
	fmt.Println("Packets for each second of the processor on which the whole road is gone: of the thread that sends, and of ksoftirqd.")
	fmt.Println("The same sink is at the end of each row, as a tc and as an XDP program; \"of the peer\" is the median of the ratios")
	fmt.Println("within a round, with the least and the greatest. Rows:")
	for _, k := range kinds {
		s, err := start(ctx, "road-"+k.name, weir)
		if s != nil {
			defer s.end()
		}
		if err != nil {
			fmt.Printf("  %-10s %s: LEFT OUT: %v\n", k.name, k.title, err)
			continue
		}
		fmt.Printf("  %-10s %s\n", k.name, k.title)
		b.kinds, b.sides[k.name] = append(b.kinds, k), s
	}
	if b.sides["peer"] == nil {
		return fmt.Errorf("there is no peer to compare with")
	}
	fmt.Printf("The peer's ruleset:\n%s", threeRules)
	fmt.Printf("By iptables:\n  iptables-legacy %s\n", strings.Join(threeCommands, "\n  iptables-legacy "))
	for _, l := range packetLoads {
		if err := b.packets(ctx, l); err != nil {
			return err
		}
	}
	for _, m := range conversations {
		if err := b.converse(ctx, m); err != nil {
			return err
		}
	}
	fmt.Print("\nfastpath:")
	for _, what := range []string{"xdp", "tc", "of-bare-xdp", "of-bare-tc", "connections"} {
		v := b.line[what]
		if v == "" {
			v = "-"
		}
		fmt.Printf(" %s %s", what, v)
	}
	fmt.Println()
	return nil
}

// tell remembers why a figure of a row is not counted, for the end of the table.
func (b *bench) tell(name string, err error) {
	b.told = append(b.told, fmt.Sprintf("%s: %v", name, err))
}

// tellAll prints that.
func (b *bench) tellAll() {
	for i, t := range b.told {
		if slices.Index(b.told, t) == i {
			fmt.Println("  NOT COUNTED,", t)
		}
	}
	b.told = nil
}

// Ratios are those of a row by a name: the figure of each round by that of another's.
type table struct {
	rounds []map[string]float64
}

func (t *table) of(name string) (v []float64) {
	for _, r := range t.rounds {
		if x, ok := r[name]; ok {
			v = append(v, x)
		}
	}
	return v
}

func (t *table) ratios(name, to string) (v []float64) {
	for _, r := range t.rounds {
		x, ok := r[name]
		y, also := r[to]
		if ok && also {
			v = append(v, x/y)
		}
	}
	return v
}

// packets has all rows carry a load in turn, and prints it.
func (b *bench) packets(ctx context.Context, l packetLoad) error {
	title := fmt.Sprintf("64-byte UDP, %d flows", l.flows)
	var t table
	ready := map[string]bool{}
	dead := map[string]bool{}
	for n := range max(3, b.rounds/l.share) {
		round := map[string]float64{}
		for i := range b.kinds {
			k := b.kinds[(i+n)%len(b.kinds)]
			if dead[k.name] {
				continue
			}
			s := b.sides[k.name]
			if !ready[k.name] {
				f, err := s.do(order{Do: "warm", Flows: l.flows, Lasts: l.limit})
				if err == nil {
					err = k.judge(f)
				}
				if err != nil {
					b.tell(k.name, err)
					dead[k.name] = true
					continue
				}
				ready[k.name] = true
			}
			for _, sink := range sinks {
				f, err := b.timed(s, order{Do: "packets", Flows: l.flows, Sink: sink, Lasts: b.lasts})
				if err != nil {
					return fmt.Errorf("%s by %s: %w", title, k.name, err)
				}
				if err := k.judge(f); err != nil {
					b.tell(k.name, err)
					continue
				}
				round[k.name+"/"+sink] = f.Count / f.Per
			}
			// Many entries would make those of others hard to find: the hash is the machine's.
			if k.tracks && !k.fast && l.flows > 1000 {
				if _, err := s.do(order{Do: "forget"}); err != nil {
					return err
				}
				ready[k.name] = false
			}
		}
		t.rounds = append(t.rounds, round)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	b.print(l, title, &t)
	b.tellAll()
	for _, k := range b.kinds {
		if !k.tracks {
			continue
		}
		if _, err := b.sides[k.name].do(order{Do: "forget"}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) print(l packetLoad, title string, t *table) {
	fmt.Printf("\n%s, %d rounds\n", title, len(t.rounds))
	fmt.Printf("  %-10s  %-30s %-22s  %-30s %s\n", "", "tc sink: thousands/s of CPU", "of the peer", "XDP sink", "of the peer")
	for _, k := range b.kinds {
		fmt.Printf("  %-10s", k.name)
		for _, sink := range sinks {
			rate := t.of(k.name + "/" + sink)
			for i := range rate {
				rate[i] /= 1000
			}
			fmt.Printf("  %-30s %-22s", some(rate, "%.0f"), some(t.ratios(k.name+"/"+sink, "peer/"+sink), "%.2f"))
		}
		fmt.Println()
	}
	for _, k := range b.kinds {
		if !k.fast {
			continue
		}
		sink := "/" + k.own()
		of := t.ratios(k.name+sink, "peer"+sink)
		bare := t.ratios(k.name+sink, "bare-"+k.name+"-2"+sink)
		if len(of) == 0 {
			continue
		}
		fmt.Printf("  %s, %s sink: %s of the peer", k.name, k.own(), some(of, "%.2f"))
		if least := l.least[k.name]; least > 0 {
			fmt.Printf(", at least %.1f: %s", least, holds(median(of) >= least))
		}
		fmt.Printf("; %s of the bare redirect across namespaces\n", some(bare, "%.2f"))
		if l.share == 1 {
			b.line[k.name] = fmt.Sprintf("%.2f", median(of))
			if len(bare) > 0 {
				b.line["of-bare-"+k.name] = fmt.Sprintf("%.2f", median(bare))
			}
		}
	}
}

// some is spread, of nothing too.
func some(v []float64, format string) string {
	if len(v) == 0 {
		return "-"
	}
	return spread(v, format)
}

// timed has a side do something, and adds to its time what ksoftirqd took in the meantime.
func (b *bench) timed(s *side, o order) (figure, error) {
	before, err := scheduled(b.soft)
	if err != nil {
		return figure{}, err
	}
	f, err := s.do(o)
	if err != nil {
		return f, err
	}
	after, err := scheduled(b.soft)
	f.Per += (after - before).Seconds()
	return f, err
}

// softirqd finds the thread that serves what soft interrupts leave over on the core. It
// is of no lab: they don't see it.
func softirqd() (string, error) {
	name := fmt.Sprintf("ksoftirqd/%d", core)
	all, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return "", err
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err == nil && strings.TrimSpace(string(b)) == name {
			return filepath.Join(filepath.Dir(file), "schedstat"), nil
		}
	}
	return "", fmt.Errorf("no process here is %s, whose time counts: run it outside of a container", name)
}

// scheduled is how long a thread has run, by its schedstat (Documentation/scheduler/sched-stats.rst).
func scheduled(file string) (time.Duration, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	ran, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(ran, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return time.Duration(n), nil
}
