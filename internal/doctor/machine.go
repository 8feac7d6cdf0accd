package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"weir/internal/foreign"
)

func clocks(m Machine) (out []Finding) {
	switch {
	case m.Now.Before(m.Built):
		out = append(out, Finding{Check: "clock", State: Wrong, Seen: "it says " + m.Now.Format(time.DateOnly) + ", and weir was made later", Do: "nothing, if weir may set it: it does so when it starts; else: date -s"})
	case !m.Synced:
		why, do := unkept(m)
		out = append(out, Finding{Check: "clock", State: Note, Seen: m.Now.Format(time.DateTime) + ", and " + why, Do: do})
	default:
		out = append(out, ok("clock", "%s, and kept right", m.Now.Format(time.DateTime))...)
	}
	if _, err := fs.Stat(m.Root, "sys/class/rtc/rtc0"); errors.Is(err, fs.ErrNotExist) {
		out = append(out, Finding{Check: "clock chip", State: Note, Seen: "there is none: after a power cut it is some time in the past until the network tells", Do: "nothing: weir copes, see docs/architecture.md"})
	}
	return out
}

// unkept says why the clock of a machine is not kept right, and what is to be done.
func unkept(m Machine) (why, do string) {
	names, _ := fs.Glob(m.Root, "proc/[0-9]*/comm")
	somewhere := "" // its network is not to be seen
	for _, name := range names {
		dir := path.Dir(name)
		if !runs(m.Root, name, "chronyd") {
			continue
		}
		switch where := inThisNetwork(m.Root, dir); {
		case where == elsewhere: // a rehearsal's
		case weirs(m, dir):
			return fmt.Sprintf("weir's chronyd, pid %s, has not set it right: no server was heard yet, or weir may not set this clock", path.Base(dir)), "weir status shows which servers answer, and whether the clock is set"
		case where == unknown:
			somewhere = path.Base(dir)
		default:
			return fmt.Sprintf("chronyd, pid %s, has not set it right yet", path.Base(dir)), "chronyc sources shows which servers answer"
		}
	}
	if somewhere != "" {
		return fmt.Sprintf("it is not right yet; whether chronyd, pid %s, keeps it or a container's is not to be seen", somewhere), "try it as root"
	}
	if foreign.Installed(m.Root, "chronyd") {
		return "nobody keeps it right now", "nothing: chrony is installed, and weir runs it"
	}
	return "nobody keeps it right", "install chrony: weir runs it"
}

const (
	diskLeast = 16 << 20 // bytes: the history, lists and zones of a large house
	diskFair  = 64 << 20
)

func disks(m Machine) []Finding {
	where, d := "/"+m.StateDir, m.Disk
	switch {
	case d.Err != nil:
		return []Finding{{Check: "disk", State: Unseen, Seen: where + ": " + d.Err.Error(), Do: "try it as root"}}
	case d.ReadOnly:
		return []Finding{{Check: "disk", State: Wrong, Seen: where + " is on a file system that is mounted read-only: no lease would survive a restart", Do: "mount -o remount,rw it, or name another with --state-dir"}}
	case d.Memory:
		return []Finding{{Check: "disk", State: Wrong, Seen: where + " is in memory: leases and the history are gone with a power cut", Do: "name a folder on a disk with --state-dir"}}
	case d.Free < diskLeast:
		return []Finding{{Check: "disk", State: Wrong, Seen: fmt.Sprintf("%d MB are free in %s", d.Free>>20, where), Do: "make room: journalctl --vacuum-size=50M, apt-get clean"}}
	case d.Free < diskFair:
		return []Finding{{Check: "disk", State: Note, Seen: fmt.Sprintf("%d MB are free in %s", d.Free>>20, where), Do: "make room: journalctl --vacuum-size=50M, apt-get clean"}}
	}
	return ok("disk", "%d MB are free in %s", d.Free>>20, where)
}

// queues finds ports that have one queue on a machine of several processors: all
// packets are one processor's, unless RPS spreads them (Documentation/networking/scaling.rst).
func queues(m Machine) (out []Finding) {
	ports, _ := fs.Glob(m.Root, "sys/class/net/*/device")
	for _, p := range ports {
		dir := path.Dir(p)
		port := path.Base(dir)
		rx, _ := fs.Glob(m.Root, path.Join(dir, "queues/rx-*"))
		if m.CPUs < 2 || len(rx) != 1 {
			continue
		}
		file := path.Join(rx[0], "rps_cpus")
		b, err := fs.ReadFile(m.Root, file)
		if err != nil || strings.Trim(strings.TrimSpace(string(b)), "0,") != "" {
			continue
		}
		mask := fmt.Sprintf("%x", uint64(1)<<min(m.CPUs, 32)-1)
		out = append(out, Finding{Check: "queues " + port, State: Note, Seen: fmt.Sprintf("one queue for %d processors: one of them does all the work", m.CPUs),
			Do: fmt.Sprintf("echo %s > /%s, at each boot", mask, file), Safe: true, fix: func() error { return m.Write(file, mask) }})
	}
	if len(out) == 0 {
		return ok("queues", "no port leaves processors idle")
	}
	return out
}

// conntracks looks at the size of conntrack's table: beside its limit, which weir raises
// itself, its buckets.
func conntracks(m Machine) []Finding {
	number := func(file string) (int, bool) {
		b, err := fs.ReadFile(m.Root, file)
		n, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
		return n, err == nil && err2 == nil
	}
	most, ok1 := number("proc/sys/net/netfilter/nf_conntrack_max")
	const hash = "sys/module/nf_conntrack/parameters/hashsize"
	buckets, ok2 := number(hash)
	if !ok1 || !ok2 {
		return []Finding{{Check: "conntrack", State: Unseen, Seen: "it is not loaded yet, or not to be seen from here", Do: "look again when weir runs"}}
	}
	if used, ok := number("proc/sys/net/netfilter/nf_conntrack_count"); ok && used > most/4*3 {
		return []Finding{{Check: "conntrack", State: Wrong, Seen: fmt.Sprintf("%d of %d connections are in use: new ones will be dropped", used, most), Do: fmt.Sprintf("sysctl net.netfilter.nf_conntrack_max=%d, and look who opens so many: conntrack -L", 4*most)}}
	}
	if want := most / 4; buckets < want/2 {
		return []Finding{{Check: "conntrack", State: Note, Seen: fmt.Sprintf("%d connections in %d buckets: to find one takes %d steps", most, buckets, most/max(buckets, 1)),
			Do: fmt.Sprintf("echo %d > /%s, at each boot", want, hash), Safe: true, fix: func() error { return m.Write(hash, strconv.Itoa(want)) }}}
	}
	return ok("conntrack", "up to %d connections in %d buckets", most, buckets)
}
