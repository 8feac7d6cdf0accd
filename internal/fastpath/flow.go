package fastpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Tuple is what packets of one direction of a flow are known by.
type Tuple struct {
	Src, Dst netip.AddrPort
	Protocol uint8 // IPPROTO_TCP or IPPROTO_UDP
}

// A Way is one direction of a flow: its packets as they come in by a link, as they
// leave, and where to.
type Way struct {
	From    int // index of the link
	In, Out Tuple
	Hop     uint16 // an index of the hops
	Counter uint16 // of what came by a line; 0 is none
}

// A Hop is where packets go next: over a cable, whose ends have MAC addresses, or by a
// port to a neighbour, whose address is the kernel's to know. The zero value is none:
// packets that would go there are left to main.
type Hop struct {
	Link      int // index; 0 is none
	MTU       int
	Near, Far string     // MAC addresses of a cable's ends, the far one in the line's namespace; "" of a port
	Via       netip.Addr // a router; the zero value is the packet's own destination
}

// The kinds of hops (bpf/flow.c).
const (
	hopGone = iota
	hopCable
	hopPort
)

// Carried is what the program carried of a way, with what it had begun with.
type Carried struct {
	Packets, Bytes uint64        // as conntrack counts them
	Last           time.Duration // of CLOCK_MONOTONIC, to the second
}

// Reasons are packets by what became of them.
type Reasons struct {
	Fast    uint64 // carried
	Odd     uint64 // of a kind that is left to main
	Unknown uint64 // without an entry
	Shut    uint64 // the gate was
	Asleep  uint64 // nobody had looked after the flows for 30 s
	Stale   uint64 // the entry was of another generation
	Nowhere uint64 // the hop was gone
	Long    uint64 // longer than the next link takes
	Wrong   uint64 // the transport's checksum was
}

// Flows are the flows of main: the program and its maps, held by this process.
type Flows struct {
	objs   flowObjects
	ledger *ledger
}

// NewFlows loads the program, with room for so many ways. It carries nothing until a
// generation is current.
func NewFlows(most int) (*Flows, error) {
	spec, err := loadFlow()
	if err == nil && sabotage != nil {
		err = sabotage(spec)
	}
	if err != nil {
		return nil, fmt.Errorf("read the program of the flows: %w", err)
	}
	spec.Maps["flows"].MaxEntries = uint32(most)
	f := &Flows{ledger: &ledger{}}
	if err := spec.LoadAndAssign(&f.objs, nil); err != nil {
		return nil, fmt.Errorf("load the program of the flows: %w", err)
	}
	if err := f.Current(0, 0); err != nil { // it says whose program it is
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close lets go of the program and the maps; the links it is attached to hold them on.
func (f *Flows) Close() error { return f.objs.Close() }

// Attach puts the program at the ingress of a link of this namespace.
func (f *Flows) Attach(l Link) error {
	err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: l.Index, Program: f.objs.WeirFlow, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("attach the program of the flows to %s: %w", l.Name, err)
	}
	return nil
}

// Detach takes it away again.
func (f *Flows) Detach(l Link) error {
	err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: l.Index, Program: f.objs.WeirFlow, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("detach the program of the flows from %s: %w", l.Name, err)
	}
	return nil
}

// Current makes a generation the current one: entries of all others are void from now
// on, in one write; 0 is none's, so nothing is carried. It also says that the flows are
// looked after at this time of CLOCK_MONOTONIC; without that for 30 s all is left to
// main.
func (f *Flows) Current(generation uint32, now time.Duration) error {
	g := flowGate{Generation: generation, Heard: uint32(now / time.Second), Build: flowBuild}
	if err := f.objs.Gates.Put(uint32(0), g); err != nil {
		return fmt.Errorf("make %d the current generation of flows: %w", generation, err)
	}
	return nil
}

// SetHop says where the ways with a hop's index go. It may be changed to none at any
// time, which stops them in one write; to another one only while no way has it.
func (f *Flows) SetHop(index uint16, h Hop) error {
	v, err := h.value()
	if err == nil {
		err = f.objs.Hops.Put(uint32(index), v)
	}
	if err != nil {
		return fmt.Errorf("set hop %d of the flows: %w", index, err)
	}
	return nil
}

