package rehearse

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"weir/internal/chrony"
	"weir/internal/config"
	"weir/internal/foreign"
	"weir/internal/lab"
)

// Inside is the life of the process that is pid 1 of a lab: it furnishes the lab,
// reads a request from the connection on file descriptor 3, makes the run that
// it names and answers there. It returns the exit status. The end of the
// connection is its own.
func Inside(saboteurs Saboteurs) int {
	f := os.NewFile(3, "rehearsal")
	if f == nil {
		fmt.Fprintln(os.Stderr, "weir lab-init is started by weir rehearse, and of no use by hand")
		return 2
	}
	syscall.CloseOnExec(3)
	out := &answers{w: json.NewEncoder(f)}
	if err := inside(f, out, saboteurs); err != nil {
		out.send(message{Err: err.Error(), Log: wholeLog()})
		return 1
	}
	return 0
}

// answers sends messages, each whole.
type answers struct {
	mu sync.Mutex
	w  *json.Encoder
}

func (a *answers) send(m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Nobody is there any more: then this process is about to end as well.
	_ = a.w.Encode(m)
}

func inside(conn io.Reader, out *answers, saboteurs Saboteurs) error {
	r := bufio.NewReader(conn)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to rehearse: %w", err)
	}
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return fmt.Errorf("read what to rehearse: %w", err)
	}
	go func() {
		// The far end holds the connection as long as it lives.
		_, _ = r.ReadByte()
		os.Exit(1)
	}()
	// ^C in a terminal reaches every process of its group: the outer one decides.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	if err := lab.Enter(); err != nil {
		return err
	}
	if req.Run == "" {
		m := probe()
		out.send(message{Machine: &m})
		return nil
	}
	cfg, diags := config.Parse(req.Files...)
	if diags.HasErrors() {
		return errors.New(diags.Format(req.Files))
	}
	site, err := NewSite(cfg, req.Machine)
	if err != nil {
		return err
	}
	var run *Run
	for _, x := range Runs(site, req.Long) {
		if x.Name == req.Run {
			run = &x
		}
	}
	if run == nil {
		return fmt.Errorf("there is no run %q for this file", req.Run)
	}
	return perform(site, *run, req, out, saboteurs)
}

// perform makes a run in the lab.
func perform(site *Site, run Run, req request, out *answers, saboteurs Saboteurs) error {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	out.send(message{Doing: "building"})
	b, err := build(ctx, site, run.Variant, log)
	if err != nil {
		return err
	}
	out.send(message{Doing: "starting weir run"})
	if err := b.up(ctx, req.Files, req.Dir); err != nil {
		return err
	}
	if b.first > 0 {
		out.send(message{First: b.first.Seconds()})
	}
	for _, name := range req.Sabotage {
		x, ok := saboteurs[name]
		if !ok {
			return fmt.Errorf("there is no saboteur %q", name)
		}
		b.saboteurs = append(b.saboteurs, x)
	}
	if err := b.happens(Up); err != nil {
		return err
	}
	var late lateness
	go late.watch(ctx)
	only := run.of(req.Only)
	for _, act := range run.Acts {
		if !act.wanted(only) {
			continue
		}
		out.send(message{Doing: act.Drills[0]})
		b.step = func(format string, args ...any) {
			out.send(message{Doing: act.Drills[0], Step: fmt.Sprintf(format, args...)})
		}
		late.since()
		start, stalls := time.Now(), pressure()
		results := act.Do(ctx, b)
		took := time.Since(start)
		busy := Busy{Waited: late.since().Seconds(), Share: min(1, (pressure()-stalls).Seconds()/took.Seconds())}
		kept := results[:0]
		for _, r := range results {
			r.Run, r.Takes, r.Took, r.Busy = run.Name, 1, took, busy
			if matches(r.Drill, only) {
				kept = append(kept, r)
			}
		}
		out.send(message{Results: kept})
		if err := b.Daemon.Gone(); err != nil {
			return fmt.Errorf("weir run ended during %s: %w\n%s", act.Drills[0], err, b.Daemon.Log(12))
		}
	}
	if req.Keep {
		out.send(message{Kept: true})
		select {} // the connection's end is the lab's
	}
	return nil
}

// probe finds out what this lab's kernel can do.
func probe() Machine {
	var m Machine
	if err := lab.TAP(); err != nil {
		m.TAP = err.Error()
	}
	if _, err := chrony.Find(); err != nil {
		m.Time = err.Error()
	} else if foreign.MayBeConfined(os.DirFS("/"), "chronyd", stateDir+"/chrony") {
		m.Time = "AppArmor keeps chronyd from the lab's files"
	}
	if err := vlan(); err != nil {
		m.VLAN = fmt.Sprintf("this kernel makes no VLANs (%v)", err)
	}
	return m
}

// vlan makes a VLAN on a veth and takes both away.
func vlan() error {
	h, err := netlink.NewHandle(syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}
	if err := h.LinkAdd(veth); err != nil {
		return err
	}
	defer func() { _ = h.LinkDel(veth) }()
	link, err := h.LinkByName("probe0")
	if err != nil {
		return err
	}
	return h.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "probe", ParentIndex: link.Attrs().Index}, VlanId: 1})
}
