package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/netns"
)

// Event says what changed in the kernel, whoever did it: our own steps are told
// as well. What it is now, Read says.
type Event struct {
	Kind EventKind
	NS   string // "" is main

	Link    string // LinkEvent
	Gone    bool   // LinkEvent, NamespaceEvent: it was removed
	Up      bool   // LinkEvent: IFF_UP
	Carrier bool   // LinkEvent; late for real ports: see Kernel.Carrier

	Resolvers Resolvers // ResolverEvent
}

// EventKind is what changed. The zero value is invalid.
type EventKind uint8

// The kinds of event.
const (
	_              EventKind = iota
	LinkEvent                // a link came, went or changed
	AddrEvent                // an address
	RouteEvent               // a route that is not the kernel's own
	RuleEvent                // an ip rule
	TableEvent               // an nft transaction went through
	NamespaceEvent           // a namespace of a WAN came or went
	ResolverEvent            // a router advertised DNS servers; nothing of it is kept to be read
	Resync                   // events were lost: anything may have changed
)

func (k EventKind) String() string {
	return [...]string{"invalid", "link", "address", "route", "rule", "nft table", "namespace", "resolvers", "resync"}[min(int(k), 8)]
}

// Watch tells of changes in main and in every namespace that is read or made,
// until ctx ends; then the channel is closed. It is there once in a Kernel. A
// reader that does not keep up gets a Resync in the place of what it missed.
func (k *Kernel) Watch(ctx context.Context) (<-chan Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.watch.start(ctx); err != nil {
		return nil, err
	}
	for _, s := range k.spaces {
		if err := k.watch.add(s); err != nil {
			k.watch.stop()
			return nil, err
		}
	}
	return k.watch.out, nil
}

// watcher has two sockets in each namespace, and a goroutine for each.
type watcher struct {
	ctx    context.Context // nil: nobody watches
	cancel context.CancelFunc
	out    chan Event
	wg     sync.WaitGroup

	mu    sync.Mutex
	socks map[*space][]*netlink.Conn
}

func (w *watcher) start(ctx context.Context) error {
	if w.ctx != nil {
		return errors.New("this kernel is watched already")
	}
	if err := os.MkdirAll(netns.Dir, 0o755); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch namespaces: inotify: %w", err)
	}
	if _, err := unix.InotifyAddWatch(fd, netns.Dir, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE); err != nil {
		unix.Close(fd)
		return fmt.Errorf("watch %s: inotify: %w", netns.Dir, err)
	}
	names := os.NewFile(uintptr(fd), "inotify")
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.out = make(chan Event, 64)
	w.socks = map[*space][]*netlink.Conn{}
	w.wg.Go(func() { w.names(names) })
	go func() {
		<-w.ctx.Done()
		names.Close()
		w.mu.Lock()
		for _, cs := range w.socks {
			for _, c := range cs {
				c.Close()
			}
		}
		w.socks = nil
		w.mu.Unlock()
		w.wg.Wait()
		close(w.out)
	}()
	return nil
}

func (w *watcher) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// rtGroups are the rtnetlink groups of interest, as a bit mask.
var rtGroups = func() (mask uint32) {
	for _, g := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
		unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_ND_USEROPT} {
		mask |= 1 << (g - 1)
	}
	return mask
}()

// add begins to watch a namespace, if anybody watches.
func (w *watcher) add(s *space) error {
	if w.ctx == nil || w.ctx.Err() != nil {
		return nil
	}
	var route, nf *netlink.Conn
	err := inSpace(s, func() (err error) {
		if route, err = netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{Groups: rtGroups}); err != nil {
			return err
		}
		_ = route.SetReadBuffer(1 << 20)
		if nf, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
			return err
		}
		// Each rule of a transaction is told; its end is enough.
		if err := nf.SetBPF(onlyType(nftSubsys | unix.NFT_MSG_NEWGEN)); err != nil {
			return err
		}
		return nf.JoinGroup(unix.NFNLGRP_NFTABLES)
	})
	if err != nil {
		for _, c := range []*netlink.Conn{route, nf} {
			if c != nil {
				c.Close()
			}
		}
		return fmt.Errorf("watch %s: %w", place(s.name), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socks == nil {
		route.Close()
		nf.Close()
		return nil
	}
	w.socks[s] = []*netlink.Conn{route, nf}
	for _, c := range w.socks[s] {
		w.wg.Go(func() { w.pump(s.name, c) })
	}
	return nil
}

// drop ends watching a namespace that is gone.
func (w *watcher) drop(s *space) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.socks[s] {
		c.Close()
	}
	delete(w.socks, s)
}

// onlyType is a socket filter that lets messages of one type through. The type
// is in the machine's byte order, and the filter reads big-endian.
func onlyType(typ uint16) []bpf.RawInstruction {
	var b [2]byte
	native.PutUint16(b[:], typ)
	prog, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 2}, // nlmsg_type
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(binary.BigEndian.Uint16(b[:])), SkipFalse: 1},
		bpf.RetConstant{Val: 0xffffffff},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		panic(err) // the program is a constant
	}
	return prog
}

func (w *watcher) tell(e Event) {
	select {
	case w.out <- e:
	case <-w.ctx.Done():
	}
}

// pump reads a socket until it is closed. While the reader is slow the socket
// fills, and what is lost then the kernel tells with ENOBUFS.
func (w *watcher) pump(ns string, c *netlink.Conn) {
	for {
		msgs, err := c.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			w.tell(Event{Kind: Resync, NS: ns})
			continue
		case err != nil:
			return // closed: the namespace is gone, or the watch is over
		}
		for _, m := range msgs {
			if e, ok := event(ns, m); ok {
				w.tell(e)
			}
		}
	}
}

func event(ns string, m netlink.Message) (Event, bool) {
	e := Event{NS: ns}
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, err := parseLink(m.Data)
		if err != nil || len(m.Data) > 0 && m.Data[0] != unix.AF_UNSPEC {
			return e, false // a bridge tells of its ports too, as AF_BRIDGE
		}
		e.Kind, e.Link, e.Up, e.Carrier = LinkEvent, l.Name, l.Up, l.Carrier
		e.Gone = m.Header.Type == unix.RTM_DELLINK
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		e.Kind = AddrEvent
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		e.Kind = RouteEvent
		if _, ok, err := parseRoute(m.Data, nil); err != nil || !ok {
			return e, false
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		e.Kind = RuleEvent
	case unix.RTM_NEWNDUSEROPT:
		e.Kind = ResolverEvent
		r, ok := parseResolvers(m.Data)
		e.Resolvers = r
		return e, ok
	case nftSubsys | unix.NFT_MSG_NEWGEN:
		e.Kind = TableEvent
	default:
		return e, false
	}
	return e, true
}

// names reads inotify(7) events of the directory of namespaces.
func (w *watcher) names(f *os.File) {
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			mask, size := native.Uint32(b[4:]), int(native.Uint32(b[12:]))
			if unix.SizeofInotifyEvent+size > len(b) {
				break
			}
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
			b = b[unix.SizeofInotifyEvent+size:]
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				w.tell(Event{Kind: Resync})
			case strings.HasPrefix(name, desired.NSPrefix):
				w.tell(Event{Kind: NamespaceEvent, NS: name, Gone: mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0})
			}
		}
	}
}
