// Command bench measures what weir promises, each figure beside a plain
// nftables router in one namespace where there is such a thing to compare with.
//
//	go run ./test/bench [-rounds N] WEIR
//
// Both routers stand in labs of their own for the whole run and take turns, so
// that a machine that gets faster or slower does so for both. What counts is
// the ratio of one round, and the median of those; the spread says how far to
// believe it. Each figure stands beside its bound, and whether it holds; a
// machine that others load makes any of them miss, so the exit status is 0. It is
// 1 if a script that weir is compared with does not do what it should.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"weir/internal/lab"
)

// An order is what a side is told to do, a line of JSON each.
type order struct {
	Do    string        `json:"do"` // small, flows
	Lasts time.Duration `json:"lasts"`

	Flows int    `json:"flows,omitempty"`
	Sink  string `json:"sink,omitempty"` // tc or xdp
	Down  bool   `json:"down,omitempty"` // to the client

	Offloads bool `json:"offloads,omitempty"`
}

// A figure is the answer: what happened, and in which time.
type figure struct {
	Count float64 `json:"count"`
	Per   float64 `json:"per"` // seconds
	Parts []part  `json:"parts,omitempty"`
	Error string  `json:"error,omitempty"`

	// Of a road: Count are the packets that arrived as they should, Per is the processor's.
	Sent  float64 `json:"sent,omitempty"`
	Wrong float64 `json:"wrong,omitempty"` // arrived with other addresses
	Back  float64 `json:"back,omitempty"`  // came back
	Slow  float64 `json:"slow,omitempty"`  // passed on by the gateway's own IPv4
	Wall  float64 `json:"wall,omitempty"`  // seconds
}

// A part is what one process of several took.
type part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

func main() {
	rounds := flag.Int("rounds", 7, "how often each side is measured")
	lasts := flag.Duration("for", time.Second, "how long a measurement of packets lasts")
	outages := flag.Int("failovers", 100, "how many outages each of the rivals has")
	only := flag.Bool("only-failovers", false, "measure nothing else")
	onlyDHCP := flag.Bool("only-dhcp", false, "measure nothing else")
	onlyFast := flag.Bool("only-fastpath", false, "measure nothing else")
	quiet := flag.Duration("quiet", 20*time.Second, "how long the idle daemon is watched")
	flag.Parse()
	if flag.Arg(0) == "inside" {
		if err := inside(flag.Arg(1), flag.Arg(2)); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: bench [-rounds N] WEIR")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *onlyFast {
		fmt.Printf("%d processors, Linux %s, %s\n\n", runtime.NumCPU(), release(), time.Now().UTC().Format(time.DateOnly))
		if err := fastPath(ctx, flag.Arg(0), *rounds, *lasts); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, flag.Arg(0), *rounds, *lasts, *quiet, *outages, *only, *onlyDHCP); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, weir string, rounds int, lasts, quiet time.Duration, outages int, only, onlyDHCP bool) error {
	fmt.Printf("%d processors, Linux %s, %s\n\n", runtime.NumCPU(), release(), time.Now().UTC().Format(time.DateOnly))

	if only {
		return failovers(ctx, weir, outages)
	}
	if onlyDHCP {
		return leases(ctx, weir, rounds, lasts)
	}
	sides := map[string]*side{}
	for _, kind := range []string{"wire", "peer", "weir"} {
		s, err := start(ctx, kind, weir)
		if err != nil {
			return fmt.Errorf("bring up %s: %w", kind, err)
		}
		defer s.end()
		sides[kind] = s
	}
	fmt.Println("Packets, one sender and one router on one processor. wire: no router; peer: nftables, masquerade, one namespace.")
	for _, what := range []string{"small", "flows"} {
		if err := compare(sides, what, rounds, lasts); err != nil {
			return err
		}
	}
	for _, s := range sides {
		s.end()
	}
	fmt.Println("\nThe daemon")
	if err := daemon(ctx, weir, rounds, quiet); err != nil {
		return err
	}
	fmt.Println("\nDHCP")
	if err := leases(ctx, weir, rounds, lasts); err != nil {
		return err
	}
	fmt.Println("\nFailovers")
	return failovers(ctx, weir, outages)
}

// compare has the sides take turns and prints the rates and their ratio.
func compare(sides map[string]*side, what string, rounds int, lasts time.Duration) error {
	rates := map[string][]float64{}
	var ratios, routers []float64
	for range rounds {
		cost := map[string]float64{} // seconds a packet
		for _, kind := range []string{"wire", "peer", "weir"} {
			f, err := sides[kind].do(order{Do: what, Lasts: lasts})
			if err != nil {
				return fmt.Errorf("%s by %s: %w", what, kind, err)
			}
			rates[kind] = append(rates[kind], f.Count/f.Per)
			cost[kind] = f.Per / f.Count
		}
		ratios = append(ratios, cost["peer"]/cost["weir"])
		routers = append(routers, (cost["peer"]-cost["wire"])/(cost["weir"]-cost["wire"]))
	}
	fmt.Printf("  %s\n", titles[what])
	for _, kind := range []string{"wire", "peer", "weir"} {
		fmt.Printf("    %-6s %s packets/s\n", kind, spread(rates[kind], "%.0f"))
	}
	least := map[string]float64{"small": 0.5, "flows": 0.8}[what]
	fmt.Printf("    ratio  %s of the peer, at least %.1f: %s; of the router's own work alone %s\n",
		spread(ratios, "%.2f"), least, holds(median(ratios) >= least), spread(routers, "%.2f"))
	return nil
}

// spread is the median with the least and the greatest.
func spread(v []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+" .. "+format+")", median(v), slices.Min(v), slices.Max(v))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return mid
}

func holds(yes bool) string {
	if yes {
		return "holds"
	}
	return "DOES NOT HOLD"
}

func release() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "?"
	}
	return string(b[:len(b)-1])
}

// A side is a lab that takes orders.
type side struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *bufio.Scanner
}

// start runs this program again inside a lab, and waits until it is ready.
func start(ctx context.Context, kind, weir string) (*side, error) {
	s := &side{}
	started := make(chan error, 1)
	go func() {
		// The lab ends with the thread that started it.
		runtime.LockOSThread()
		s.cmd = lab.Command("inside", kind, weir)
		s.cmd.Stderr = os.Stderr
		in, err := s.cmd.StdinPipe()
		if err != nil {
			started <- err
			return
		}
		out, err := s.cmd.StdoutPipe()
		if err != nil {
			started <- err
			return
		}
		s.in, s.out = json.NewEncoder(in), bufio.NewScanner(out)
		started <- s.cmd.Start()
		<-ctx.Done()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	_, err := s.read()
	return s, err
}

func (s *side) do(o order) (figure, error) {
	if err := s.in.Encode(o); err != nil {
		return figure{}, err
	}
	return s.read()
}

func (s *side) read() (figure, error) {
	var f figure
	if !s.out.Scan() {
		return f, fmt.Errorf("the lab ended")
	}
	if err := json.Unmarshal(s.out.Bytes(), &f); err != nil {
		return f, err
	}
	if f.Error != "" {
		return f, fmt.Errorf("%s", f.Error)
	}
	return f, nil
}

func (s *side) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

var titles = map[string]string{"small": "64-byte UDP, 256 established flows", "flows": "64-byte UDP, each packet a new flow"}
