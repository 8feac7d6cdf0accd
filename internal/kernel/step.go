package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/plan"
	"weir/internal/ruleset"
)

// effect is a step done: how to undo it, and what to let go of when the turn is
// over, however it ended.
type effect struct {
	undo func() error
	keep func()
}

func undoable(undo func() error) effect { return effect{undo: undo} }

func (k *Kernel) do(ctx context.Context, action plan.Action) (effect, error) {
	switch a := action.(type) {
	case plan.CreateNamespace:
		return k.createNamespace(a.Name)
	case plan.DeleteNamespace:
		return k.deleteNamespace(a.Name)
	case plan.AddLink:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		return undoable(func() error { return s.deleteLink(a.Link.Name) }), k.addLink(s, a.Link)
	case plan.DeleteLink:
		return k.doDeleteLink(a)
	case plan.MoveLink:
		return k.doMoveLink(a)
	case plan.SetLink:
		return k.doSetLink(a)
	case plan.PutAddr:
		return k.doPutAddr(a)
	case plan.RouteAddr:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		return effect{}, s.putAddrRoutes(a.Addr) // as good without the other steps
	case plan.DeleteAddr:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		undo := func() error {
			if err := notThere(s.addAddr(a.Addr)); err != nil {
				return err
			}
			return s.putRoutes(a.Lost)
		}
		if err := notGone(s.deleteAddr(a.Addr)); err != nil {
			return effect{}, errors.Join(err, undo()) // it may be gone all the same
		}
		return undoable(undo), nil
	case plan.PutRoute:
		return k.doPutRoute(a)
	case plan.DeleteRoute:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		return undoable(func() error { return s.putRoute(a.Route, false) }), notGone(s.deleteRoute(a.Route))
	case plan.PutRule:
		return k.doPutRule(a)
	case plan.DeleteRule:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		return undoable(func() error { return s.addRule(a.Rule) }), notGone(s.deleteRule(a.Rule))
	case plan.SetSysctl:
		return k.doSetSysctl(a)
	case plan.LoadTable:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		undo := func() error {
			if a.Old.Exists && a.Old.Text == "" {
				return errors.New("the table that was there is not known")
			}
			old := ruleset.Table{Text: a.Old.Text, Sets: a.Old.Sets}
			if err := k.runNft(ctx, s, script(plan.Table{Exists: a.New.Text != "", Text: a.New.Text}, old)); err != nil {
				return err
			}
			return k.keepTable(s, old)
		}
		return k.loaded(s, k.runNft(ctx, s, script(a.Old, a.New)), undo, a.New)
	case plan.SetElements:
		s, err := k.space(a.NS)
		if err != nil {
			return effect{}, err
		}
		undo := func() error {
			var back []plan.SetChange
			for _, c := range a.Changes {
				var old []string
				for _, s := range a.Old.Sets {
					if s.Name == c.Name {
						old = s.Elements
					}
				}
				back = append(back, plan.SetChange{Name: c.Name, Flush: true, Add: old})
			}
			old := ruleset.Table{Text: a.Old.Text, Sets: a.Old.Sets}
			if err := k.runNft(ctx, s, elementScript(back, old)); err != nil {
				return err
			}
			return k.keepTable(s, old)
		}
		return k.loaded(s, k.runNft(ctx, s, elementScript(a.Changes, a.New)), undo, a.New)
	case plan.PutShortcut:
		return k.doPutShortcut(a)
	}
	return effect{}, fmt.Errorf("a step of type %T is not known", action)
}

// loaded finishes a step that ran nft: what the kernel shows now is kept to
// compare with.
func (k *Kernel) loaded(s *space, err error, undo func() error, next ruleset.Table) (effect, error) {
	if err != nil {
		return effect{}, err
	}
	if err := k.keepTable(s, next); err != nil {
		return effect{}, errors.Join(err, undo())
	}
	return undoable(undo), nil
}

