package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"weir/internal/desired"
	"weir/internal/netns"
	"weir/internal/plan"
)

// Read returns what the kernel holds of what want is about, and of what is
// weir's besides. It starts no program and changes nothing.
func (k *Kernel) Read(ctx context.Context, want desired.Desired) (plan.Actual, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read(ctx, want)
}

func (k *Kernel) read(ctx context.Context, want desired.Desired) (plan.Actual, error) {
	a := plan.Actual{Machine: k.machine, Last: k.last.Want, Due: slices.Clone(k.due), Found: plan.Found{
		Sysctls: maps.Clone(k.found.Sysctls), Ports: maps.Clone(k.found.Ports), Routes: slices.Clone(k.found.Routes)}}
	names, err := k.names(want)
	if err != nil {
		return a, err
	}
	for name := range k.spaces {
		if !slices.Contains(names, name) {
			k.leave(name) // our sockets are not to keep alive what nobody wants
		}
	}
	var spaces []*space
	var raw [][]rawLink
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return a, err
		}
		s, err := k.space(name)
		if errors.Is(err, fs.ErrNotExist) && name != "" {
			continue
		}
		if err != nil {
			return a, err
		}
		links, err := s.links()
		if err != nil {
			return a, err
		}
		wanted := slices.IndexFunc(want.Namespaces, func(n desired.Namespace) bool { return n.Name == name })
		ns, ok, err := k.readSpace(s, links, want, wanted)
		if err != nil {
			return a, err
		}
		if !ok {
			k.leave(name)
			continue
		}
		a.Namespaces = append(a.Namespaces, ns)
		spaces, raw = append(spaces, s), append(raw, links)
	}
	for i := range spaces {
		k.ends(&a.Namespaces[i], i, spaces, raw)
	}
	for i := range a.Namespaces {
		n, port := &a.Namespaces[i], ""
		for _, w := range want.Namespaces {
			if w.Name == n.Name && w.Shortcut != nil {
				port = w.Shortcut.Port
			}
		}
		if err := errors.Join(k.readShortcut(&a, n, port), k.readFlows(n)); err != nil {
			return a, fmt.Errorf("read the fast path in %s: %w", place(n.Name), err)
		}
	}
	return a, nil
}

// names lists the namespaces to look at: main, those wanted, and those there
// are that are called as ours.
func (k *Kernel) names(want desired.Desired) ([]string, error) {
	there, err := netns.List()
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, n := range there {
		if strings.HasPrefix(n, desired.NSPrefix) {
			names = append(names, n)
		}
	}
	for _, n := range want.Namespaces {
		if n.Name != "" && !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return append([]string{""}, names...), nil
}

// readSpace reads one namespace. ok is false for one that is not wanted and
// not ours.
func (k *Kernel) readSpace(s *space, links []rawLink, want desired.Desired, wanted int) (ns plan.Namespace, ok bool, err error) {
	ns = plan.Namespace{Name: s.name}
	if ns.Table, err = k.readTable(s); err != nil {
		return ns, false, err
	}
	ns.Ours = ns.Table.Exists
	byIndex := make(map[int]string, len(links))
	for _, l := range links {
		ns.Links = append(ns.Links, l.Link)
		ns.Ours = ns.Ours || l.Ours
		byIndex[l.Index] = l.Name
	}
	if wanted < 0 && s.name != "" && !ns.Ours {
		return ns, false, nil
	}
	if ns.Addrs, err = s.addrs(byIndex); err != nil {
		return ns, false, err
	}
	var direct *direct
	if ns.Routes, direct, err = s.routes(byIndex); err != nil {
		return ns, false, err
	}
	for i, a := range ns.Addrs {
		up := slices.ContainsFunc(links, func(l rawLink) bool { return l.Name == a.Link && l.Up })
		ns.Addrs[i].Bare = direct.bare(a, up)
	}
	if ns.Rules, err = s.rules(); err != nil {
		return ns, false, err
	}
	var keys []string
	if wanted >= 0 {
		for _, c := range want.Namespaces[wanted].Sysctls {
			keys = append(keys, c.Key)
		}
	}
	if k.last.Want != nil {
		// What a link has that may go in this turn.
		for _, n := range k.last.Want.Namespaces {
			for _, c := range n.Sysctls {
				if n.Name == s.name && !slices.Contains(keys, c.Key) {
					keys = append(keys, c.Key)
				}
			}
		}
	}
	if s.name == "" {
		keys = slices.AppendSeq(keys, maps.Keys(k.found.Sysctls))
	}
	if ns.Sysctls, err = s.sysctls(keys); err != nil {
		return ns, false, fmt.Errorf("read sysctls in %s: %w", place(s.name), err)
	}
	return ns, true, nil
}

// ends finds out where the other ends of veths are, and what VLANs sit on.
func (k *Kernel) ends(ns *plan.Namespace, self int, spaces []*space, raw [][]rawLink) {
	for i := range ns.Links {
		l := &ns.Links[i]
		if l.Kind != "veth" && l.Kind != "vlan" {
			continue
		}
		r := raw[self][i]
		name, at := "", "?"
		for j, other := range spaces {
			if r.linkNS < 0 && j != self || r.linkNS >= 0 && (j == self || spaces[self].nsid(other) != r.linkNS) {
				continue
			}
			for _, o := range raw[j] {
				if o.Index == r.link {
					name, at = o.Name, other.name
				}
			}
		}
		if l.Kind == "veth" {
			l.Peer, l.PeerNS = name, at
		} else {
			l.Parent = name
		}
	}
}
