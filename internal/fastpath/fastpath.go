// Package fastpath carries packets past the parts of the kernel that would do
// nothing with them but pass them on, by eBPF programs (tc).
//
// The shortcut is the first of it. A line's namespace only routes between the
// line's port and the patch cable; two programs do that in its place, for each
// packet that passes there unchanged but for its hop limit (bpf/card.c says
// which):
//
//	ISP === port [weir_port] ===> main          bpf_redirect_peer over the cable
//	ISP === port <=== [weir_cable] cable === main   bpf_fib_lookup, bpf_redirect_neigh
//
// What the two don't take goes as it would without them. They are attached by
// tcx (Linux 6.6) and held by the link they are on, not by a process: they stay
// when the daemon goes, and go with the link. What they know is in their maps,
// from where Read has it, so that there is nothing to remember.
//
// The flows are the second: one program in main, on the LANs' links and the cables, which
// translates the packets of established flows as conntrack would, and sends them on
// (bpf/flow.c, Flows). Its entries are made of conntrack's (Ways), by a Keeper, which also
// keeps conntrack's timers true to what the program carries. The gate is shut while
// somebody changes what main does with packets, and for 30 s at most a program carries
// what nobody looks after: so it may stay when the daemon goes, as the shortcut does.
//
// All functions work in the network namespace of the calling thread
// (netns.Do).
package fastpath

//go:generate go tool bpf2go -cflags "-O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -target bpfel,bpfeb card bpf/card.c
//go:generate go tool bpf2go -cflags "-O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu" -target bpfel,bpfeb flow bpf/flow.c

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/desired"
)

// The programs' names in the kernel, by which they are known to be ours.
const (
	portProgram  = "weir_port"
	cableProgram = "weir_cable"
)

// A Link is a link of the namespace, as the kernel has it.
type Link struct {
	Name  string
	Index int
	MTU   int
	MAC   string
}

// Links are what the programs are between. Far is the cable's end in main.
type Links struct {
	Port, Cable Link
	Far         string // its MAC address
}

// Found is what is attached to the links of a namespace.
type Found struct {
	On   []string // the links that have one of our programs
	Ours []desired.Part
	// Wrong says what is not as Put left it for these links, "" if all is.
	Wrong string
}

// build names the programs that this binary has: others are put in the place
// of an earlier release's.
var build = release(_CardBytes)

func release(program []byte) (id [8]uint8) {
	sum := sha256.Sum256(program)
	copy(id[:], sum[:])
	return id
}

// sabotage changes the programs for tests.
var sabotage func(*ebpf.CollectionSpec) error

// attached is one of our programs where it is attached.
type attached struct {
	link string
	at   int
	name string
	prog *ebpf.Program
	maps []ebpf.MapID
}

// find lists the programs on links that are called so. The caller closes them.
func find(links []Link, names ...string) (out []attached, err error) {
	for _, l := range links {
		found, err := link.QueryPrograms(link.QueryOptions{Target: l.Index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return out, fmt.Errorf("ask what programs are attached to %s: %w", l.Name, err)
		}
		for _, p := range found.Programs {
			prog, err := ebpf.NewProgramFromID(p.ID)
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				continue // gone in the meantime
			}
			if err != nil {
				return out, fmt.Errorf("open program %d, attached to %s: %w", p.ID, l.Name, err)
			}
			info, err := prog.Info()
			if err != nil {
				prog.Close()
				return out, fmt.Errorf("ask about program %d, attached to %s: %w", p.ID, l.Name, err)
			}
			if !slices.Contains(names, info.Name) {
				prog.Close()
				continue
			}
			maps, _ := info.MapIDs()
			slices.Sort(maps)
			out = append(out, attached{l.Name, l.Index, info.Name, prog, maps})
		}
	}
	return out, nil
}

func closeAll(progs []attached) {
	for _, p := range progs {
		p.prog.Close()
	}
}

// Read returns what is attached to links, and compares it with what Put would
// attach to the two of at. It is nil where nothing is.
func Read(links []Link, at Links) (*Found, error) {
	progs, err := find(links, portProgram, cableProgram)
	defer closeAll(progs)
	if err != nil || len(progs) == 0 {
		return nil, err
	}
	f := &Found{}
	for _, p := range progs {
		f.On = append(f.On, p.link)
	}
	m, err := open(progs[0].maps)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if m.ours != nil {
		if f.Ours, err = parts(m.ours); err != nil {
			return nil, err
		}
	}
	f.Wrong = wrong(progs, at, m)
	return f, nil
}

