package doctor

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// ruleset is one of each kind of thing that weir's rulesets have.
const ruleset = `table inet doctor {
  map source { type ifname : ipv4_addr; }
  set learned { type ipv4_addr; flags dynamic,timeout; timeout 1m; }
  counter some { }
  chain forward { type filter hook forward priority 0; policy drop
    ct state established,related accept
    tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu
    fib daddr type local counter name "some" accept
    reject with tcp reset
  }
  chain route { type route hook output priority -150; meta mark set ct mark and 0xff; }
  chain before { type filter hook prerouting priority -150; ct mark set ct mark or 0x100; }
  chain nat { type nat hook postrouting priority 100; snat ip to oifname map @source; masquerade; }
}
`

func kernels(m Machine) (out []Finding) {
	major, minor := version(m.Kernel)
	switch {
	case major == 0:
		out = append(out, Finding{Check: "kernel", State: Unseen, Seen: fmt.Sprintf("its release %q is no number", m.Kernel)})
	case major < 5 || major == 5 && minor < 18:
		out = append(out, Finding{Check: "kernel", State: Wrong, Seen: m.Kernel, Do: "5.18 or newer is needed: Debian 12 and Ubuntu 24.04 have it"})
	default:
		out = append(out, ok("kernel", "%s", m.Kernel)...)
	}
	out = append(out, nft(m)...)
	for _, l := range []struct{ kind, module, command, without string }{
		{"veth", "veth", "ip link add doctor0 type veth peer name doctor1", "weir does not work without: the cables are made of it"},
		{"bridge", "bridge", "ip link add doctor0 type bridge", "a LAN of several ports needs it"},
		{"vlan", "8021q", "ip link add doctor0 type veth peer name doctor1 && ip link add link doctor0 name doctor2 type vlan id 2", "a LAN or WAN with vlan needs it"},
	} {
		text, err := m.Run("", "sh", "-c", l.command)
		switch {
		case err == nil:
			out = append(out, ok(l.kind, "can be made")...)
		case noNamespaces(text, err):
			out = append(out, Finding{Check: l.kind, State: Unseen, Seen: "this user can make no network namespace to try it in", Do: "try it as root"})
		default:
			f := Finding{Check: l.kind, State: Note, Seen: strings.TrimSpace(text) + "; " + l.without, Do: "modprobe " + l.module + ", and for good: echo " + l.module + " > /etc/modules-load.d/weir-" + l.module + ".conf"}
			if l.kind == "veth" {
				f.State = Wrong
			}
			if moduleThere(m.Root, m.Kernel, l.module) {
				f.Safe, f.fix = true, func() error { return m.Load(l.module) }
			} else {
				f.Do = "this kernel has no module " + l.module + ": it takes another one"
			}
			out = append(out, f)
		}
	}
	return out
}

// noNamespaces says that what failed is to make the namespaces to try something in.
func noNamespaces(text string, err error) bool {
	return text == "" && err != nil && !strings.Contains(err.Error(), "exit status")
}

func nft(m Machine) []Finding {
	if m.NFT == "" {
		return []Finding{{Check: "nft", State: Wrong, Seen: "the program nft is not there", Do: "apt-get install nftables"}}
	}
	// "nftables v1.0.6 (Lester Gooch #5)"
	_, v, _ := strings.Cut(m.NFT, " v")
	major, minor := version(v)
	_, rest, _ := strings.Cut(v, fmt.Sprintf("%d.%d.", major, minor))
	patch, _ := strconv.Atoi(leading(rest))
	if major < 1 || major == 1 && minor == 0 && patch < 6 {
		return []Finding{{Check: "nft", State: Wrong, Seen: strings.TrimSpace(m.NFT), Do: "1.0.6 or newer is needed"}}
	}
	text, err := m.Run(ruleset, "nft", "-f", "-")
	switch {
	case err == nil:
		return ok("nft", "%s, and the kernel takes rulesets like weir's", strings.TrimSpace(m.NFT))
	case noNamespaces(text, err) || strings.Contains(text, "Operation not permitted"):
		return []Finding{{Check: "nft", State: Unseen, Seen: strings.TrimSpace(m.NFT) + "; whether the kernel takes weir's rulesets can't be tried by this user", Do: "try it as root"}}
	}
	return []Finding{{Check: "nft", State: Wrong, Seen: "the kernel does not take a ruleset like weir's: " + strings.TrimSpace(text), Do: "it needs nf_tables with inet, nat, conntrack, fib and reject: another kernel has them"}}
}

// moduleThere says whether the kernel has a module on disk.
func moduleThere(root fs.FS, release, module string) bool {
	b, err := fs.ReadFile(root, "lib/modules/"+release+"/modules.dep")
	if err != nil {
		return false
	}
	return strings.Contains(string(b), "/"+module+".ko")
}

// version reads "6.1.0-18": 6 and 1.
func version(s string) (major, minor int) {
	a, rest, _ := strings.Cut(strings.TrimSpace(s), ".")
	major, _ = strconv.Atoi(leading(a))
	minor, _ = strconv.Atoi(leading(rest))
	return major, minor
}

// leading is the digits that s begins with.
func leading(s string) string {
	for i, c := range s {
		if c < '0' || c > '9' {
			return s[:i]
		}
	}
	return s
}