// notGone forgives that what is to be removed is not there.
func notGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// notThere forgives that what is to be put back is there.
func notThere(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (k *Kernel) createNamespace(name string) (effect, error) {
	create := func() error {
		return k.opt.writes.do("create namespace", func() error { return netns.Create(name) })
	}
	remove := func() error {
		return k.opt.writes.do("delete namespace", func() error { return netns.Delete(name) })
	}
	if err := create(); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return effect{}, err
		}
		// A file that no namespace is mounted on is what a crash left.
		if _, idErr := netns.Identify(name); !errors.Is(idErr, fs.ErrNotExist) {
			return effect{}, err
		}
		if err := remove(); err != nil {
			return effect{}, err
		}
		if err := create(); err != nil {
			return effect{}, err
		}
	}
	undo := func() error {
		k.leave(name)
		return remove()
	}
	s, err := k.space(name)
	if err == nil {
		up := true
		err = s.setLink("lo", plan.LinkAttrs{Up: &up})
	}
	if err != nil {
		return effect{}, errors.Join(err, undo())
	}
	return undoable(undo), nil
}

// deleteNamespace takes the name away and holds the namespace until the turn
// is over, so that undoing brings back the same one, whole.
func (k *Kernel) deleteNamespace(name string) (effect, error) {
	held, err := os.Open(netns.Path(name))
	if err != nil {
		return effect{}, err
	}
	if err := k.opt.writes.do("delete namespace", func() error { return netns.Delete(name) }); err != nil {
		held.Close()
		return effect{}, err
	}
	return effect{
		undo: func() error {
			return k.opt.writes.do("attach namespace", func() error { return netns.Attach(name, held) })
		},
		keep: func() {
			held.Close()
			_, _ = k.space(name) // closes our sockets if it is gone
			if k.opt.RuntimeDir != "" {
				if _, ok := k.spaces[name]; !ok {
					_ = os.Remove(k.opt.RuntimeDir + "/" + tableRecordName(&space{name: name}))
				}
			}
		},
	}, nil
}

func (k *Kernel) doDeleteLink(a plan.DeleteLink) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	undo := func() error {
		if a.Link.Kind == desired.Veth && a.Link.PeerNS == "?" {
			return errors.New("where its other end was is not known")
		}
		if err := k.addLink(s, a.Link); err != nil {
			return err
		}
		for _, m := range a.Lost.Members {
			if err := s.setLink(m, plan.LinkAttrs{Master: &a.Link.Name}); err != nil {
				return err
			}
		}
		if err := s.restore(a.Link.Name, a.Lost); err != nil || a.Lost.Far == nil {
			return err
		}
		far, err := k.space(a.Link.PeerNS)
		if err != nil {
			return err
		}
		if err := far.setLink(a.Link.Peer, plan.LinkAttrs{MAC: a.Lost.Far.MAC, MTU: a.Lost.Far.MTU}); err != nil {
			return err
		}
		return far.restore(a.Link.Peer, *a.Lost.Far)
	}
	return undoable(undo), notGone(s.deleteLink(a.Link.Name))
}

// restore puts back what a link lost.
func (s *space) restore(link string, lost plan.Lost) error {
	for _, c := range lost.Sysctls {
		if err := s.setSysctl(c.Key, c.Value); err != nil {
			return err
		}
	}
	// Before it is up, when the kernel makes its address. A mode that needs a secret
	// has lost it.
	if err := s.setLink(link, plan.LinkAttrs{AddrGen: &lost.AddrGen}); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	up := plan.LinkAttrs{Up: &lost.Up}
	if lost.Master != "" {
		up.Master = &lost.Master
	}
	if err := s.setLink(link, up); err != nil {
		return err
	}
	for _, a := range lost.Addrs {
		if err := notThere(s.addAddr(a)); err != nil {
			return err
		}
	}
	if !lost.Up {
		return nil
	}
	return s.putRoutes(lost.Routes)
}

