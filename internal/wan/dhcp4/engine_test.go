package dhcp4

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"weir/internal/ether"
	"weir/internal/state"
)

func TestPlainLife(t *testing.T) {
	s := begin(t, Config{Hostname: "gw"}, isp{})
	s.until(time.Hour)
	s.want(`
    0.000 selecting, holds nothing:
    0.000 > DISCOVER
    0.000 < OFFER
    0.000 requesting, holds nothing:
    0.000 > REQUEST wants 198.51.100.10 of 198.51.100.1
    0.000 < ACK
    0.000 probing, holds nothing:
    0.000 > who has 198.51.100.10
    0.100 > who has 198.51.100.10
    0.200 > who has 198.51.100.10
    0.300 bound, holds 198.51.100.10/24: got 198.51.100.10/24 from server 198.51.100.1
 1800.000 renewing, holds 198.51.100.10/24: got 198.51.100.10/24 from server 198.51.100.1
 1800.000 > to 198.51.100.1 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
 1800.000 < ACK
 1800.000 bound, holds 198.51.100.10/24: renewed 198.51.100.10/24 from server 198.51.100.1
 3600.000 renewing, holds 198.51.100.10/24: renewed 198.51.100.10/24 from server 198.51.100.1
 3600.000 > to 198.51.100.1 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
 3600.000 < ACK
 3600.000 bound, holds 198.51.100.10/24: renewed 198.51.100.10/24 from server 198.51.100.1`)
}

// B14: the server's identifier is private and off the link, and unicast is never
// answered: the lease is kept, and renewed by broadcast at T2.
func TestDeafToUnicast(t *testing.T) {
	s := begin(t, Config{}, isp{deafUnicast: true, options: []dhcpv4.Option{opt(51, 0, 0, 0, 120), opt(54, 10, 1, 2, 3)}})
	s.until(time.Second)
	s.clear()
	s.until(200 * time.Second)
	s.want(`
   60.000 renewing, holds 198.51.100.10/24: got 198.51.100.10/24 from server 10.1.2.3
   60.000 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
   82.500 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
   93.750 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
  103.750 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
  105.000 rebinding, holds 198.51.100.10/24: got 198.51.100.10/24 from server 10.1.2.3
  105.000 > REQUEST ciaddr 198.51.100.10 from 198.51.100.10
  105.000 < ACK
  105.000 bound, holds 198.51.100.10/24: renewed 198.51.100.10/24 from server 10.1.2.3
  165.000 renewing, holds 198.51.100.10/24: renewed 198.51.100.10/24 from server 10.1.2.3
  165.000 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
  187.500 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
  198.750 > to 10.1.2.3 from 198.51.100.10: REQUEST ciaddr 198.51.100.10`)
}

// B14, at its own lengths: for ten minutes of leases of 120 s the address is kept,
// without a moment between, whether the server answers unicast or not.
func TestTenMinutesOfShortLeases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server []byte
		deaf   bool
		acks   int // without the first
	}{
		{"server outside the network", []byte{66, 66, 66, 66}, false, 10},
		{"and deaf to unicast", []byte{66, 66, 66, 66}, true, 5},
		{"server in private space", []byte{10, 1, 2, 3}, false, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := begin(t, Config{}, isp{deafUnicast: tt.deaf, options: []dhcpv4.Option{opt(51, 0, 0, 0, 120), opt(54, tt.server...)}})
			s.until(time.Second)
			s.clear()
			for at := time.Second; at <= 10*time.Minute; at += time.Second {
				s.until(at)
				if s.lease == nil || s.lease.Addr.String() != "198.51.100.10/24" {
					t.Fatalf("after %v it holds %v:\n%s", at, s.lease, strings.Join(s.lines, "\n"))
				}
			}
			acks, asked := 0, 0
			for _, l := range s.lines {
				if strings.HasSuffix(l, "< ACK") {
					acks++
				}
				if strings.Contains(l, "DISCOVER") {
					asked++
				}
			}
			if acks != tt.acks || asked > 0 {
				t.Errorf("%d renewals and %d leases asked for anew, want %d and none:\n%s", acks, asked, tt.acks, strings.Join(s.lines, "\n"))
			}
		})
	}
}

// B02: the lease ends during an outage, and the line is back soon after it.
func TestServerGoneAndBack(t *testing.T) {
	s := begin(t, Config{}, isp{options: []dhcpv4.Option{opt(51, 0, 0, 0, 30)}})
	s.until(time.Second)
	s.isp.silent = true
	s.until(29 * time.Second)
	if s.lease == nil {
		t.Fatal("the lease was given up before its end")
	}
	s.clear()
	s.until(31 * time.Second)
	s.want(`
   30.000 selecting, holds nothing: the lease ended: no server renewed it
   30.000 > DISCOVER wants 198.51.100.10
   30.875 > DISCOVER wants 198.51.100.10`)
	s.until(10 * time.Minute)
	s.isp.silent = false
	s.until(10*time.Minute + maxBackoff)
	if s.lease == nil {
		t.Errorf("no lease %v after the server came back:\n%s", maxBackoff, strings.Join(s.lines, "\n"))
	}
}

