package kernel

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/fastpath"
	"weir/internal/netns"
	"weir/internal/plan"
)

// tryFastPath says why no program can be attached to a link here, "" if it can.
func tryFastPath() string {
	err := netns.Do("", func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return fastpath.Try()
	})
	switch {
	case err == nil:
		return ""
	case errors.Is(err, unix.EPERM):
		return "loading programs is not permitted here: it takes CAP_BPF and CAP_NET_ADMIN, and not in a user namespace"
	case errors.Is(err, unix.EINVAL):
		return "this kernel can't attach programs by tcx, which is there since Linux 6.6: " + err.Error()
	}
	return err.Error()
}

// fastLinks are the links that programs may be on, and the two that a shortcut of
// this namespace is between.
func fastLinks(a *plan.Actual, ns *plan.Namespace) (all []fastpath.Link, between fastpath.Links) {
	all = programLinks(ns.Links)
	for i, l := range ns.Links {
		if l.Name != desired.CableInner || ns.Name == "" {
			continue
		}
		between.Cable = all[i]
		for i := range a.Namespaces {
			if far := &a.Namespaces[i]; far.Name == l.PeerNS {
				for _, f := range far.Links {
					if f.Name == l.Peer {
						between.Far = f.MAC
					}
				}
			}
		}
	}
	return all, between
}

// readShortcut finds the fast path of a namespace, whose links are all read.
func (k *Kernel) readShortcut(a *plan.Actual, ns *plan.Namespace, port string) error {
	if !k.machine.FastPath {
		return nil
	}
	all, between := fastLinks(a, ns)
	if i := slices.IndexFunc(all, func(l fastpath.Link) bool { return l.Name == port }); i >= 0 {
		between.Port = all[i]
	}
	return netns.Do(ns.Name, func() error {
		found, err := fastpath.Read(all, between)
		if err != nil || found == nil {
			return err
		}
		ns.Shortcut = &plan.Shortcut{On: found.On, Parts: found.Ours, Wrong: found.Wrong}
		return nil
	})
}

func (k *Kernel) doPutShortcut(a plan.PutShortcut) (effect, error) {
	if err := k.putShortcut(a.NS, a.New); err != nil {
		return effect{}, err
	}
	return undoable(func() error { return k.putShortcut(a.NS, a.Old) }), nil
}

// putShortcut reads the links as they are by now, and attaches the programs to
// them; nil detaches what is there.
func (k *Kernel) putShortcut(ns string, want *desired.Shortcut) error {
	a := plan.Actual{}
	names := []string{ns}
	if ns != "" {
		names = append(names, "")
	}
	var spaces []*space
	var raw [][]rawLink
	for _, name := range names {
		s, err := k.space(name)
		if err != nil {
			return err
		}
		links, err := s.links()
		if err != nil {
			return err
		}
		n := plan.Namespace{Name: name}
		for _, l := range links {
			n.Links = append(n.Links, l.Link)
		}
		a.Namespaces = append(a.Namespaces, n)
		spaces, raw = append(spaces, s), append(raw, links)
	}
	k.ends(&a.Namespaces[0], 0, spaces, raw)
	all, between := fastLinks(&a, &a.Namespaces[0])
	return netns.Do(ns, func() error {
		if want == nil {
			return fastpath.Remove(all)
		}
		i := slices.IndexFunc(all, func(l fastpath.Link) bool { return l.Name == want.Port })
		if i < 0 {
			return fmt.Errorf("%s is not in %s: %w", want.Port, place(ns), unix.ENODEV)
		}
		between.Port = all[i]
		return fastpath.Put(all, between, want.Parts)
	})
}
