package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemonProcess is a weir run that has been started.
type daemonProcess struct {
	cmd  *exec.Cmd
	from time.Time
	took time.Duration // until a packet of the client's came back from the internet
}

// daemon measures what the daemon costs, in a lab of its own.
func daemon(ctx context.Context, weir string, rounds int, quiet time.Duration) error {
	s, err := start(ctx, "daemon", weir)
	if err != nil {
		return err
	}
	defer s.end()
	var starts []float64
	for range rounds {
		f, err := s.do(order{Do: "start"})
		if err != nil {
			return err
		}
		starts = append(starts, f.Count)
	}
	fmt.Printf("  from empty namespaces to the first forwarded packet  %s s, under 2: %s\n", spread(starts, "%.2f"), holds(median(starts) < 2))
	cpu, err := s.do(order{Do: "cpu", Lasts: quiet})
	if err != nil {
		return err
	}
	pss, err := s.do(order{Do: "pss"})
	if err != nil {
		return err
	}
	share := 100 * cpu.Count / cpu.Per
	fmt.Printf("  idle, over %s: %.2f %% of a core, under 1: %s\n", quiet, share, holds(share < 1))
	for _, p := range cpu.Parts {
		fmt.Printf("    %-20s %.2f %%\n", p.Name, 100*p.Seconds/cpu.Per)
	}
	fmt.Printf("  memory (PSS) %.1f MB in %.0f processes, at most 60: %s\n", pss.Count/1e6, pss.Per, holds(pss.Count <= 60e6))
	return nil
}

// life takes orders about the daemon.
func (h *house) life(ctx context.Context, weir string, out *json.Encoder) error {
	if err := out.Encode(figure{}); err != nil {
		return err
	}
	var d *daemonProcess
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var o order
		f, err := figure{}, json.Unmarshal(orders.Bytes(), &o)
		if err == nil {
			switch o.Do {
			case "start":
				if d, err = h.again(ctx, weir, d); err == nil {
					f.Count = d.took.Seconds()
				}
			case "cpu":
				f, err = cpuOver(ctx, o.Lasts)
			case "pss":
				f, err = pss()
			}
		}
		if err != nil {
			f.Error = err.Error()
		}
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return orders.Err()
}

// again takes the gateway apart, state kept, and starts it in the emptied kernel.
func (h *house) again(ctx context.Context, weir string, d *daemonProcess) (*daemonProcess, error) {
	if d != nil {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return nil, err
		}
		if err := d.cmd.Wait(); err != nil {
			return nil, err
		}
		if _, err := h.lab.Gateway().Run(ctx, weir, "down", "--yes", "--state-dir", stateDir, "--runtime-dir", runtimeDir); err != nil {
			return nil, err
		}
	}
	return h.weir(ctx, weir, houseFile)
}

// weirs are the processes of the daemon in this pid namespace, children included.
func weirs() ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			continue // it ended meanwhile
		}
		args := bytes.Split(b, []byte{0})
		if len(args) > 1 && (string(args[1]) == "run" || string(args[1]) == "worker") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(n)))
			if err != nil {
				return nil, err
			}
			out = append(out, pid)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no weir runs here")
	}
	return out, nil
}

// cpuOver is the processor time, in seconds, that they took in a while. It is
// the scheduler's own sum of what each thread ran, to the nanosecond: utime and
// stime of proc_pid_stat(5) are sampled with the tick on many kernels, and miss
// or double what runs for a tenth of a tick after a timer.
func cpuOver(ctx context.Context, d time.Duration) (figure, error) {
	pids, err := weirs()
	if err != nil {
		return figure{}, err
	}
	before := map[int]float64{}
	for _, pid := range pids {
		if before[pid], err = ran(pid); err != nil {
			return figure{}, err
		}
	}
	from := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return figure{}, ctx.Err()
	}
	f := figure{Per: time.Since(from).Seconds()}
	for _, pid := range pids {
		after, err := ran(pid)
		if err != nil {
			return figure{}, err
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return figure{}, err
		}
		args := strings.Split(string(name), "\x00")
		p := part{Name: args[1], Seconds: after - before[pid]}
		if p.Name == "worker" && len(args) > 2 {
			p.Name += " " + args[2]
		}
		f.Parts = append(f.Parts, p)
		f.Count += p.Seconds
	}
	return f, nil
}

// ran is how long a process has run so far, in seconds: the scheduler's sum for all
// its threads, those that have ended included, which is its own processor clock
// (clock_getcpuclockid(3); the kernel's posix-cpu-timers.c has how an id is made of a pid).
// Threads do end: one that was in another namespace is not used again.
func ran(pid int) (float64, error) {
	const sched = 2 // CPUCLOCK_SCHED: to the nanosecond
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("read the processor clock of process %d: %w", pid, err)
	}
	return float64(ts.Nano()) / 1e9, nil
}

// pss is the memory of all of them, shared pages counted once (smaps_rollup's Pss), in bytes; Per is how many they are.
func pss() (figure, error) {
	pids, err := weirs()
	if err != nil {
		return figure{}, err
	}
	f := figure{Per: float64(len(pids))}
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return figure{}, err
		}
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				if err != nil {
					return figure{}, err
				}
				f.Count += n * 1024
			}
		}
	}
	return f, nil
}
