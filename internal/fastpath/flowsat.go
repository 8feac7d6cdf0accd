package fastpath

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// flowProgram is the name of the flows' program in the kernel.
const flowProgram = "weir_flow"

// flowBuild names the flows' program that this binary has.
var flowBuild = release(_FlowBytes)

// An Entry is a way as the program has it.
type Entry struct {
	Way
	Generation uint32 // 0: a packet closed it
	Carried
}

// Open returns the flows whose program is on links, whoever attached it; nil where none
// has it. Of two that don't belong together, which a daemon leaves that is killed while
// it replaces one, it is that of the first link.
func Open(links []Link) (*Flows, error) {
	progs, err := find(links, flowProgram)
	defer closeAll(progs)
	if err != nil || len(progs) == 0 {
		return nil, err
	}
	return openFlows(progs[0])
}

func openFlows(p attached) (f *Flows, err error) {
	f = &Flows{ledger: &ledger{}}
	defer func() {
		if err != nil {
			f.Close()
			f = nil
		}
	}()
	if f.objs.WeirFlow, err = p.prog.Clone(); err != nil {
		return f, err
	}
	places := map[string]**ebpf.Map{"flows": &f.objs.Flows, "hops": &f.objs.Hops, "gates": &f.objs.Gates, "strangers": &f.objs.Strangers,
		"living": &f.objs.Living, "reasons": &f.objs.Reasons, "came": &f.objs.Came}
	for _, id := range p.maps {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return f, fmt.Errorf("open map %d of the flows: %w", id, err)
		}
		info, err := m.Info()
		if err != nil {
			m.Close()
			return f, fmt.Errorf("ask about map %d of the flows: %w", id, err)
		}
		if to := places[info.Name]; to != nil && *to == nil {
			*to = m
		} else {
			m.Close() // another release's
		}
	}
	for name, m := range places {
		if *m == nil {
			return f, fmt.Errorf("the program of the flows on %s has no map %s: %w", p.link, name, errAnother)
		}
	}
	if f.objs.Gates.ValueSize() != uint32(unsafe.Sizeof(flowGate{})) {
		return f, fmt.Errorf("the program of the flows on %s has another gate: %w", p.link, errAnother)
	}
	return f, nil
}

var errAnother = errors.New("another release's")

