package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/internal/lab"
)

// wordsHouse uses what ISC's dhcpd has words for: several pools, a network behind
// a relay, classes of what boots over the network, options by number.
const wordsHouse = `
gateway "gw" { domain = "local" }
wan "fiber" { interface = "eth1" }
lan "home" {
  interface = "eth0"
  address   = "172.31.0.1/24"
  dhcp {
    pool   = ["172.31.0.100-172.31.0.101", "172.31.0.150-172.31.0.160"]
    option = { 224 = "hex:0a 0b" }
    class "uefi" {
      vendor      = "PXEClient"
      arch        = [7, 9]
      next_server = "172.31.0.9"
      boot_file   = "ipxe.efi"
    }
    class "menu" {
      user        = "iPXE"
      next_server = "172.31.0.9"
      boot_file   = "menu.ipxe"
    }
    subnet "upstairs" {
      prefix = "172.31.50.0/24"
      pool   = "172.31.50.100-172.31.50.110"
      option = { domain-name = "upstairs.local" }
    }
  }
  host "old" {
    mac     = "02:00:00:00:00:b0"
    address = "172.31.0.77"
  }
}
dns { engine = "forward" }
`

// upstairs is a network behind a router of the LAN, with ISC's relay on it.
func (h *house) upstairs() *lab.Switch {
	h.Helper()
	router := h.join("stairs", "02:00:00:00:00:a2", "172.31.0.2/24")
	up, err := h.Switch("upstairs")
	h.must(err)
	h.must(up.Plug(lab.Plug{Host: router.Host, Dev: "up0"}))
	h.must(router.AddAddr("up0", pfx("172.31.50.1/24")))
	h.must(router.Up("up0"))
	h.must(router.Sysctl("net/ipv4/ip_forward", "1"))
	h.sh(router.Host, "dhcrelay -4 -d -a -m append --no-pid -id up0 -iu e0 172.31.0.1 >"+h.dir+"/relay.log 2>&1 &")
	h.until("the relay listens", 10*time.Second, func() bool { return strings.Contains(h.sh(router.Host, "ss -uln"), ":67 ") })
	return up
}

// askedFor is what dhclient's lease file says, asked with a configuration.
func (h *house) askedFor(c *lab.Client, conf string) string {
	h.Helper()
	dir := h.dir + "/" + c.Name
	return h.sh(c.Host, fmt.Sprintf("mkdir -p %[1]s; echo '%[2]s' >%[1]s/conf; : >%[1]s/leases; timeout 25 dhclient -4 -1 -cf %[1]s/conf -lf %[1]s/leases -pf %[1]s/pid -sf /bin/true e0 >%[1]s/log 2>&1 || cat %[1]s/log; cat %[1]s/leases; kill $(cat %[1]s/pid) || :", dir, conf))
}

