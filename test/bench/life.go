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
	fmt.Printf("  from empty namespaces to the first forwarded packet  %s s\n", spread(starts, "%.2f"))
	cpu, err := s.do(order{Do: "cpu", Lasts: quiet})
	if err != nil {
		return err
	}
	pss, err := s.do(order{Do: "pss"})
	if err != nil {
		return err
	}
	fmt.Printf("  idle, over %s: %.2f %% of a core; memory (PSS) %.1f MB in %.0f processes\n", quiet, 100*cpu.Count/cpu.Per, pss.Count/1e6, pss.Per)
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
		if _, err := h.lab.Gateway().Run(ctx, weir, "down", "--state-dir", stateDir, "--runtime-dir", runtimeDir); err != nil {
			return nil, err
		}
	}
	return h.weir(ctx, weir)
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

// cpuOver is the processor time, in seconds, that they took in a while.
func cpuOver(ctx context.Context, d time.Duration) (figure, error) {
	ticks := func() (sum float64, err error) {
		pids, err := weirs()
		if err != nil {
			return 0, err
		}
		for _, pid := range pids {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				return 0, err
			}
			// proc_pid_stat(5): utime and stime are fields 14 and 15; the second may hold spaces.
			f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
			for _, k := range []int{11, 12} {
				n, err := strconv.ParseFloat(f[k], 64)
				if err != nil {
					return 0, err
				}
				sum += n / 100 // USER_HZ
			}
		}
		return sum, nil
	}
	before, err := ticks()
	if err != nil {
		return figure{}, err
	}
	from := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return figure{}, ctx.Err()
	}
	after, err := ticks()
	return figure{Count: after - before, Per: time.Since(from).Seconds()}, err
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
