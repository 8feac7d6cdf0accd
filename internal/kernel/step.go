package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

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
		return undoable(func() error { return sourceMissing(a.Route, s.putRoute(a.Route, false)) }), notGone(s.deleteRoute(a.Route))
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
	case plan.PutFlows:
		return k.doPutFlows(a)
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

func (k *Kernel) doPutAddr(a plan.PutAddr) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	if a.Old == nil {
		if err := s.addAddr(a.New); err != nil {
			return effect{}, err
		}
		return undoable(func() error { return notGone(s.deleteAddr(a.New)) }), nil
	}
	return undoable(func() error { return s.swapAddr(a.New, *a.Old) }), s.swapAddr(*a.Old, a.New)
}

// swapAddr puts next in the place of old, which is the same address with another
// length. IPv4 has both for a moment, and the address never goes, nor what is routed by
// it; IPv6 takes the second for the first (net/ipv6/addrconf.c, ipv6_add_addr).
func (s *space) swapAddr(old, next plan.Addr) error {
	if old.Prefix.Addr().Is4() {
		if err := s.addAddr(next); err != nil {
			return err
		}
		if err := notGone(s.deleteAddr(old)); err != nil {
			return errors.Join(err, notThere(s.addAddr(old)), s.deleteAddr(next)) // it may be gone all the same
		}
		return nil
	}
	if err := notGone(s.deleteAddr(old)); err != nil {
		return errors.Join(err, notThere(s.addAddr(old)))
	}
	if err := s.addAddr(next); err != nil {
		return errors.Join(err, s.addAddr(old))
	}
	return nil
}

func (k *Kernel) doPutRoute(a plan.PutRoute) (effect, error) {
	s, err := k.space(a.NS)
	if err != nil {
		return effect{}, err
	}
	undo := func() error { return s.deleteRoute(a.New) }
	if a.Old != nil {
		undo = func() error {
			err := s.putRoute(*a.Old, true)
			if err != nil && sourceMissing(*a.Old, err) == nil {
				return notGone(s.deleteRoute(a.New))
			}
			return err
		}
	}
	return undoable(undo), s.putRoute(a.New, a.Old != nil)
}

// sourceMissing forgives that a route can't be put back as its source is not there yet:
// the link that has that address brings the route with it (plan.Lost).
func sourceMissing(r plan.Route, err error) error {
	if r.Src.IsValid() && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
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
		if v, ok := now[a.Key]; ok && a.Found {
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
