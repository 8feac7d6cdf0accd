package cases

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"weir/internal/lab"
)

// given is what an ISP's servers give: one IPv4 address for half a minute, and IPv6
// prefixes out of a /48 for one. They are renewed after 6 s and rebound after 10.
type given struct {
	id     byte // who the DHCPv6 server is
	addr   netip.Addr
	prefix string
}

// upstreams are the servers that ISPs run, for both families.
var upstreams = []struct {
	name     string
	programs []string
	conf     [2]string // of DHCPv4 and DHCPv6: see given.write
	args     [2][]string
	end      [2]string // what becomes of the line in the file, in words and as its block

	gives, keeps []string // what the servers say then, and what they must not
}{
	{
		name: "ISC dhcpd", programs: []string{"dhcpd"},
		end:   [2]string{"is removed", ""},
		gives: []string{"DHCPRELEASE of 198.51.100.20", "Release message", "2001:db8:f2"},
		conf: [2]string{`authoritative; ping-check off; default-lease-time 30; max-lease-time 30;
option dhcp-renewal-time 6; option dhcp-rebinding-time 10;
subnet 198.51.100.0 netmask 255.255.255.0 { range ADDR; option routers 198.51.100.1; }
`, `server-duid LL ethernet 02:00:00:00:ff:ID; preferred-lifetime 40; default-lease-time 60;
option dhcp-renewal-time 6; option dhcp-rebinding-time 10;
subnet6 2001:db8:1::/64 { range6 2001:db8:1::1000 2001:db8:1::1fff; prefix6 PREFIX:: PREFIX:ff00:: /56; }
`},
		args: [2][]string{
			{"dhcpd", "-4", "-f", "-d", "-cf", "HERE/4.conf", "-lf", "HERE/4.leases", "-pf", "HERE/4.pid", "cust0"},
			{"dhcpd", "-6", "-f", "-d", "-cf", "HERE/6.conf", "-lf", "HERE/6.leases", "-pf", "HERE/6.pid", "cust0"},
		},
	},
	{
		name: "Kea", programs: []string{"kea-dhcp4", "kea-dhcp6"},
		end:   [2]string{"wants no prefix any more", "wan \"fiber\" {\n  interface = \"eth1\"\n  ipv6 { delegate = 0 }\n}"},
		gives: []string{"DHCP6_RELEASE_PD"},
		keeps: []string{"DHCP6_RELEASE_NA", "DHCP4_RELEASE"},
		conf: [2]string{`{"Dhcp4": {"interfaces-config": {"interfaces": ["cust0"]}, "authoritative": true,
"lease-database": {"type": "memfile", "name": "HERE/4.leases", "lfc-interval": 0},
"valid-lifetime": 30, "renew-timer": 6, "rebind-timer": 10,
"subnet4": [{"subnet": "198.51.100.0/24", "pools": [{"pool": "ADDR-ADDR"}], "option-data": [{"name": "routers", "data": "198.51.100.1"}]}],
"loggers": [{"name": "kea-dhcp4", "severity": "DEBUG", "debuglevel": 45, "output_options": [{"output": "stdout"}]}]}}
`, `{"Dhcp6": {"interfaces-config": {"interfaces": ["cust0"]}, "server-id": {"type": "LL", "htype": 1, "identifier": "02000000ffID", "persist": false},
"lease-database": {"type": "memfile", "name": "HERE/6.leases", "lfc-interval": 0},
"preferred-lifetime": 40, "valid-lifetime": 60, "renew-timer": 6, "rebind-timer": 10,
"subnet6": [{"subnet": "2001:db8:1::/64", "interface": "cust0", "pools": [{"pool": "2001:db8:1::1000-2001:db8:1::1fff"}],
  "pd-pools": [{"prefix": "PREFIX::", "prefix-len": 48, "delegated-len": 56}]}],
"loggers": [{"name": "kea-dhcp6", "severity": "DEBUG", "debuglevel": 45, "output_options": [{"output": "stdout"}]}]}}
`},
		args: [2][]string{
			{"env", "KEA_LOCKFILE_DIR=HERE", "KEA_PIDFILE_DIR=HERE", "kea-dhcp4", "-c", "HERE/4.conf"},
			{"env", "KEA_LOCKFILE_DIR=HERE", "KEA_PIDFILE_DIR=HERE", "kea-dhcp6", "-c", "HERE/6.conf"},
		},
	},
}