// TestWordsOfISC: what people have in a dhcpd.conf, by programs of others: a
// network behind ISC's relay (RFC 3046), which is renewed past it; classes of what
// boots over the network; several pools; options by number; a client that speaks
// BOOTP only.
func TestWordsOfISC(t *testing.T) {
	in(t, func(h *house) {
		h.need("nft", "dhclient", "udhcpc", "dhcrelay", "bootpc")
		h.connect(fiberLine())
		up := h.upstairs()
		h.start(wordsHouse)
		tv := h.join("tv", "02:00:00:00:00:d1")
		var out string
		h.until("a lease", 30*time.Second, func() bool {
			out = h.askedFor(tv, "option odd code 224 = string; request subnet-mask, routers, domain-name, odd;")
			return strings.Contains(out, "fixed-address")
		})
		for _, want := range []string{"option routers 172.31.0.1;", `option domain-name "local";`, `odd "\n\v";`} {
			if !strings.Contains(out, want) && !strings.Contains(out, strings.Replace(want, `"\n\v"`, "a:b", 1)) {
				h.Errorf("a device of the LAN is not told %s: %s", want, out)
			}
		}

		// Classes: the first that fits, and none for what says nothing.
		if strings.Contains(out, "filename") {
			h.Errorf("a television is told what to boot: %s", out)
		}
		for _, c := range []struct{ say, file string }{
			{`send vendor-class-identifier "PXEClient:Arch:00007:UNDI:003016"; option arch code 93 = unsigned integer 16; send arch 7;`, "ipxe.efi"},
			{`send vendor-class-identifier "PXEClient:Arch:00000:UNDI:002001"; option arch code 93 = unsigned integer 16; send arch 0; send user-class "iPXE";`, "menu.ipxe"},
		} {
			out := h.askedFor(tv, c.say+" request subnet-mask, tftp-server-name, bootfile-name;")
			if !strings.Contains(out, fmt.Sprintf("filename %q;", c.file)) || !strings.Contains(out, `option tftp-server-name "172.31.0.9";`) || !strings.Contains(out, fmt.Sprintf("option bootfile-name %q;", c.file)) {
				h.Errorf("what says %s is told: %s", c.say, out)
			}
		}

		// Behind the relay: its network, its router, and a renewal by unicast.
		pc, err := h.Join(up, "pc", "02:00:00:00:00:d2")
		h.must(err)
		out = h.askedFor(pc, "request subnet-mask, routers, domain-name;")
		_, a, _ := strings.Cut(out, "fixed-address ")
		a, _, _ = strings.Cut(a, ";")
		own, err := netip.ParseAddr(a)
		if err != nil || own.Less(addr("172.31.50.100")) || addr("172.31.50.110").Less(own) ||
			!strings.Contains(out, "option routers 172.31.50.1;") || !strings.Contains(out, `option domain-name "upstairs.local";`) {
			relay := h.sh(h.gw, "cat "+h.dir+"/relay.log")
			h.Errorf("behind the relay a device is told: %s; the relay says: %s", out, relay)
		}
		// Renewed past the relay, by a client that uses what it gets.
		h.sh(pc.Host, strings.ReplaceAll(`cat >DIR/script <<'EOF'
#!/bin/sh
case $1 in bound) ip addr add $ip/24 dev e0; ip route add default via $router;; esac
EOF
chmod +x DIR/script; udhcpc -f -i e0 -s DIR/script >DIR/udhcpc.log 2>&1 & echo $! >DIR/udhcpc.pid`, "DIR", h.dir))
		said := func(what string) bool { return strings.Contains(h.sh(pc.Host, "cat "+h.dir+"/udhcpc.log"), what) }
		h.until("udhcpc has a lease", 20*time.Second, func() bool { return said("obtained from 172.31.0.1") })
		h.until("udhcpc has an address", 5*time.Second, func() bool { as, err := pc.Addrs("e0", false); return err == nil && len(as) == 1 })
		h.sh(pc.Host, ": >"+h.dir+"/udhcpc.log; kill -USR1 $(cat "+h.dir+"/udhcpc.pid)")
		h.until("udhcpc has its lease again", 20*time.Second, func() bool { return said("obtained from 172.31.0.1") })
		if !said("sending renew to server 172.31.0.1") && !said("sending renew to 172.31.0.1") || said("discover") {
			h.Errorf("behind the relay udhcpc says: %s", h.sh(pc.Host, "cat "+h.dir+"/udhcpc.log"))
		}

		// BOOTP: a host of the file, and one that nobody knows.
		for _, c := range []struct{ name, mac, low, high string }{
			{"old", "02:00:00:00:00:b0", "172.31.0.77", "172.31.0.77"}, {"older", "02:00:00:00:00:b1", "172.31.0.100", "172.31.0.160"},
		} {
			d := h.join(c.name, c.mac)
			out := h.sh(d.Host, "ip route add default dev e0; bootpc --dev e0 --serverbcast --returniffail --timeoutwait 15 2>&1 </dev/null || :")
			_, a, _ := strings.Cut(out, "IPADDR='")
			a, _, _ = strings.Cut(a, "'")
			got, err := netip.ParseAddr(a)
			if err != nil || got.Less(addr(c.low)) || addr(c.high).Less(got) || !strings.Contains(out, "GATEWAYS='172.31.0.1'") || !strings.Contains(out, "DOMAIN='local'") {
				h.Errorf("bootpc of %s says: %s", c.name, out)
			}
		}
		// Pools: the first has two addresses, and the second is there when they are gone.
		crowd := h.join("crowd", "", "172.31.0.51/24")
		second := false
		for n := range 6 {
			a, ok := h.take(crowd, n, 2*time.Second)
			if !ok || (a != addr("172.31.0.100") && a != addr("172.31.0.101") && (a.Less(addr("172.31.0.150")) || addr("172.31.0.160").Less(a))) {
				h.Errorf("device %d is given %s (%t)", n, a, ok)
			}
			second = second || addr("172.31.0.101").Less(a)
		}
		if !second {
			h.Error("six devices are given two addresses")
		}
	})
}
