package dhcp6

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"weir/internal/state"
)

func TestRelease(t *testing.T) {
	b := newBench(t, Config{Prefix: 56}, isp(pd(0, 0, hourly)))
	b.run(3 * time.Second)
	b.sent, b.answer = nil, nil
	cfg := b.e.cfg
	cfg.Release, cfg.Prefix = true, 0
	b.configure(cfg)
	b.run(time.Minute)
	b.want("release release release release", "", Idle)
	if !b.report.Released {
		t.Error("nobody is told that it is released")
	}
	if m := b.sent[0].m; m.GetOneOption(dhcpv6.OptionServerID) == nil || len(m.Options.OneIAPD().Options.Prefixes()) != 1 {
		t.Error("a RELEASE names the server and the prefix")
	}
}

// What is wanted no more is given back by itself, and what is left is held, renewed in
// time and asked for no sooner.
func TestReleaseOfAPart(t *testing.T) {
	address := ialease{"2001:db8:2::7/128", time.Hour, 2 * time.Hour}
	for _, tt := range []struct {
		name    string
		address bool
		prefix  int
		back    string // prefixes and addresses of the RELEASE
		left    string
	}{
		{"the prefix", true, 0, "2001:db8:1::/56", "2001:db8:2::7/128"},
		{"the address", false, 56, "2001:db8:2::7/128", "2001:db8:1::/56"},
	} {
		for _, heard := range []bool{true, false} {
			answer := isp(pd(0, 0, hourly), na(address))
			b := newBench(t, Config{Prefix: 56, Address: true}, answer)
			b.run(3 * time.Second)
			b.sent = nil
			b.answer = func(q *dhcpv6.Message) *dhcpv6.Message {
				switch {
				case q.MessageType == dhcpv6.MessageTypeRelease && heard:
					return reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusSuccess))
				case q.MessageType == dhcpv6.MessageTypeRelease:
					return reply(q, dhcpv6.MessageTypeReply, 2, code(iana.StatusSuccess)) // another server's word
				}
				return answer(q)
			}
			cfg := b.e.cfg
			cfg.Address, cfg.Prefix, cfg.Release = tt.address, tt.prefix, true
			b.configure(cfg)
			var back []string
			for _, m := range b.sent {
				for _, o := range options[*dhcpv6.OptIAPD](m.m.Options.Options, dhcpv6.OptionIAPD) {
					for _, p := range o.Options.Prefixes() {
						back = append(back, p.Prefix.String())
					}
				}
				for _, o := range options[*dhcpv6.OptIANA](m.m.Options.Options, dhcpv6.OptionIANA) {
					for _, a := range o.Options.Addresses() {
						back = append(back, a.IPv6Addr.String()+"/128")
					}
				}
			}
			if got := strings.Join(back, " "); got != tt.back {
				t.Errorf("%s: gave back %q, want %q", tt.name, got, tt.back)
			}
			if b.held() != tt.left { // in use no longer, whether the server hears of it or not
				t.Errorf("%s: holds %q, want %q", tt.name, b.held(), tt.left)
			}
			// The order without Release comes as soon as the file is in force.
			cfg.Release = false
			b.configure(cfg)
			b.run(time.Minute)
			types := "release"
			if !heard {
				types = "release release release release"
			}
			b.want(types, tt.left, Bound)
			b.sent = nil
			b.run(29 * time.Minute)
			b.want("renew", tt.left, Bound)
		}
	}
	// A file on trial gives nothing back.
	b := newBench(t, Config{Prefix: 56, Address: true}, isp(pd(0, 0, hourly), na(address)))
	b.run(3 * time.Second)
	b.sent = nil
	cfg := b.e.cfg
	cfg.Prefix = 0
	b.configure(cfg)
	b.run(10 * time.Second)
	b.want("confirm", "2001:db8:2::7/128", Bound)
}

// Strangers' messages change nothing.
func TestStrangers(t *testing.T) {
	for name, spoil := range map[string]func(*dhcpv6.Message){
		"transaction": func(m *dhcpv6.Message) { m.TransactionID[0]++ },
		"client":      func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionClientID) },
		"server":      func(m *dhcpv6.Message) { m.Options.Del(dhcpv6.OptionServerID) },
		"two servers": func(m *dhcpv6.Message) { m.AddOption(m.GetOneOption(dhcpv6.OptionServerID)) },
	} {
		b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
			m := reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), pd(0, 0, hourly))
			spoil(m)
			return m
		})
		b.run(time.Second)
		if b.held() != "" {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := decode([]byte{byte(dhcpv6.MessageTypeReconfigure), 1, 2, 3}); err == nil {
		t.Error("a RECONFIGURE is read")
	}
}

