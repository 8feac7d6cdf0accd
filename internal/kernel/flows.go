package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/plan"
	"weir/internal/ruleset"
)

// readFlows finds the program of the flows on the links of a namespace.
func (k *Kernel) readFlows(ns *plan.Namespace) error {
	if !k.machine.FastPath {
		return nil
	}
	links := programLinks(ns.Links)
	return netns.Do(ns.Name, func() error {
		on, wrong, err := fastpath.OnLinks(links)
		if err == nil && len(on) > 0 {
			ns.Flows = &plan.Flows{On: on, Wrong: wrong}
		}
		return err
	})
}

// programLinks are links as those who attach programs want them.
func programLinks(links []plan.Link) (out []fastpath.Link) {
	for _, l := range links {
		out = append(out, fastpath.Link{Name: l.Name, Index: l.Index, MTU: l.MTU, MAC: l.MAC})
	}
	return out
}

// linksNow are the links of a namespace as they are by now.
func (k *Kernel) linksNow(ns string) ([]fastpath.Link, error) {
	s, err := k.space(ns)
	if err != nil {
		return nil, err
	}
	raw, err := s.links()
	if err != nil {
		return nil, err
	}
	links := make([]plan.Link, len(raw))
	for i, l := range raw {
		links[i] = l.Link
	}
	return programLinks(links), nil
}

func (k *Kernel) doPutFlows(a plan.PutFlows) (effect, error) {
	if err := k.putFlows(a.NS, a.New); err != nil {
		return effect{}, err
	}
	return undoable(func() error { return k.putFlows(a.NS, a.Old) }), nil
}

func (k *Kernel) putFlows(ns string, names []string) error {
	all, err := k.linksNow(ns)
	if err != nil {
		return err
	}
	var at []fastpath.Link
	for _, name := range names {
		i := slices.IndexFunc(all, func(l fastpath.Link) bool { return l.Name == name })
		if i < 0 {
			return fmt.Errorf("the fast path is to be on %s, which is not in %s", name, place(ns))
		}
		at = append(at, all[i])
	}
	if ns == "" {
		k.carrier.stop() // another program may take the place of the one it keeps
	}
	return netns.Do(ns, func() error {
		if len(at) == 0 {
			return fastpath.RemoveFlows(all)
		}
		return fastpath.PutFlows(all, at)
	})
}

// carrier has the flows of main carried by the program that is on its links, while a
// Kernel is open and no turn is under way.
type carrier struct {
	mu     sync.Mutex // of keeper
	keeper *fastpath.Keeper
	end    func() // ends the keeper, and waits for it
}

// stop ends the keeper. The gate is shut.
func (c *carrier) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper != nil {
		c.end()
		c.keeper, c.end = nil, nil
	}
}

// pause has all packets go by main from now on, whoever had them carried: what follows
// changes what main does with them.
func (k *Kernel) pauseFlows() error {
	if !k.machine.FastPath {
		return nil
	}
	if keeper := k.carrier.current(); keeper != nil {
		return keeper.Pause()
	}
	links, err := k.linksNow("")
	if err != nil {
		return err
	}
	return netns.Do("", func() error { return fastpath.Shut(links) })
}

func (c *carrier) current() *fastpath.Keeper {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keeper
}

// CarryFlows has flows carried by the fast path, where the last turn wants it, after a
// turn that went well. With anew what is carried is judged again: something has changed
// that no step did. Where it returns an error all goes by main.
func (k *Kernel) CarryFlows(anew bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	want := k.wantedFlows()
	if want == nil || !k.machine.FastPath {
		k.carrier.stop()
		return nil
	}
	ports, err := k.flowPorts(want)
	if err != nil {
		return err
	}
	err = k.carrier.carry(ports, anew, k.log)
	if err != nil {
		k.carrier.stop()
	}
	return err
}

func (k *Kernel) wantedFlows() *desired.Flows {
	if k.last.Want == nil {
		return nil
	}
	for _, n := range k.last.Want.Namespaces {
		if n.Name == "" {
			return n.Flows
		}
	}
	return nil
}

// flowPorts are the ports that are there, and where cables lead.
func (k *Kernel) flowPorts(want *desired.Flows) (ports []fastpath.Port, err error) {
	all, err := k.linksNow("")
	if err != nil {
		return nil, err
	}
	for _, p := range want.Ports {
		i := slices.IndexFunc(all, func(l fastpath.Link) bool { return l.Name == p.Link })
		if i < 0 {
			continue
		}
		port := fastpath.Port{Link: all[i], Line: p.Line}
		if p.NS != "" {
			far, err := k.linksNow(p.NS)
			if err != nil {
				return nil, err
			}
			j := slices.IndexFunc(far, func(l fastpath.Link) bool { return l.Name == desired.CableInner })
			if j < 0 {
				continue
			}
			port.Far = far[j].MAC
		}
		ports = append(ports, port)
	}
	return ports, nil
}

var errNoProgram = errors.New("the program is on no link")

func (c *carrier) carry(ports []fastpath.Port, anew bool, log *slog.Logger) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper == nil {
		var f *fastpath.Flows
		var links []fastpath.Link
		for _, p := range ports {
			links = append(links, p.Link)
		}
		if err := netns.Do("", func() (err error) {
			f, err = fastpath.Open(links)
			return err
		}); err != nil {
			return err
		}
		if f == nil {
			return errNoProgram
		}
		keeper, err := fastpath.NewKeeper(f, log)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { keeper.Run(ctx) })
		c.keeper, c.end = keeper, func() {
			cancel()
			running.Wait()
			keeper.Close()
		}
	}
	if had, carries := c.keeper.Ports(); carries && !anew && slices.Equal(had, ports) {
		return nil
	}
	return c.keeper.Resume(ports)
}

// came adds what the fast path carried in by each line to what main's rules counted: they
// don't see it.
func (c *carrier) came(counters map[string]uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper == nil {
		return nil
	}
	ports, _ := c.keeper.Ports()
	for _, p := range ports {
		for _, v6 := range []bool{false, true} {
			name := ruleset.TrafficCounter(p.Name, v6)
			if _, ok := counters[name]; !ok || p.Line == 0 {
				continue
			}
			n, err := c.keeper.Came(p.Line, v6)
			if err != nil {
				return err
			}
			counters[name] += n
		}
	}
	return nil
}
