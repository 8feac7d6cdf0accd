// Package kernel is the only writer of the kernel. It reads what the kernel
// holds into a plan.Actual, carries out the steps of a plan.Plan, and tells of
// changes that others make.
//
// Nothing is kept in memory that the kernel knows: a Kernel opened after a
// crash finds all as its predecessor left it. What the kernel can't know is in
// two directories: under Options.StateDir how the machine was found, under
// Options.RuntimeDir what was loaded last.
//
// Trap: a network namespace belongs to a thread. Netlink sockets are opened in
// their namespace once and stay there; /proc/sys/net is the calling thread's,
// so sysctls are read and written in netns.Do.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"weir/internal/durable"
	"weir/internal/netns"
	"weir/internal/plan"
	"weir/internal/state"
)

// Options says where a Kernel keeps things.
type Options struct {
	StateDir   string       // survives a reboot: how the machine was found
	RuntimeDir string       // does not: what was loaded last
	Log        *slog.Logger // nil is slog.Default
	Disk       durable.Disk // what the two are on

	// FlowsEnded is called after each step that ended flows, on any goroutine and
	// in no order; it must not wait for the Kernel. Nil: nobody wants to know.
	FlowsEnded func(FlowsEnded)

	// Progress is called after each step of a turn, by Apply. Nil: nobody wants to know.
	Progress func()

	writes writer // the tests'
}

// Kernel is the Linux kernel of this machine, as seen from the network
// namespace the process started in, which is called main and "". Its methods
// may be called from any goroutine; they wait for each other.
type Kernel struct {
	opt     Options
	log     *slog.Logger
	boot    string
	machine state.Machine

	mu     sync.Mutex
	spaces map[string]*space
	last   remembered
	found  plan.Found
	due    []plan.DeleteFlows // what could not be ended
	// foundUnkept: it could not be stored yet. foundLost says why what was stored
	// can't be read, nil if it can.
	foundUnkept bool
	foundLost   error
	foundBad    bool   // and it is still there
	nft         string // path of the program; "" is not there

	watch    watcher
	carriers carriers // has a lock of its own
	counters counters // so has this
	carrier  carrier  // and this

	prods  sync.WaitGroup // those under way
	closed chan struct{}  // ends them
	end    sync.Once      // closes closed
}

// Open finds out what the machine can do, and reads what an earlier Kernel
// left in the directories. It changes nothing.
func Open(opt Options) (*Kernel, error) {
	k := &Kernel{opt: opt, log: opt.Log, spaces: map[string]*space{}, closed: make(chan struct{})}
	if k.log == nil {
		k.log = slog.Default()
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("read the machine's boot id: %w", err)
	}
	main, err := k.space("")
	if err != nil {
		return nil, err
	}
	// What was stored in another boot, or of another main namespace, is void.
	k.boot = fmt.Sprintf("%s/%d", boot[:min(len(boot), 36)], main.cookie)
	k.nft = lookNft()
	if err := k.loadFound(); err != nil {
		k.Close()
		return nil, err
	}
	k.loadLast()
	k.machine = k.probe()
	return k, nil
}

// Close closes all sockets. The kernel stays as it is.
func (k *Kernel) Close() error {
	k.end.Do(func() { close(k.closed) })
	k.prods.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watch.stop()
	k.carriers.close()
	k.counters.close()
	k.carrier.stop()
	for name := range k.spaces {
		k.leave(name)
	}
	return nil
}

// Machine returns what the machine was found to be able to do.
func (k *Kernel) Machine() state.Machine { return k.machine }

// space returns the open namespace called name, opening it again if another
// one took over the name. The error is fs.ErrNotExist if there is none.
func (k *Kernel) space(name string) (*space, error) {
	id, err := netns.Identify(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			k.leave(name)
		}
		return nil, err
	}
	if s := k.spaces[name]; s != nil {
		if s.id == id {
			return s, nil
		}
		k.leave(name)
	}
	s, err := openSpace(name, id, k.opt.writes)
	if err != nil {
		return nil, err
	}
	k.spaces[name] = s
	if err := k.watch.add(s); err != nil {
		k.leave(name)
		return nil, err
	}
	return s, nil
}

// leave closes what is open in the namespace called name.
func (k *Kernel) leave(name string) {
	if s := k.spaces[name]; s != nil {
		k.watch.drop(s)
		k.carriers.drop(name)
		s.close()
		delete(k.spaces, name)
		for _, other := range k.spaces {
			delete(other.nsids, s)
		}
	}
}