// wrong says in what the programs are not those that Put attaches.
func wrong(progs []attached, at Links, m maps) string {
	have := func(l Link, name string) bool {
		return slices.ContainsFunc(progs, func(p attached) bool { return p.link == l.Name && p.name == name })
	}
	switch {
	case !have(at.Port, portProgram):
		return "the program on " + at.Port.Name + " is gone"
	case !have(at.Cable, cableProgram):
		return "the program on " + at.Cable.Name + " is gone"
	case len(progs) > 2:
		return "there are more programs than two"
	case !slices.Equal(progs[0].maps, progs[1].maps):
		return "the two programs don't belong together"
	case m.fixed == nil || m.ours == nil:
		return "a map is missing"
	}
	var have1 cardLinks
	want, err := fixed(at)
	if err == nil {
		err = m.fixed.Lookup(uint32(0), &have1)
	}
	switch {
	case err != nil:
		return err.Error()
	case have1.Build != want.Build:
		return "another release's"
	case have1 != want:
		return "a link has changed"
	}
	return ""
}

// fixed is what the programs know of the links.
func fixed(at Links) (f cardLinks, err error) {
	near, err := net.ParseMAC(at.Far)
	if err != nil {
		return f, err
	}
	far, err := net.ParseMAC(at.Cable.MAC)
	if err != nil {
		return f, err
	}
	f = cardLinks{Port: uint32(at.Port.Index), Cable: uint32(at.Cable.Index), CableMtu: uint32(at.Cable.MTU), Build: build}
	copy(f.MainMac[:], near)
	copy(f.CableMac[:], far)
	return f, nil
}

// maps are those of a pair of programs; nil is not there.
type maps struct{ ours, fixed, counts *ebpf.Map }

func open(ids []ebpf.MapID) (out maps, err error) {
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			out.close()
			return maps{}, fmt.Errorf("open map %d: %w", id, err)
		}
		switch m.Type() {
		case ebpf.LPMTrie:
			out.ours = m
		case ebpf.PerCPUArray:
			out.counts = m
		case ebpf.Array:
			out.fixed = m
		default:
			m.Close()
		}
	}
	return out, nil
}

func (m maps) close() {
	for _, x := range []*ebpf.Map{m.ours, m.fixed, m.counts} {
		if x != nil {
			x.Close()
		}
	}
}

// key is a prefix as the trie has it: IPv4 as ::ffff:a.b.c.d.
func key(p netip.Prefix) cardPrefix {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return cardPrefix{Bits: uint32(bits), Addr: p.Addr().As16()}
}

func unkey(k cardPrefix) netip.Prefix {
	a := netip.AddrFrom16(k.Addr)
	if a.Is4In6() && k.Bits >= 96 {
		return netip.PrefixFrom(a.Unmap(), int(k.Bits)-96)
	}
	return netip.PrefixFrom(a, int(k.Bits))
}

func parts(m *ebpf.Map) ([]desired.Part, error) {
	var out []desired.Part
	var k cardPrefix
	var v uint32
	it := m.Iterate()
	for it.Next(&k, &v) {
		out = append(out, desired.Part{Prefix: unkey(k), Role: desired.Role(v)})
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read the shortcut's addresses: %w", err)
	}
	desired.SortParts(out)
	return out, nil
}

// setParts makes the trie hold want: what goes, goes first.
func setParts(m *ebpf.Map, want []desired.Part) error {
	have, err := parts(m)
	if err != nil {
		return err
	}
	for _, p := range have {
		if !slices.Contains(want, p) {
			if err := m.Delete(key(p.Prefix)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("take %s from the shortcut's addresses: %w", p.Prefix, err)
			}
		}
	}
	for _, p := range want {
		if !slices.Contains(have, p) {
			if err := m.Put(key(p.Prefix), uint32(p.Role)); err != nil {
				return fmt.Errorf("add %s to the shortcut's addresses: %w", p.Prefix, err)
			}
		}
	}
	return nil
}

