package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/state"
)

// A daemon in a case has, by its environment, a folder in which each of its processes opens a socket, PID, that
// tells how much it holds; and a file of two numbers of nanoseconds that are added to its clocks.
const (
	envVitals = "WEIR_CASES_VITALS"
	envClocks = "WEIR_CASES_CLOCKS"
)

// vitals is what the daemon and its services hold, together.
type vitals struct {
	Processes, Files, Goroutines int
	HeapKB                       int // after a collection
	Conntrack                    int // entries in main

	// The prober's files and goroutines, which are not in the others: each handshake that a dead line does not answer
	// is waited for some seconds.
	Asking int

	Of []string `json:"-"` // each process, in words
}

// limits is by how much the vitals of the same house may grow: devices' leases and names, what a service keeps for the
// next question; and the entries of conntrack that the watchers themselves leave for two minutes. Where a line is dead,
// up to a dozen questions wait for it.
var (
	limits     = vitals{Files: 6, Goroutines: 8, HeapKB: 2000, Conntrack: 300, Asking: 160}
	deadLimits = vitals{Files: 12, Goroutines: 20, HeapKB: 2000, Conntrack: 300, Asking: 160}
)

// grown tells what is more in the later half of the readings than in the earlier one, by over the limit. Of the later
// half the least counts: a question that is under way, a line that is being left hold something for a moment. Of the
// earlier one the middle: a service that was not started yet makes one reading too small.
func grown(readings []vitals, limit vitals) (out []string) {
	if len(readings) < 4 {
		return nil
	}
	for _, x := range []struct {
		name  string
		of    func(vitals) int
		limit int
	}{
		{"processes", func(v vitals) int { return v.Processes }, limit.Processes},
		{"files", func(v vitals) int { return v.Files }, limit.Files},
		{"goroutines", func(v vitals) int { return v.Goroutines }, limit.Goroutines},
		{"kB of memory", func(v vitals) int { return v.HeapKB }, limit.HeapKB},
		{"conntrack entries", func(v vitals) int { return v.Conntrack }, limit.Conntrack},
		{"files and goroutines of the prober", func(v vitals) int { return v.Asking }, limit.Asking},
	} {
		least := func(half []vitals) int {
			n := x.of(half[0])
			for _, v := range half {
				n = min(n, x.of(v))
			}
			return n
		}
		var early []int
		for _, v := range readings[:len(readings)/2] {
			early = append(early, x.of(v))
		}
		slices.Sort(early)
		before, now := early[len(early)/2], least(readings[len(readings)/2:])
		if now-before > x.limit {
			out = append(out, fmt.Sprintf("%s: %d at first, %d now", x.name, before, now))
		}
	}
	return out
}

// inside is called in each process that a case's daemon is.
func inside() {
	if path := os.Getenv(envClocks); path != "" {
		if f, err := os.Open(path); err == nil { // a service may be where the file can't be seen any more
			state.Shift(func() (wall, up time.Duration) {
				b := make([]byte, 64)
				n, _ := f.ReadAt(b, 0)
				_, _ = fmt.Sscan(string(b[:n]), &wall, &up)
				return wall, up
			})
		}
	}
	if dir := os.Getenv(envVitals); dir != "" && (os.Args[1] == "run" || os.Args[1] == "worker") {
		l, err := net.Listen("unix", filepath.Join(dir, strconv.Itoa(os.Getpid())))
		if err != nil {
			fmt.Fprintln(os.Stderr, "vitals:", err)
			os.Exit(1)
		}
		go tellVitals(l)
	}
}

// leaked is what planted leaks hold.
var leaked []any

func tellVitals(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		switch strings.TrimSpace(line) {
		case "files":
			for range 20 {
				f, _ := os.Open("/dev/null")
				leaked = append(leaked, f)
			}
		case "goroutines":
			for range 40 {
				go func() { select {} }()
			}
		case "memory":
			leaked = append(leaked, make([]byte, 12<<20))
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(c).Encode(vitals{Goroutines: runtime.NumGoroutine(), HeapKB: int(m.HeapAlloc >> 10)})
		c.Close()
	}
}

// askVitals asks one process, or has it leak what leak says.
func askVitals(dir string, pid int, leak string) (v vitals, err error) {
	c, err := net.Dial("unix", filepath.Join(dir, strconv.Itoa(pid)))
	if err != nil {
		return v, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintln(c, leak)
	// All of it, until its end of this connection is closed: that would be one of its files.
	b, err := io.ReadAll(c)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(b, &v)
}

// vitals adds up what the daemon and its services hold.
func (c *chaos) vitals() (sum vitals, err error) {
	pids := []int{c.run.Process.Pid}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return sum, err
	}
	for _, p := range all {
		// "PID (weir-dhcp4) S PPID ...": services are started by any of the daemon's threads.
		var pid, parent int
		s, err := os.ReadFile(p)
		if err != nil {
			continue // it has ended
		}
		if _, rest, ok := strings.Cut(string(s), ") "); ok {
			_, _ = fmt.Sscan(string(s), &pid)
			_, _ = fmt.Sscanf(rest[1:], "%d", &parent)
		}
		if parent == pids[0] && strings.Contains(string(s), "(weir-") {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		v, err := askVitals(c.vitalsDir, pid, "")
		if err != nil {
			return sum, fmt.Errorf("ask process %d what it holds: %w", pid, err)
		}
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			return sum, err
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		sum.Of = append(sum.Of, fmt.Sprintf("%s: %d files, %d goroutines", strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " "), len(fds), v.Goroutines))
		sum.Processes++
		if strings.Contains(string(b), "\x00worker\x00probe\x00") {
			sum.Asking += len(fds) + v.Goroutines
		} else {
			sum.Files += len(fds)
			sum.Goroutines += v.Goroutines
		}
		sum.HeapKB += v.HeapKB
	}
	err = c.gw.Do(func() error {
		b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if err == nil {
			sum.Conntrack, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err
	})
	return sum, err
}