func TestReboot(t *testing.T) {
	for _, tt := range []struct {
		name string
		last *state.Lease4
		isp  isp
		run  time.Duration
		want string
	}{
		{"confirmed", last(time.Minute), isp{}, time.Minute, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.000 < ACK
    0.000 bound, holds 198.51.100.10/24: confirmed 198.51.100.10/24 from server 198.51.100.1`},
		{"refused", last(time.Minute), isp{nak: "wrong network", addr: "203.0.113.5"}, 0, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.000 < NAK
    0.000 selecting, holds nothing: server 198.51.100.1 said no: wrong network
    0.000 > DISCOVER
    0.000 < OFFER
    0.000 requesting, holds nothing: server 198.51.100.1 said no: wrong network
    0.000 > REQUEST wants 203.0.113.5 of 198.51.100.1
    0.000 < ACK
    0.000 probing, holds nothing: server 198.51.100.1 said no: wrong network
    0.000 > who has 203.0.113.5`},
		{"nobody answers", last(time.Minute), isp{silent: true}, time.Minute, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.875 > REQUEST wants 198.51.100.10
    2.625 > REQUEST wants 198.51.100.10
    6.125 selecting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > DISCOVER wants 198.51.100.10
    7.000 > DISCOVER wants 198.51.100.10
    8.750 > DISCOVER wants 198.51.100.10
   12.250 > DISCOVER wants 198.51.100.10 broadcast
   19.250 bound, holds 198.51.100.10/24: no DHCP server answers; the lease goes on`},
		{"another network, whose server doesn't say no", last(time.Minute), isp{noReboot: true, addr: "203.0.113.5"}, 7 * time.Second, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.875 > REQUEST wants 198.51.100.10
    2.625 > REQUEST wants 198.51.100.10
    6.125 selecting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > DISCOVER wants 198.51.100.10
    6.125 < OFFER
    6.125 requesting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > REQUEST wants 203.0.113.5 of 198.51.100.1
    6.125 < ACK
    6.125 probing, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > who has 203.0.113.5
    6.225 > who has 203.0.113.5
    6.325 > who has 203.0.113.5
    6.425 bound, holds 203.0.113.5/24: got 203.0.113.5/24 from server 198.51.100.1`},
		{"past T2 and nobody answers", last(55 * time.Minute), isp{silent: true}, 20 * time.Second, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.875 > REQUEST wants 198.51.100.10
    2.625 > REQUEST wants 198.51.100.10
    6.125 selecting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > DISCOVER wants 198.51.100.10
    7.000 > DISCOVER wants 198.51.100.10
    8.750 > DISCOVER wants 198.51.100.10
   12.250 > DISCOVER wants 198.51.100.10 broadcast
   19.250 rebinding, holds 198.51.100.10/24: no DHCP server answers; the lease goes on
   19.250 > REQUEST ciaddr 198.51.100.10 from 198.51.100.10`},
		{"B16: it ended by the clock, and the server still has it", last(2 * time.Hour), isp{}, time.Minute, `
    0.000 rebooting, holds nothing: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.000 < ACK
    0.000 bound, holds 198.51.100.10/24: confirmed 198.51.100.10/24 from server 198.51.100.1`},
		{"B16: the clock is back in 1970, and nobody says that the lease is good", last(-56 * 365 * 24 * time.Hour), isp{silent: true}, 7 * time.Second, `
    0.000 rebooting, holds nothing: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.875 > REQUEST wants 198.51.100.10
    2.625 > REQUEST wants 198.51.100.10
    6.125 selecting, holds nothing: asking for 198.51.100.10 again
    6.125 > DISCOVER wants 198.51.100.10
    7.000 > DISCOVER wants 198.51.100.10`},
		{"B16: the clock is back in 1970, and the server still has it", last(-56 * 365 * 24 * time.Hour), isp{}, time.Minute, `
    0.000 rebooting, holds nothing: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.000 < ACK
    0.000 bound, holds 198.51.100.10/24: confirmed 198.51.100.10/24 from server 198.51.100.1`},
		{"B16: the clock was set from 1970 after the ACK, and weir restarted", sinceBoot(last(56*365*24*time.Hour), 55*time.Minute), isp{silent: true}, time.Minute / 4, `
    0.000 rebooting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10
    0.875 > REQUEST wants 198.51.100.10
    2.625 > REQUEST wants 198.51.100.10
    6.125 selecting, holds 198.51.100.10/24: asking for 198.51.100.10 again
    6.125 > DISCOVER wants 198.51.100.10
    7.000 > DISCOVER wants 198.51.100.10
    8.750 > DISCOVER wants 198.51.100.10
   12.250 > DISCOVER wants 198.51.100.10 broadcast`},
		{"B16: the same, and it ended meanwhile", sinceBoot(last(-time.Hour), 61*time.Minute), isp{silent: true}, time.Second / 2, `
    0.000 rebooting, holds nothing: asking for 198.51.100.10 again
    0.000 > REQUEST wants 198.51.100.10`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := begin(t, Config{Last: tt.last}, tt.isp)
			s.until(tt.run)
			s.want(tt.want)
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Run("NAK of a renewal", func(t *testing.T) {
		s := begin(t, Config{}, isp{})
		s.until(time.Minute)
		s.isp = isp{nak: "moved\x1b[31m", addr: "203.0.113.5"}
		s.clear()
		s.until(31 * time.Minute)
		s.want(`
 1800.000 renewing, holds 198.51.100.10/24: got 198.51.100.10/24 from server 198.51.100.1
 1800.000 > to 198.51.100.1 from 198.51.100.10: REQUEST ciaddr 198.51.100.10
 1800.000 < NAK
 1800.000 selecting, holds nothing: server 198.51.100.1 said no: moved[31m
 1800.000 > DISCOVER
 1800.000 < OFFER
 1800.000 requesting, holds nothing: server 198.51.100.1 said no: moved[31m
 1800.000 > REQUEST wants 203.0.113.5 of 198.51.100.1
 1800.000 < ACK
 1800.000 probing, holds nothing: server 198.51.100.1 said no: moved[31m
 1800.000 > who has 203.0.113.5
 1800.100 > who has 203.0.113.5
 1800.200 > who has 203.0.113.5
 1800.300 bound, holds 203.0.113.5/24: got 203.0.113.5/24 from server 198.51.100.1`)
	})
	t.Run("offered and refused for ever", func(t *testing.T) {
		s := begin(t, Config{}, isp{nakTake: true})
		s.until(time.Hour)
		if n := strings.Count(strings.Join(s.lines, "\n"), "> DISCOVER"); n < 100 || n > 300 {
			t.Errorf("%d attempts in an hour: want one every %v or so", n, maxBackoff)
		}
	})
	t.Run("offered, then silent", func(t *testing.T) {
		s := begin(t, Config{}, isp{silent: true})
		o := s.isp
		o.silent = false
		p := o.answer(s.wire(s.e.discover(s.now)), false)
		s.clear()
		s.do(s.e.Receive(s.now, p, ispMAC))
		s.until(13*time.Second + 500*time.Millisecond)
		s.want(`
    0.000 requesting, holds nothing:
    0.000 > REQUEST wants 198.51.100.10 of 198.51.100.1
    0.875 > REQUEST wants 198.51.100.10 of 198.51.100.1
    2.625 > REQUEST wants 198.51.100.10 of 198.51.100.1
    6.125 > REQUEST wants 198.51.100.10 of 198.51.100.1 broadcast
   13.125 selecting, holds nothing: server 198.51.100.1 offered 198.51.100.10 and then fell silent
   13.125 > DISCOVER`)
	})
}

func TestConflicts(t *testing.T) {
	addr := netip.MustParseAddr("198.51.100.10")
	thief := ether.MAC{2, 0, 0, 0, 0, 0x66}
	uses := &ether.ARP{Op: ether.ARPReply, Sender: thief, SenderIP: addr, Target: mac, TargetIP: netip.IPv4Unspecified()}
	t.Run("in use", func(t *testing.T) {
		s := begin(t, Config{}, isp{silent: true})
		s.isp.silent, s.arp = false, uses
		s.clear()
		s.until(11 * time.Second)
		s.want(`
    0.875 > DISCOVER
    0.875 < OFFER
    0.875 requesting, holds nothing:
    0.875 > REQUEST wants 198.51.100.10 of 198.51.100.1
    0.875 < ACK
    0.875 probing, holds nothing:
    0.875 > who has 198.51.100.10
    0.875 init, holds nothing: 198.51.100.1 gave 198.51.100.10, which 02:00:00:00:00:66 uses already: declined
    0.875 > DECLINE wants 198.51.100.10 of 198.51.100.1
   10.875 selecting, holds nothing: 198.51.100.1 gave 198.51.100.10, which 02:00:00:00:00:66 uses already: declined
   10.875 > DISCOVER
   10.875 < OFFER
   10.875 requesting, holds nothing: 198.51.100.1 gave 198.51.100.10, which 02:00:00:00:00:66 uses already: declined
   10.875 > REQUEST wants 198.51.100.10 of 198.51.100.1
   10.875 < ACK
   10.875 probing, holds nothing: 198.51.100.1 gave 198.51.100.10, which 02:00:00:00:00:66 uses already: declined
   10.875 > who has 198.51.100.10
   10.875 init, holds nothing: 198.51.100.1 gave 198.51.100.10, which 02:00:00:00:00:66 uses already: declined
   10.875 > DECLINE wants 198.51.100.10 of 198.51.100.1`)
		// A network where everything is answered for: online all the same.
		s.until(time.Minute)
		if s.lease == nil || !strings.Contains(s.lease.Note, "without a check") {
			t.Errorf("after %d declines the lease is %+v", maxDeclines, s.lease)
		}
	})
	for name, a := range map[string]ether.ARP{
		"the ISP's proxy ARP":           {Op: ether.ARPReply, Sender: ispMAC, SenderIP: addr, Target: mac},
		"our own probe":                 ether.Probe(mac, addr),
		"about another address":         {Op: ether.ARPReply, Sender: thief, SenderIP: netip.MustParseAddr("198.51.100.11"), Target: mac},
		"somebody looking for our host": {Op: ether.ARPRequest, Sender: thief, SenderIP: netip.MustParseAddr("198.51.100.11"), TargetIP: addr},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, Config{}, isp{silent: true})
			s.isp.silent, s.arp = false, &a
			s.until(2 * time.Second)
			if s.lease == nil {
				t.Errorf("no lease:\n%s", strings.Join(s.lines, "\n"))
			}
		})
	}
	t.Run("another client probes for it too", func(t *testing.T) {
		s := begin(t, Config{}, isp{silent: true})
		a := ether.Probe(thief, addr)
		s.isp.silent, s.arp = false, &a
		s.until(2 * time.Second)
		if s.lease != nil {
			t.Errorf("both take it:\n%s", strings.Join(s.lines, "\n"))
		}
	})
}

func TestConfigure(t *testing.T) {
	cfg := Config{MAC: mac.String()}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"nothing that matters", func(c *Config) { c.Port = "eth9" }, ``},
		{"the carrier came back", func(c *Config) { c.Confirm++ }, `
   60.000 rebooting, holds 198.51.100.10/24: confirming the lease
   60.000 > REQUEST wants 198.51.100.10
   60.000 < ACK
   60.000 bound, holds 198.51.100.10/24: confirmed 198.51.100.10/24 from server 198.51.100.1`},
		{"other routes are wanted", func(c *Config) { c.IgnoreClasslessRoutes = true }, `
   60.000 rebooting, holds 198.51.100.10/24: confirming the lease
   60.000 > REQUEST wants 198.51.100.10
   60.000 < ACK
   60.000 bound, holds 198.51.100.10/24: confirmed 198.51.100.10/24 from server 198.51.100.1`},
		{"somebody else", func(c *Config) { c.ClientID = "customer 17" }, `
   60.000 selecting, holds nothing: the client's identity changed
   60.000 > DISCOVER
   60.000 < OFFER
   60.000 requesting, holds nothing: the client's identity changed
   60.000 > REQUEST wants 198.51.100.10 of 198.51.100.1
   60.000 < ACK
   60.000 probing, holds nothing: the client's identity changed
   60.000 > who has 198.51.100.10`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := begin(t, cfg, isp{})
			s.until(time.Minute)
			s.clear()
			c := cfg
			tt.change(&c)
			out, err := s.e.Configure(c, s.now)
			if err != nil {
				t.Fatal(err)
			}
			s.do(out)
			s.want(tt.want)
		})
	}
	s := begin(t, cfg, isp{})
	if _, err := s.e.Configure(Config{MAC: "eth0"}, s.now); err == nil {
		t.Error("a MAC that is none was taken")
	}
}

// What is held is given back to its server, once, by way of whoever the ACK came from,
// and nothing is asked for until another configuration says so.
func TestRelease(t *testing.T) {
	s := begin(t, Config{}, isp{})
	s.until(5 * time.Second)
	s.clear()
	order := func(release bool) {
		out, err := s.e.Configure(Config{MAC: mac.String(), Release: release}, s.now)
		if err != nil {
			t.Fatal(err)
		}
		s.do(out)
	}
	order(true)
	order(true)
	s.until(48 * time.Hour)
	s.want(`
	    5.000 released, holds nothing: given back to 198.51.100.1
	    5.000 > by 02:00:00:00:00:fe to 198.51.100.1 from 198.51.100.10: RELEASE ciaddr 198.51.100.10 of 198.51.100.1
	`)
	s.clear()
	order(false)
	if got := s.e.State(); got != Probing {
		t.Errorf("asked for again it is %s", got)
	}
	// Of a lease whose server nobody knows nothing is said.
	s = begin(t, Config{}, isp{silent: true})
	s.clear()
	order(true)
	s.until(time.Hour)
	s.want("    0.000 released, holds nothing:")
}