// putRoutes puts back routes that went by themselves; some may be there.
func (s *space) putRoutes(routes []plan.Route) error {
	for _, r := range routes {
		err := notThere(s.putRoute(r, false))
		if errors.Is(err, unix.ENETUNREACH) {
			// It outlived the address that it was made with.
			r.OnLink = r.Hops == ""
			if r.Hops != "" {
				r.Hops = strings.ReplaceAll(strings.ReplaceAll(r.Hops, " onlink", "")+" ", " nexthop ", " onlink nexthop ") + "onlink"
			}
			err = notThere(s.putRoute(r, false))
		}
		if r.Hops != "" && errors.Is(err, unix.ENODEV) {
			err = nil // it comes with the last of its ports
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) doMoveLink(a plan.MoveLink) (effect, error) {
	from, err := k.space(a.From)
	if err != nil {
		return effect{}, err
	}
	to, err := k.space(a.To)
	if err != nil {
		return effect{}, err
	}
	undo := func() error {
		if err := to.moveLink(a.Link, from); err != nil {
			return err
		}
		return from.restore(a.Link, a.Lost)
	}
	return undoable(undo), from.moveLink(a.Link, to)
}

func (k *Kernel) doSetLink(a plan.SetLink) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	back := plan.LinkAttrs{}
	if a.New.Up != nil {
		back.Up = a.Old.Up
	}
	if a.New.MTU != 0 {
		back.MTU = a.Old.MTU
	}
	if a.New.MAC != "" {
		back.MAC = a.Old.MAC
	}
	if a.New.Master != nil {
		back.Master = a.Old.Master
	}
	if a.New.AddrGen != nil {
		back.AddrGen = a.Old.AddrGen
	}
	set := func(to plan.LinkAttrs) error {
		if !a.Bounce {
			return s.setLink(a.Link, to)
		}
		down, up := false, true
		if err := s.setLink(a.Link, plan.LinkAttrs{Up: &down}); err != nil {
			return err
		}
		err := s.setLink(a.Link, to)
		if to.Up != nil {
			return err
		}
		return errors.Join(err, s.setLink(a.Link, plan.LinkAttrs{Up: &up}))
	}
	undo := func() error {
		if err := set(back); err != nil || !a.Bounce && (back.Up == nil || !*back.Up) {
			return err
		}
		lost := a.Lost
		lost.Master = "" // it kept that one; or it went with the bridge, which gets it back
		return s.restore(a.Link, lost)
	}
	if err := set(a.New); err != nil {
		return effect{}, errors.Join(err, undo()) // the kernel may have taken a part of it
	}
	return undoable(undo), nil
}

func (k *Kernel) doPutAddr(a plan.PutAddr) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	if a.Old != nil {
		if err := notGone(s.deleteAddr(*a.Old)); err != nil {
			return effect{}, errors.Join(err, notThere(s.addAddr(*a.Old))) // it may be gone all the same
		}
	}
	undo := func() error {
		err := notGone(s.deleteAddr(a.New))
		if a.Old != nil {
			err = errors.Join(err, s.addAddr(*a.Old))
		}
		return err
	}
	if err := s.addAddr(a.New); err != nil {
		if a.Old != nil {
			err = errors.Join(err, s.addAddr(*a.Old))
		}
		return effect{}, err
	}
	return undoable(undo), nil
}

func (k *Kernel) doPutRoute(a plan.PutRoute) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	undo := func() error { return s.deleteRoute(a.New) }
	if a.Old != nil {
		undo = func() error { return s.putRoute(*a.Old, true) }
	}
	return undoable(undo), s.putRoute(a.New, a.Old != nil)
}

func (k *Kernel) doPutRule(a plan.PutRule) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	if a.Old == nil {
		return undoable(func() error { return s.deleteRule(a.New) }), s.addRule(a.New)
	}
	return undoable(func() error { return s.swapRule(a.New, *a.Old) }), s.swapRule(*a.Old, a.New)
}

// swapRule puts next in the place of old. For a moment both are there, and the
// old one counts; but the kernel takes two rules that differ only in what
// plan.Rule can't say for one and the same.
func (s *space) swapRule(old, next plan.Rule) error {
	err := s.addRule(next)
	if errors.Is(err, unix.EEXIST) {
		if err := notGone(s.deleteRule(old)); err != nil {
			return err
		}
		if err := s.addRule(next); err != nil {
			return errors.Join(err, s.addRule(old))
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := notGone(s.deleteRule(old)); err != nil {
		return errors.Join(err, s.deleteRule(next))
	}
	return nil
}

func (k *Kernel) doSetSysctl(a plan.SetSysctl) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	if a.Old == "" && a.NS == "" {
		// It has only just come to be, with conntrack or with a link: this is how
		// it was found.
		now, err := s.sysctls([]string{a.Key})
		if err != nil {
			return effect{}, err
		}
		if v, ok := now[a.Key]; ok {
			a.Old = v
		}
		if v, ok := now[a.Key]; ok && plan.SysctlLink(a.Key) == "" {
			k.addFound(plan.Found{Sysctls: map[string]string{a.Key: v}})
		}
		if a.Raise && plan.AtLeast(a.Old, a.New) {
			return effect{}, nil
		}
	}
	undo := func() error {
		if a.Old == "" {
			return nil
		}
		err := s.setSysctl(a.Key, a.Old)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // went with what it was of
		}
		return err
	}
	return undoable(undo), s.setSysctl(a.Key, a.New)
}