// Shut shuts the gate of the flows whose programs are on links, whoever attached them.
func Shut(links []Link) error {
	progs, err := find(links, flowProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	for i, p := range progs {
		if slices.ContainsFunc(progs[:i], func(q attached) bool { return slices.Equal(q.maps, p.maps) }) {
			continue
		}
		f, err := openFlows(p)
		if err == nil {
			err = errors.Join(f.shut(), f.Close())
		}
		if err != nil { // another release's: who can't shut its gate takes it away
			return detach(progs)
		}
	}
	return nil
}

// shut leaves what the gate says of its program as it is: it may be another release's.
func (f *Flows) shut() error {
	var g flowGate
	err := f.objs.Gates.Lookup(uint32(0), &g)
	if err == nil {
		g.Generation = 0
		err = f.objs.Gates.Put(uint32(0), g)
	}
	if err != nil {
		return fmt.Errorf("shut the gate of the flows: %w", err)
	}
	return nil
}

// ours says whether the program is the one that this binary has.
func (f *Flows) ours() (bool, error) {
	var g flowGate
	if err := f.objs.Gates.Lookup(uint32(0), &g); err != nil {
		return false, fmt.Errorf("read the gate of the flows: %w", err)
	}
	return g.Build == flowBuild, nil
}

// OnLinks says what links have a program of the flows, and what about them is not as
// PutFlows leaves it, "" if all is.
func OnLinks(links []Link) (on []string, wrong string, err error) {
	progs, err := find(links, flowProgram)
	defer closeAll(progs)
	if err != nil || len(progs) == 0 {
		return nil, "", err
	}
	for _, p := range progs {
		if !slices.Contains(on, p.link) {
			on = append(on, p.link)
		}
	}
	f, wrong, err := whole(progs)
	if f != nil {
		f.Close()
	}
	return on, wrong, err
}

// whole opens the one program that all of progs are; or it says why there is none.
func whole(progs []attached) (f *Flows, wrong string, err error) {
	for i, p := range progs {
		switch {
		case !slices.Equal(p.maps, progs[0].maps):
			return nil, "the programs don't belong together", nil
		case slices.ContainsFunc(progs[:i], func(q attached) bool { return q.at == p.at }):
			return nil, "there are two programs on " + p.link, nil
		}
	}
	f, err = openFlows(progs[0])
	if errors.Is(err, errAnother) {
		return nil, errAnother.Error(), nil
	}
	if err != nil {
		return nil, "", err
	}
	mine, err := f.ours()
	if err == nil && mine {
		return f, "", nil
	}
	f.Close()
	if err != nil {
		return nil, "", err
	}
	return nil, errAnother.Error(), nil
}

// PutFlows has the program on the links of at, and on no other of links. A program that
// is there and whole stays; another one is replaced, link by link, in one step each, so
// that no packet meets two. A new program carries nothing until a generation is current.
func PutFlows(links, at []Link) error {
	progs, err := find(links, flowProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	var f *Flows
	if len(progs) > 0 {
		if f, _, err = whole(progs); err != nil {
			return err
		}
	}
	fresh := f == nil
	if fresh {
		size, err := room()
		if err != nil {
			return err
		}
		if f, err = NewFlows(size); err != nil {
			return err
		}
	}
	defer f.Close()
	for _, l := range at {
		opt := link.RawAttachProgramOptions{Target: l.Index, Program: f.objs.WeirFlow, Attach: ebpf.AttachTCXIngress}
		i := slices.IndexFunc(progs, func(p attached) bool { return p.at == l.Index })
		switch {
		case i >= 0 && !fresh:
		case i >= 0:
			opt.Anchor = link.ReplaceProgram(progs[i].prog)
			fallthrough
		default:
			if err := link.RawAttachProgram(opt); err != nil {
				return fmt.Errorf("attach the program of the flows to %s: %w", l.Name, err)
			}
		}
		if i >= 0 {
			progs[i].prog.Close()
			progs = slices.Delete(progs, i, i+1)
		}
	}
	return detach(progs)
}

// room is how many entries of the program are enough: two for each of conntrack.
func room() (int, error) {
	const path = "/proc/sys/net/netfilter/nf_conntrack_max"
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return 2 * min(max(n, 1024), 1<<22), nil
}

// RemoveFlows detaches the program from links.
func RemoveFlows(links []Link) error {
	progs, err := find(links, flowProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	return detach(progs)
}

// All are the entries, in no order. One that comes or goes meanwhile may be missing or
// there twice. After an error there are no more.
func (f *Flows) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		const most = 4096
		keys, values := make([]flowKey, most), make([]flowFlow, most)
		var at ebpf.MapBatchCursor
		for {
			n, err := f.objs.Flows.BatchLookup(&at, keys, values, nil)
			end := errors.Is(err, ebpf.ErrKeyNotExist)
			if err != nil && !end {
				yield(Entry{}, fmt.Errorf("read the flows: %w", err))
				return
			}
			for i := range n {
				if !yield(entryOf(keys[i], values[i]), nil) {
					return
				}
			}
			if end {
				return
			}
		}
	}
}

func entryOf(k flowKey, v flowFlow) Entry {
	end := func(a [16]uint8, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a).Unmap(), wire(port))
	}
	return Entry{
		Way: Way{From: int(k.From), Hop: v.Hop, Counter: v.Counter,
			In:  Tuple{end(k.Src, k.Sport), end(k.Dst, k.Dport), uint8(k.Protocol)},
			Out: Tuple{end(v.Src, v.Sport), end(v.Dst, v.Dport), uint8(k.Protocol)}},
		Generation: v.Generation,
		Carried:    Carried{Packets: v.Packets, Bytes: v.Bytes, Last: time.Duration(v.Last) * time.Second},
	}
}

// Came are the packets that the program carried in by a line, in a family, of flows that
// went out by it, since it was loaded. line is the WAN's index.
func (f *Flows) Came(line uint8, v6 bool) (sum uint64, err error) {
	var each []uint64
	if err := f.objs.Came.Lookup(uint32(counter(line, v6)), &each); err != nil {
		return 0, fmt.Errorf("read the counters of what came by the lines: %w", err)
	}
	for _, n := range each {
		sum += n
	}
	return sum, nil
}

// counter is the index of what came by a line.
func counter(line uint8, v6 bool) uint16 {
	if line != 0 && v6 {
		return uint16(line) + 256
	}
	return uint16(line)
}

// keyed reads what the program tells of a flow that lives: the link it comes in by, and
// its packets.
func keyed(sample []byte) (from int, in Tuple, ok bool) {
	if len(sample) < 44 {
		return 0, in, false
	}
	var k flowKey
	copy(k.Src[:], sample)
	copy(k.Dst[:], sample[16:])
	k.Sport, k.Dport = native.Uint16(sample[32:]), native.Uint16(sample[34:])
	k.From, k.Protocol = native.Uint32(sample[36:]), native.Uint32(sample[40:])
	e := entryOf(k, flowFlow{})
	return e.From, e.In, true
}
