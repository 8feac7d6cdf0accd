package fastpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/ti-mo/conntrack"

	"weir/internal/desired"
)

// Sabotage attaches spoilt programs in the place of those on links, or has them
// know parts besides what they know.
func Sabotage(links []Link, program func(*ebpf.CollectionSpec) error, more []desired.Part) error {
	progs, err := find(links, portProgram, cableProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	m, err := open(progs[0].maps)
	if err != nil {
		return err
	}
	defer m.close()
	ours, err := parts(m.ours)
	if err != nil {
		return err
	}
	if program == nil {
		for _, p := range more {
			if err := m.ours.Put(key(p.Prefix), uint32(p.Role)); err != nil {
				return err
			}
		}
		return nil
	}
	var f cardLinks
	if err := m.fixed.Lookup(uint32(0), &f); err != nil {
		return err
	}
	if err := Remove(links); err != nil {
		return err
	}
	by := func(index uint32) Link {
		return links[slices.IndexFunc(links, func(l Link) bool { return l.Index == int(index) })]
	}
	sabotage = program
	defer func() { sabotage = nil }()
	return Put(links, Links{Port: by(f.Port), Cable: by(f.Cable), Far: by(f.Cable).MAC}, ours)
}

// change replaces instructions, and says if there were none to.
func change(spec *ebpf.CollectionSpec, f func(*asm.Instruction) bool) error {
	n := 0
	for _, p := range spec.Programs {
		for i := range p.Instructions {
			if f(&p.Instructions[i]) {
				n++
			}
		}
	}
	if n == 0 {
		return errors.New("the programs have no such instruction")
	}
	return nil
}

// hop is what a hop less adds to a checksum: bpf_htons(0x0100).
var hop = int64(binary.NativeEndian.Uint16([]byte{1, 0}))

// WrongChecksum adds too much to IPv4's checksum.
func WrongChecksum(spec *ebpf.CollectionSpec) error {
	return change(spec, func(i *asm.Instruction) bool {
		if i.OpCode == asm.Add.Op(asm.ImmSource) && i.Constant == hop {
			i.Constant *= 2
			return true
		}
		return false
	})
}

// NoHop takes no hop.
func NoHop(spec *ebpf.CollectionSpec) error {
	return change(spec, func(i *asm.Instruction) bool {
		if i.OpCode == asm.Add.Op(asm.ImmSource) && i.Constant == -1 {
			i.Constant = 0
			return true
		}
		return false
	})
}

// NoLimit has no look-up ask for the length.
func NoLimit(spec *ebpf.CollectionSpec) error {
	return change(spec, func(i *asm.Instruction) bool {
		// fib.tot_len, the one half word on the stack.
		if i.OpCode == asm.StoreMemOp(asm.Half) && i.Dst == asm.R10 {
			*i = asm.StoreImm(asm.R10, i.Offset, 0, asm.Half).WithMetadata(i.Metadata)
			return true
		}
		return false
	})
}

// Run runs the program on a frame that comes in by lo (BPF_PROG_TEST_RUN): whether it
// takes it, and what it makes of it.
func (f *Flows) Run(frame []byte) (took bool, out []byte, err error) {
	return run(f.objs.WeirFlow, frame)
}

// Hold has an entry of conntrack live on, and be liberal.
func Hold(c conntrack.Flow, left time.Duration) error {
	e, err := openEdge()
	if err != nil {
		return err
	}
	defer e.close()
	if there, err := e.hold(c, left); err != nil || there {
		return err
	}
	return errors.New("conntrack does not have it")
}

// Strangers are the flows that the program has told of so far: by what link, and from
// what port to what port.
func (f *Flows) Strangers() (told []string, err error) {
	r, err := ringbuf.NewReader(f.objs.Living)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	r.SetDeadline(time.Unix(1, 0)) // only what is there
	for {
		rec, err := r.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return told, nil
		}
		if err != nil {
			return told, err
		}
		var k flowKey
		if err := binary.Read(bytes.NewReader(rec.RawSample), binary.NativeEndian, &k); err != nil {
			return told, err
		}
		told = append(told, fmt.Sprintf("%d %d %d", k.From, wire(k.Sport), wire(k.Dport)))
	}
}

