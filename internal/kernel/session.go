package kernel

import (
	"bytes"
	"io/fs"
	"net/netip"
	"path"
	"strconv"
	"strings"

	"weir/internal/desired"
	"weir/internal/plan"
)

// A Session is the ssh connection that somebody gives a command by.
type Session struct {
	Peer  netip.Addr // the far end
	Local netip.Addr // the address of this machine that it goes to
}

// FindSession finds the ssh connection behind a process, in its own
// environment or that of the nearest process that started it: sudo and su
// drop SSH_CONNECTION, their parents still have it. root is the machine's file
// system; ok is false if nobody of them came by ssh.
func FindSession(root fs.FS, pid int) (s Session, ok bool) {
	for range 64 {
		if pid <= 0 {
			return Session{}, false
		}
		dir := path.Join("proc", strconv.Itoa(pid))
		if b, err := fs.ReadFile(root, path.Join(dir, "environ")); err == nil {
			for kv := range bytes.SplitSeq(b, []byte{0}) {
				if v, found := bytes.CutPrefix(kv, []byte("SSH_CONNECTION=")); found {
					if s, ok = parseConnection(string(v)); ok {
						return s, true
					}
				}
			}
		}
		if pid, ok = parent(root, dir); !ok {
			return Session{}, false
		}
	}
	return Session{}, false
}

// parseConnection reads sshd's SSH_CONNECTION (ssh(1)): the client's address and
// port, the server's address and port.
func parseConnection(v string) (Session, bool) {
	w := strings.Fields(v)
	if len(w) != 4 {
		return Session{}, false
	}
	peer, err1 := netip.ParseAddr(w[0])
	local, err2 := netip.ParseAddr(w[2])
	return Session{Peer: peer.Unmap(), Local: local.Unmap()}, err1 == nil && err2 == nil
}

// parent reads a process's parent from its stat file (proc(5)): the field after
// the state, which follows the name in parentheses.
func parent(root fs.FS, dir string) (int, bool) {
	b, err := fs.ReadFile(root, path.Join(dir, "stat"))
	if err != nil {
		return 0, false
	}
	_, rest, ok := strings.Cut(string(b[max(0, bytes.LastIndexByte(b, ')')):]), ") ")
	w := strings.Fields(rest)
	if !ok || len(w) < 2 {
		return 0, false
	}
	pid, err := strconv.Atoi(w[1])
	return pid, err == nil
}

// Cut says how a plan would cut a session, "" if it would not: its port, or what that
// stands on, moved to a WAN's namespace, taken down, out of its bridge or put into
// one; its address taken away or its network made smaller; or the route to the peer.
func (s Session) Cut(a plan.Actual, p plan.Plan) string {
	link := s.link(a)
	if link == "" {
		return "" // over loopback, or by an address that is not this namespace's
	}
	under := s.under(a, link)
	for _, step := range p.Steps {
		why := ""
		switch do := step.Do.(type) {
		case plan.MoveLink:
			if do.From == "" && under[do.Link] {
				why = "moves " + do.Link + " to " + do.To
			}
		case plan.DeleteLink:
			if do.NS == "" && under[do.Link.Name] {
				why = "removes " + do.Link.Name
			}
		case plan.SetLink:
			if do.NS != "" || !under[do.Link] {
				break
			}
			switch {
			case do.New.Up != nil && !*do.New.Up:
				why = "takes " + do.Link + " down"
			case do.New.Master != nil && *do.New.Master != "":
				why = "puts " + do.Link + " into the bridge " + *do.New.Master
			case do.New.Master != nil && do.Link != link:
				why = "takes " + do.Link + " out of the bridge " + link
			case do.New.MAC != "":
				why = "gives " + do.Link + " another MAC address"
			}
		case plan.PutAddr:
			if do.NS == "" && do.Old != nil && do.Old.Prefix.Addr() == s.Local.WithZone("") && do.Old.Prefix.Contains(s.Peer.WithZone("")) && !do.New.Prefix.Contains(s.Peer.WithZone("")) {
				why = "makes the network of " + s.Local.String() + " " + do.New.Prefix.Masked().String() + ", which you are not in"
			}
		case plan.DeleteAddr:
			if do.NS == "" && do.Addr.Prefix.Addr() == s.Local.WithZone("") {
				why = "takes " + s.Local.String() + " from " + do.Addr.Link
			}
		case plan.PutRoute:
			if do.NS == "" && do.Old != nil && s.needs(a, *do.Old) {
				why = "replaces the route to " + s.Peer.String()
			}
		case plan.DeleteRoute:
			if do.NS == "" && s.needs(a, do.Route) {
				why = "removes the route to " + s.Peer.String()
			}
		}
		if why != "" {
			return "it " + why + ", by which your ssh session from " + s.Peer.String() + " comes in"
		}
	}
	return ""
}

// needs says whether answers to the peer leave by a route of somebody else's
// in main: no connected network and no longer prefix has the peer.
func (s Session) needs(a plan.Actual, r plan.Route) bool {
	peer := s.Peer.WithZone("")
	if r.Proto == desired.RouteProto || r.Table != 0 || !r.Dst.Contains(peer) {
		return false
	}
	for _, n := range a.Namespaces {
		if n.Name != "" {
			continue
		}
		for _, x := range n.Addrs {
			if x.Prefix.Contains(peer) {
				return false
			}
		}
		for _, x := range n.Routes {
			if x.Table == 0 && x.Dst.Contains(peer) && x.Dst.Bits() > r.Dst.Bits() {
				return false
			}
		}
	}
	return true
}

// under is the session's link and those that it stands on: a VLAN's port, a bridge's
// ports, of which any may be the session's. Whoever is asked too often has --confirm.
func (s Session) under(a plan.Actual, link string) map[string]bool {
	all := map[string]bool{link: true}
	for _, n := range a.Namespaces {
		if n.Name != "" {
			continue
		}
		for range 3 { // a bridge of VLANs on ports is the deepest
			for _, x := range n.Links {
				if x.Name != "" && all[x.Master] && x.Master != "" {
					all[x.Name] = true
				}
				if all[x.Name] && x.Kind == "vlan" {
					all[x.Parent] = true
				}
			}
		}
	}
	return all
}

// link is the link of main that has the session's address.
func (s Session) link(a plan.Actual) string {
	for _, n := range a.Namespaces {
		if n.Name != "" {
			continue
		}
		for _, x := range n.Addrs {
			if x.Prefix.Addr() == s.Local.WithZone("") && (s.Local.Zone() == "" || s.Local.Zone() == x.Link) {
				return x.Link
			}
		}
	}
	return ""
}