func (h Hop) value() (v flowHop, err error) {
	if h.Link == 0 {
		return flowHop{Kind: hopGone}, nil
	}
	v = flowHop{Kind: hopPort, Link: uint32(h.Link), Mtu: uint32(h.MTU)}
	if h.Via.IsValid() {
		v.Routed, v.Via = 1, h.Via.As16()
	}
	if h.Far == "" {
		return v, nil
	}
	v.Kind = hopCable
	for _, x := range []struct {
		to  *[6]uint8
		mac string
	}{{&v.ToMac, h.Far}, {&v.FromMac, h.Near}} {
		mac, err := net.ParseMAC(x.mac)
		if err != nil {
			return v, err
		}
		copy(x.to[:], mac)
	}
	return v, nil
}

var native = binary.NativeEndian

// wire is a port as the programs have it: in the network's order.
func wire(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

func (w Way) key() flowKey {
	return flowKey{Src: w.In.Src.Addr().As16(), Dst: w.In.Dst.Addr().As16(), Sport: wire(w.In.Src.Port()), Dport: wire(w.In.Dst.Port()),
		From: uint32(w.From), Protocol: uint32(w.In.Protocol)}
}

// Put adds a way, or puts it in the place of another one with the same packets. What was
// carried of such packets before is what it begins with.
func (f *Flows) Put(w Way, generation uint32) error {
	v := flowFlow{Src: w.Out.Src.Addr().As16(), Dst: w.Out.Dst.Addr().As16(), Sport: wire(w.Out.Src.Port()), Dport: wire(w.Out.Dst.Port()),
		Generation: generation, Hop: w.Hop, Counter: w.Counter}
	f.ledger.mu.Lock()
	defer f.ledger.mu.Unlock()
	k := w.key()
	before := f.ledger.gone[k]
	v.Packets, v.Bytes = before.packets, before.bytes
	if err := f.objs.Flows.Put(k, v); err != nil {
		return fmt.Errorf("add the flow %s > %s: %w", w.In.Src, w.In.Dst, err)
	}
	delete(f.ledger.gone, k)
	return nil
}

// Look returns what was carried of a way; false if it has no entry.
func (f *Flows) Look(w Way) (Carried, bool, error) {
	var v flowFlow
	err := f.objs.Flows.Lookup(w.key(), &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return Carried{}, false, nil
	}
	if err != nil {
		return Carried{}, false, fmt.Errorf("look up the flow %s > %s: %w", w.In.Src, w.In.Dst, err)
	}
	return Carried{Packets: v.Packets, Bytes: v.Bytes, Last: time.Duration(v.Last) * time.Second}, true, nil
}

// carry says whether all of ways have an entry of a generation.
func (f *Flows) carry(ways []Way, generation uint32) (bool, error) {
	for _, w := range ways {
		var v flowFlow
		err := f.objs.Flows.Lookup(w.key(), &v)
		if errors.Is(err, ebpf.ErrKeyNotExist) || err == nil && v.Generation != generation {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look up the flow %s > %s: %w", w.In.Src, w.In.Dst, err)
		}
	}
	return true, nil
}

// Drop takes ways away. When it returns, no packet is being carried by one of them any
// more: the kernel gives their places to the next ways that are put, and a packet that
// found its way before would leave as another's.
func (f *Flows) Drop(ways []Way) error {
	var errs error
	now := time.Now()
	f.ledger.mu.Lock()
	for _, w := range ways {
		k := w.key()
		var v flowFlow
		switch err := f.objs.Flows.LookupAndDelete(k, &v); {
		case err == nil:
			f.ledger.put(k, v, now)
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			errs = errors.Join(errs, fmt.Errorf("drop the flow %s > %s: %w", w.In.Src, w.In.Dst, err))
		}
	}
	f.ledger.mu.Unlock()
	// It waits for a grace period of RCU, under which programs run.
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		errs = errors.Join(errs, fmt.Errorf("wait for packets that are being carried: %w", errno))
	}
	return errs
}

// Why returns the packets since the program was loaded.
func (f *Flows) Why() (r Reasons, err error) {
	for i, to := range []*uint64{&r.Fast, &r.Odd, &r.Unknown, &r.Shut, &r.Asleep, &r.Stale, &r.Nowhere, &r.Long, &r.Wrong} {
		var each []uint64
		if err := f.objs.Reasons.Lookup(uint32(i), &each); err != nil {
			return r, fmt.Errorf("read the counters of the flows: %w", err)
		}
		for _, n := range each {
			*to += n
		}
	}
	return r, nil
}