// The saboteurs of the flows' program.

// Spoilt loads the program with a change.
func Spoilt(program func(*ebpf.CollectionSpec) error) (*Flows, error) {
	sabotage = program
	defer func() { sabotage = nil }()
	return NewFlows(1024)
}

// NoSum leaves the transport's checksum as it came, and NoIPSum IP's.
func NoSum(spec *ebpf.CollectionSpec) error   { return without(spec, asm.FnL4CsumReplace) }
func NoIPSum(spec *ebpf.CollectionSpec) error { return without(spec, asm.FnL3CsumReplace) }

// AnySum takes packets with any checksum of the transport: each port has seen to it.
func AnySum(spec *ebpf.CollectionSpec) error { return without(spec, asm.FnCsumLevel) }

// without has a helper do nothing, and say that it went well.
func without(spec *ebpf.CollectionSpec, helper asm.BuiltinFunc) error {
	return change(spec, func(i *asm.Instruction) bool {
		found := i.IsBuiltinCall() && i.Constant == int64(helper)
		if found {
			*i = asm.Mov.Imm(asm.R0, 0).WithMetadata(i.Metadata)
		}
		return found
	})
}

// AnyGeneration takes entries of all generations.
func AnyGeneration(spec *ebpf.CollectionSpec) error {
	loaded := false // flow.generation was, at the instruction before
	return change(spec, func(i *asm.Instruction) bool {
		found := loaded && i.OpCode == asm.JEq.Op(asm.RegSource)
		if found {
			i.Src = i.Dst
		}
		loaded = i.OpCode == asm.LoadMemOp(asm.Word) && i.Offset == int16(unsafe.Offsetof(flowFlow{}.Generation))
		return found
	})
}

// AnyLength takes packets of any length.
func AnyLength(spec *ebpf.CollectionSpec) error {
	return change(spec, func(i *asm.Instruction) bool {
		if i.OpCode == asm.LoadMemOp(asm.Word) && i.Offset == int16(unsafe.Offsetof(flowHop{}.Mtu)) {
			*i = asm.Mov.Imm32(i.Dst, 1<<16).WithMetadata(i.Metadata)
			return true
		}
		return false
	})
}

// Run runs the port's program on a frame (BPF_PROG_TEST_RUN), between lo and lo:
// whether it takes it, what it makes of it, and how it counts it.
func Run(frame []byte, mtu int, ours []desired.Part) (took bool, out []byte, c Counts, err error) {
	mac := "00:00:00:00:00:00"
	lo := Link{Name: "lo", Index: 1, MTU: mtu, MAC: "02:00:00:00:00:02"}
	var objs cardObjects
	if err := load(Links{Port: Link{Name: "lo", Index: 1, MAC: mac}, Cable: lo, Far: "02:00:00:00:00:01"}, &objs); err != nil {
		return false, nil, c, err
	}
	defer objs.Close()
	if err := setParts(objs.Ours, ours); err != nil {
		return false, nil, c, err
	}
	if took, out, err = run(objs.WeirPort, frame); err == nil {
		c, err = counted(objs.Counts)
	}
	return took, out, c, err
}

func run(p *ebpf.Program, frame []byte) (took bool, out []byte, err error) {
	opts := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	verdict, err := p.Run(opts)
	if err != nil {
		return false, nil, err
	}
	const redirect = 7 // TC_ACT_REDIRECT
	if verdict != redirect && int32(verdict) != -1 {
		return false, nil, fmt.Errorf("verdict %d", int32(verdict))
	}
	return verdict == redirect, opts.DataOut, nil
}

// Learn has a keeper that does not run carry a flow, Age has some time pass for it, and
// Sweep sweeps.
func (k *Keeper) Learn(from int, in Tuple) (why string, err error) { return k.learn(from, in) }

func (k *Keeper) Age(by time.Duration) {
	for at, f := range k.ways {
		if at == f.ways[0].at() {
			f.checked -= by
		}
	}
}

func (k *Keeper) Sweep() error { return k.sweep() }