// Put attaches the two programs, or changes their addresses where they are
// attached already. A program of ours that is there is replaced in one step, so
// that no packet meets none, or two.
func Put(links []Link, at Links, ours []desired.Part) error {
	progs, err := find(links, portProgram, cableProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	if len(progs) == 2 {
		m, err := open(progs[0].maps)
		if err != nil {
			return err
		}
		defer m.close()
		if wrong(progs, at, m) == "" {
			return setParts(m.ours, ours)
		}
	}
	var objs cardObjects
	if err := load(at, &objs); err != nil {
		return err
	}
	defer objs.Close()
	if err := setParts(objs.Ours, ours); err != nil {
		return err
	}
	for _, x := range []struct {
		on   Link
		name string
		prog *ebpf.Program
	}{{at.Port, portProgram, objs.WeirPort}, {at.Cable, cableProgram, objs.WeirCable}} {
		opt := link.RawAttachProgramOptions{Target: x.on.Index, Program: x.prog, Attach: ebpf.AttachTCXIngress}
		i := slices.IndexFunc(progs, func(p attached) bool { return p.at == x.on.Index })
		if i >= 0 {
			opt.Anchor = link.ReplaceProgram(progs[i].prog)
		}
		if err := link.RawAttachProgram(opt); err != nil {
			return fmt.Errorf("attach %s to %s: %w", x.name, x.on.Name, err)
		}
		if i >= 0 {
			progs[i].prog.Close()
			progs = slices.Delete(progs, i, i+1)
		}
	}
	return detach(progs) // what is left is nobody's
}

// load puts the programs into the kernel, for these links.
func load(at Links, objs *cardObjects) error {
	spec, err := loadCard()
	if err == nil && sabotage != nil {
		err = sabotage(spec)
	}
	if err != nil {
		return fmt.Errorf("read the programs of the fast path: %w", err)
	}
	f, err := fixed(at)
	if err != nil {
		return fmt.Errorf("the cable's MAC addresses: %w", err)
	}
	if err := spec.Variables["between"].Set(f); err != nil {
		return fmt.Errorf("set the links of the fast path: %w", err)
	}
	if err := spec.LoadAndAssign(objs, nil); err != nil {
		return fmt.Errorf("load the fast path's programs: %w", err)
	}
	return nil
}

func detach(progs []attached) error {
	var errs error
	for _, p := range progs {
		err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: p.at, Program: p.prog, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("detach %s from %s: %w", p.name, p.link, err))
		}
	}
	return errs
}

// Remove detaches our programs from links.
func Remove(links []Link) error {
	progs, err := find(links, portProgram, cableProgram)
	defer closeAll(progs)
	if err != nil {
		return err
	}
	return detach(progs)
}

// Try says why there is no fast path on this machine, nil if there can be. It
// attaches a program to lo, which is index 1 in every namespace, so it belongs
// into one of its own.
func Try() error {
	mac := "00:00:00:00:00:00"
	lo := Link{Name: "lo", Index: 1, MAC: mac}
	var objs cardObjects
	if err := load(Links{Port: lo, Cable: lo, Far: mac}, &objs); err != nil {
		return err
	}
	defer objs.Close()
	f, err := NewFlows(1)
	if err != nil {
		return err
	}
	defer f.Close()
	return link.RawAttachProgram(link.RawAttachProgramOptions{Target: lo.Index, Program: objs.WeirPort, Attach: ebpf.AttachTCXIngress})
}

// Counts are IP packets of a line by what became of them, since the programs were
// attached: they took the shortcut, or were left to the namespace, and why.
type Counts struct {
	Short    uint64
	First    uint64 // of a TCP connection: its MSS is clamped
	Other    uint64 // neither TCP nor UDP
	Fragment uint64
	Odd      uint64 // options, the last hop, a length that is not so
	Read     uint64 // DNS answers, which count for the line, and DHCP
	Long     uint64 // longer than the next link takes
	Nobody   uint64 // an address is not known to be ours or beyond
	Nowhere  uint64 // no next hop was known
}

// all are the counters in the order of bpf/card.c.
func (c *Counts) all() []*uint64 {
	return []*uint64{&c.Short, &c.First, &c.Other, &c.Fragment, &c.Odd, &c.Read, &c.Long, &c.Nobody, &c.Nowhere}
}

// Slow are those that were left to the namespace.
func (c Counts) Slow() (sum uint64) {
	for _, n := range c.all()[1:] {
		sum += *n
	}
	return sum
}

// Count reads the counters of the programs on links; false if there are no programs.
func Count(links []Link) (Counts, bool, error) {
	progs, err := find(links, portProgram, cableProgram)
	defer closeAll(progs)
	if err != nil || len(progs) == 0 {
		return Counts{}, false, err
	}
	m, err := open(progs[0].maps)
	if err != nil {
		return Counts{}, false, err
	}
	defer m.close()
	if m.counts == nil {
		return Counts{}, false, errors.New("the fast path has no counters")
	}
	c, err := counted(m.counts)
	return c, true, err
}

func counted(m *ebpf.Map) (c Counts, err error) {
	for i, to := range c.all() {
		var each []uint64
		if err := m.Lookup(uint32(i), &each); err != nil {
			return c, fmt.Errorf("read the fast path's counters: %w", err)
		}
		for _, n := range each {
			*to += n
		}
	}
	return c, nil
}