func TestOddLeases(t *testing.T) {
	for _, tt := range []struct {
		name string
		ia   dhcpv6.Option
		held string
		note string
	}{
		{"preferred beyond valid", pd(0, 0, ialease{"2001:db8:1::/56", 2 * time.Hour, time.Hour}), "", ""},
		{"T1 after T2", pd(time.Hour, time.Minute, hourly), "", ""},
		{"a /48", pd(0, 0, ialease{"2001:db8::/48", time.Hour, time.Hour}), "2001:db8::/48", ""},
		{"a /60", pd(0, 0, ialease{"2001:db8::/60", time.Hour, time.Hour}), "2001:db8::/60", "a /56 was asked for"},
		{"a /72", pd(0, 0, ialease{"2001:db8::/72", time.Hour, time.Hour}), "2001:db8::/72", "too long"},
		{"everything", pd(0, 0, ialease{"::/0", time.Hour, time.Hour}), "", ""},
		{"half of Europe", pd(0, 0, ialease{"2a00::/8", time.Hour, time.Hour}), "", ""},
		{"all of unique local", pd(0, 0, ialease{"fd00::/8", time.Hour, time.Hour}), "", ""},
		{"an ISP's own", pd(0, 0, ialease{"2001:db8::/32", time.Hour, time.Hour}), "2001:db8::/32", ""},
		{"multicast", pd(0, 0, ialease{"ff00::/56", time.Hour, time.Hour}), "", ""},
		{"link-local", pd(0, 0, ialease{"fe80::/56", time.Hour, time.Hour}), "", ""},
		{"without end", pd(0, 0, ialease{"2001:db8:1::/56", state.Forever, state.Forever}), "2001:db8:1::/56", ""},
		{"a good one beside a bad one", pd(0, 0, ialease{"ff00::/56", time.Hour, time.Hour}, hourly), "2001:db8:1::/56", "nothing that an ISP can lease"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Prefix: 56}, func(q *dhcpv6.Message) *dhcpv6.Message {
				return reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), tt.ia)
			})
			b.run(time.Second)
			if b.held() != tt.held || b.report.Lease != nil && !strings.Contains(b.report.Lease.Note, tt.note) {
				t.Errorf("holds %q: %+v", b.held(), b.report.Lease)
			}
			b.run(10 * 24 * time.Hour) // rests
		})
	}
}

func FuzzReceive(f *testing.F) {
	q := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeSolicit}
	d, _ := hex.DecodeString(testDUID)
	q.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: d})
	for _, m := range []*dhcpv6.Message{
		reply(q, dhcpv6.MessageTypeAdvertise, 1, pd(0, 0, hourly)),
		reply(q, dhcpv6.MessageTypeReply, 1, rapidCommit(), pd(1, 2, hourly, code(iana.StatusNoBinding)), na(ialease{"2001:db8::1/128", 1, 2})),
		reply(q, dhcpv6.MessageTypeReply, 1, code(iana.StatusUnspecFail), dhcpv6.OptDNS(fe2.AsSlice())),
	} {
		f.Add(uint8(0), m.ToBytes())
		f.Add(uint8(3), m.ToBytes())
	}
	f.Fuzz(func(t *testing.T, at uint8, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		x := newBench(t, Config{Prefix: 56, Address: true, Info: true}, nil)
		if at > 0 {
			x.answer = isp(pd(0, 0, hourly))
			x.run(time.Duration(at) * time.Minute)
			x.answer = nil
		} else {
			x.run(3 * time.Second) // an Information-request is under way
		}
		asked := *m
		asked.TransactionID = x.e.info.xid
		x.do(x.e.Receive(x.now, &asked, fe1))
		if i := x.report.Info; i != nil && (len(i.DNS) > maxDNS || len(i.Domain) > maxDomain) {
			t.Errorf("told %+v", i)
		}
		m.TransactionID = x.e.xid
		x.do(x.e.Receive(x.now, m, fe1))
		if l := x.report.Lease; l != nil {
			for _, p := range slices.Concat(l.Prefix, l.Addr) {
				if !usable(p.Prefix) || p.Valid <= 0 || p.Preferred > p.Valid {
					t.Errorf("took %+v", p)
				}
			}
			if len(l.Prefix)+len(l.Addr) == 0 || l.T1 > l.T2 || l.T1 < 0 {
				t.Errorf("took %s", fmt.Sprint(*l))
			}
		}
		x.run(time.Hour)
	})
}
