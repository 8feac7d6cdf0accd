package cases

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/lab"
	"weir/internal/netns/netnstest"
)

// TestWireGuardFollows: a tunnel of WireGuard, to one server that both lines reach. Its
// line is lost while it carries echoes: it goes on by the other line within the second
// that a call has, in the same session, and stays there when the first is back. Then
// that line is lost while the tunnel is quiet, and its next keepalive finds a way.
func TestWireGuardFollows(t *testing.T) {
	in(t, func(h *house) {
		h.need("wireguard-go", "wg", "ip", "ping")
		if err := lab.TAP(); err != nil {
			netnstest.Missing(t, "tap", err)
		}
		fiber, lte := h.connect(fiberLine()), h.connect(lteLine())
		pc := h.join("pc", "", "172.31.0.50/24", "fd00::50/64")
		server, err := h.Add("server")
		h.must(err)
		for i, isp := range []*lab.ISP{fiber, lte} {
			dev := fmt.Sprintf("eth%d", i)
			h.must(h.Cable(lab.Plug{Host: isp.Inet, Dev: "server"}, lab.Plug{Host: server, Dev: dev}))
			h.must(isp.Inet.AddAddr("server", pfx(fmt.Sprintf("10.99.%d.1/24", i))))
			h.must(server.AddAddr(dev, pfx(fmt.Sprintf("10.99.%d.2/24", i))))
			h.must(server.Route(isp.Customer4[0].Masked(), addr(fmt.Sprintf("10.99.%d.1", i)), dev))
			// In table local, as everything else there is the internet's own.
			h.sh(isp.Inet, fmt.Sprintf("sysctl -qw net.ipv4.ip_forward=1; ip route replace 192.0.2.99/32 via 10.99.%d.2 dev server onlink table local", i))
		}
		h.must(server.AddAddr("lo", pfx("192.0.2.99/32")))
		h.tunnel(server, "wg-server", pc.Host, "wg-pc", "192.0.2.99")

		h.start(base)
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.until("lte is up", 10*time.Second, func() bool { return h.verdict("lte") == api.VerdictUp })
		// What came before the handshake is no gap of the failover's.
		h.sh(pc.Host, "ping -q -c 1 -W 15 10.66.0.2")
		ping, err := pc.Ping(addr("10.66.0.2"), 10*time.Millisecond)
		h.must(err)
		if _, ok := ping.Answered(h.Context(), time.Time{}, 15*time.Second); !ok {
			h.Fatalf("no echo comes through the tunnel: %s", h.sh(pc.Host, "wg show; ip route"))
		}
		from := func() string {
			_, endpoint, _ := strings.Cut(strings.TrimSpace(h.sh(server, "wg show wg-server endpoints")), "\t")
			at, _, _ := strings.Cut(endpoint, ":")
			return at
		}
		shook := func() string { return h.sh(server, "wg show wg-server latest-handshakes") }
		const byFiber, byLTE = "198.51.100.10", "203.0.113.10"
		if at := from(); at != byFiber {
			h.Fatalf("the tunnel comes from %s", at)
		}
		session := shook()

		h.must(fiber.Dark(true))
		cut := time.Now()
		h.until("the tunnel comes from lte's address", 5*time.Second, func() bool { return from() == byLTE })
		if _, ok := ping.Answered(h.Context(), time.Now(), 5*time.Second); !ok {
			h.Fatal("no echo comes through the tunnel again")
		}
		gap := lab.Longest(ping.Stop())
		h.Logf("%d echoes of the tunnel were lost in %v", gap.Lost, gap.Len())
		if gap.Len() > 1500*time.Millisecond || gap.To.Before(cut) {
			h.Errorf("a gap of %v, from %v after the cut", gap.Len(), gap.From.Sub(cut))
		}
		if now := shook(); now != session {
			h.Errorf("it took another handshake: %q, and %q before", now, session)
		}

		h.must(fiber.Dark(false))
		h.untilOutBy(pc, "fiber", 20*time.Second)
		h.must(lte.Dark(true))
		cut = time.Now()
		if at := from(); at != byLTE {
			h.Errorf("the tunnel did not stay by lte: it comes from %s", at)
		}
		h.until("a keepalive comes by fiber", 5*time.Second, func() bool { return from() == byFiber })
		h.Logf("a quiet tunnel came by fiber %v after lte was lost", time.Since(cut))
		h.strays(fiber, lte)
	})
}

// tunnel makes a tunnel of WireGuard between two machines, 10.66.0.2 and 10.66.0.1,
// whose server is at an address.
func (h *house) tunnel(server *lab.Host, there string, client *lab.Host, here, at string) {
	h.Helper()
	for m, dev := range map[*lab.Host]string{server: there, client: here} {
		run := exec.Command("wireguard-go", "-f", dev)
		run.Env = append(os.Environ(), "WG_PROCESS_FOREGROUND=1", "WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD=1")
		h.must(m.Start(run))
		h.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
		h.until(dev+" is there", 5*time.Second, func() bool { _, err := m.Run(h.Context(), "wg", "show", dev); return err == nil })
		h.sh(m, "umask 077; wg genkey > "+h.dir+"/"+dev+".key; wg pubkey < "+h.dir+"/"+dev+".key > "+h.dir+"/"+dev+".pub")
	}
	h.sh(server, fmt.Sprintf("wg set %s private-key %s/%s.key listen-port 51820 peer $(cat %s/%s.pub) allowed-ips 10.66.0.1/32; ip addr add 10.66.0.2/24 dev %s; ip link set %s up",
		there, h.dir, there, h.dir, here, there, there))
	h.sh(client, fmt.Sprintf("wg set %s private-key %s/%s.key peer $(cat %s/%s.pub) allowed-ips 10.66.0.2/32 endpoint %s:51820 persistent-keepalive 1; ip addr add 10.66.0.1/24 dev %s; ip link set %s up",
		here, h.dir, here, h.dir, there, at, here, here))
}
