package kernel

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/plan"
)

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
			// One that left it earlier in the turn is not back yet, and brings its master.
			if _, err := s.linkIndex(m); gone(err) {
				continue
			}
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
		// A bridge that went earlier in the turn is not back yet, and brings its ports.
		if _, err := s.linkIndex(lost.Master); !gone(err) {
			up.Master = &lost.Master
		}
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
		err := s.putRoute(r, false)
		if errors.Is(err, unix.EEXIST) && r.Src.Is6() {
			err = s.putRoute(r, true) // of IPv6 the route stayed, and lost its source
		}
		err = notThere(err)
		if errors.Is(err, unix.ENETUNREACH) {
			// It outlived the address that it was made with.
			r.OnLink = r.Hops == ""
			if r.Hops != "" {
				r.Hops = strings.ReplaceAll(strings.ReplaceAll(r.Hops, " onlink", "")+" ", " nexthop ", " onlink nexthop ") + "onlink"
			}
			err = notThere(s.putRoute(r, false))
		}
		if errors.Is(err, unix.ENODEV) {
			err = nil // it comes with its link, or with the last of its ports
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