// ownDUID is what ISC dhcpd keeps of its own identity beside the leases.
var ownDUID = regexp.MustCompile(`(?m)^server-duid .*\n`)

// wireLog is what a line's DHCP clients have sent, in words.
type wireLog struct {
	mu  sync.Mutex
	all []string
}

func (w *wireLog) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

func (w *wireLog) since(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all[n:])
}

// dhcpOf hears the DHCP messages that the gateway sends on a line.
func (h *house) dhcpOf(i *lab.ISP) *wireLog {
	w := &wireLog{}
	h.Cleanup(i.Wire.Watch(func(f lab.Frame) {
		var what string
		switch {
		case f.DHCP6 != 0:
			what = "v6 " + dhcpv6.MessageType(f.DHCP6).String()
		case f.DPort == 67 && f.Src.IsUnspecified():
			what = "v4 looking"
		case f.DPort == 67 && f.Dst == addr("255.255.255.255"):
			what = "v4 REBIND"
		case f.DPort == 67:
			what = "v4 RENEW"
		default:
			return
		}
		w.mu.Lock()
		w.all = append(w.all, what)
		w.mu.Unlock()
	}))
	return w
}

// TestISPsOwnServers: the ISP's addresses and prefixes are ISC dhcpd's or Kea's, and its
// router says that addresses are by DHCPv6. What is leased is renewed, kept when
// another server takes the place of one that died, replaced when the ISP renumbers,
// and given back when the file asks for nothing any more.
func TestISPsOwnServers(t *testing.T) {
	t.Parallel()
	for _, u := range upstreams {
		t.Run(u.name, func(t *testing.T) {
			in(t, func(h *house) {
				h.need(append(u.programs, "radvd")...)
				h.needRoot()
				fiber := h.connect(bare(fiberLine()))
				h.connect(lteLine())
				h.must(fiber.Router.AddAddr("cust0", netip.PrefixFrom(fiber.Router4, 24)))
				h.sh(fiber.Router, "chmod 777 "+h.dir)
				heard := h.dhcpOf(fiber)
				var running []*server
				serve := func(g given, fresh bool) {
					for k, conf := range u.conf {
						text := strings.NewReplacer("HERE", h.dir, "ADDR", g.addr.String(), "PREFIX", g.prefix, "ID", fmt.Sprintf("%02x", g.id)).Replace(conf)
						h.must(os.WriteFile(fmt.Sprintf("%s/%d.conf", h.dir, 4+2*k), []byte(text), 0o644))
						leases := fmt.Sprintf("%s/%d.leases", h.dir, 4+2*k)
						b, _ := os.ReadFile(leases)
						if fresh {
							b = nil
						}
						h.must(os.WriteFile(leases, ownDUID.ReplaceAll(b, nil), 0o666))
						args := slices.Clone(u.args[k])
						for i := range args {
							args[i] = strings.ReplaceAll(args[i], "HERE", h.dir)
						}
						running = append(running, h.serve(fiber.Router, args[0], args[1:]...))
					}
				}
				die := func() {
					for _, s := range running {
						h.must(s.cmd.Process.Kill())
						_ = s.cmd.Wait() // its end is ours
					}
					running = nil
				}
				h.radvd(fiber, "AdvManagedFlag on;") // first: it gives cust0 the address whose network is served
				serve(given{1, addr("198.51.100.10"), "2001:db8:f100"}, true)
				pc := h.join("pc", "", "172.31.0.50/24")
				advertised := h.advertisements(pc)
				h.start(base)
				h.until("the daemon answers", 20*time.Second, func() bool { _, err := h.tell("status"); return err == nil })

				var prefix netip.Prefix
				var own string
				holds := func(from string, v4 string) func() bool {
					var next time.Time // to ask all the time would take the machine from who is asked
					return func() bool {
						if time.Now().Before(next) {
							return false
						}
						next = time.Now().Add(200 * time.Millisecond)
						w := h.status().WANs[0]
						if len(w.IPv6.Delegated) != 1 || !strings.HasPrefix(w.IPv6.Delegated[0], from) || !slices.Contains(w.IPv4.Addresses, v4+"/24") {
							return false
						}
						i := slices.IndexFunc(w.IPv6.Addresses, func(a string) bool { return strings.HasPrefix(a, "2001:db8:1::1") && strings.HasSuffix(a, "/128") })
						if i < 0 || len(w.IPv6.Addresses) != 2 { // the other is of the advertisement
							return false
						}
						prefix, own = pfx(w.IPv6.Delegated[0]), w.IPv6.Addresses[i]
						return true
					}
				}
				renewed := func(what string, since int) {
					h.Helper()
					h.until(what, 60*time.Second, func() bool {
						all := heard.since(since)
						return slices.Contains(all, "v6 RENEW") && slices.Contains(all, "v4 RENEW")
					})
				}
				h.until("prefix and addresses are leased", 40*time.Second, holds("2001:db8:f1", "198.51.100.10"))
				h.hasIn(pc, lan64(prefix), 20*time.Second)
				h.sh(h.gw, "ip -n wan-fiber -6 addr show dev eth1 | grep -q "+own)
				first, firstOwn, from := prefix, own, heard.count()
				renewed("they are renewed", from)
				h.until("and that is answered", 10*time.Second, func() bool {
					w := h.status().WANs[0]
					return w.IPv4.Lease.Renew.After(time.Now()) && w.IPv6.Lease.Renew.After(time.Now())
				})

				// The server dies; another has its leases.
				die()
				renewed("nobody answers a renewal", heard.count())
				serve(given{2, addr("198.51.100.10"), "2001:db8:f100"}, false)
				rebound := heard.count()
				h.until("it asks all servers", 60*time.Second, func() bool {
					all := heard.since(rebound)
					return slices.Contains(all, "v6 REBIND") && slices.Contains(all, "v4 REBIND")
				})
				renewed("the other's lease is renewed", heard.count())
				for _, m := range heard.since(from) {
					if m == "v6 SOLICIT" || m == "v6 REQUEST" || m == "v4 looking" {
						t.Errorf("the leases are asked for anew: %q", heard.since(from))
						break
					}
				}
				if !holds("2001:db8:f1", "198.51.100.10")() || prefix != first || own != firstOwn {
					t.Errorf("it holds %s and %s after its server died, had %s and %s", prefix, own, first, firstOwn)
				}

				// The ISP renumbers. Of an address that they do not know these servers say
				// nothing, and so it is kept to its end (RFC 2131, 4.3.2).
				die()
				serve(given{2, addr("198.51.100.20"), "2001:db8:f200"}, true)
				h.until("the new prefix and address are leased", 60*time.Second, holds("2001:db8:f2", "198.51.100.20"))
				h.hasIn(pc, lan64(prefix), 20*time.Second)
				h.until("the old prefix is announced dead", 10*time.Second, func() bool {
					a := advertised.last()
					l, ok := a.life[lan64(first)]
					return ok && l.preferred == 0 && a.life[lan64(prefix)].preferred > 0
				})

				// The end.
				file := strings.Replace(base, `wan "fiber" { interface = "eth1" }`, u.end[1], 1)
				if u.end[1] == "" {
					file = strings.Replace(file, "[wan.fiber, wan.lte]", "[wan.lte]", 1)
				}
				h.write(file)
				from = heard.count()
				_, err := h.tell("apply", "--yes", h.file)
				h.must(err)
				if !slices.Contains(heard.since(from), "v6 RELEASE") {
					t.Errorf("a line that %s sends %q", u.end[0], heard.since(from))
				}
				said := func() (all string) {
					for _, s := range running {
						all += s.said()
					}
					return all
				}
				for _, want := range u.gives {
					h.until("the servers say "+want, 5*time.Second, func() bool { return strings.Contains(said(), want) })
				}
				for _, not := range u.keeps {
					if strings.Contains(said(), not) {
						t.Errorf("a line that %s: the servers say %s", u.end[0], not)
					}
				}
				if len(u.keeps) > 0 { // the rest is held, and renewed
					renewed("the rest is renewed", heard.count())
					w := h.status().WANs[0]
					if !slices.Contains(w.IPv6.Addresses, own) || len(w.IPv6.Delegated) > 0 || !slices.Contains(w.IPv4.Addresses, "198.51.100.20/24") {
						t.Errorf("left are %q and %q, and delegated %q", w.IPv4.Addresses, w.IPv6.Addresses, w.IPv6.Delegated)
					}
				}
			})
		})
	}
}
