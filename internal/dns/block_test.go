package dns

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
)

func TestBlocking(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ads.names")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("ads.example\ndeep.example\n*.deep.example\n!good.deep.example\n!*.good.deep.example\n")
	s := served(t, func(_ context.Context, m *dns.Msg) (*dns.Msg, error) {
		r := new(dns.Msg).SetReply(m)
		r.Answer = []dns.RR{addrRR(m.Question[0].Name, netip.MustParseAddr("192.0.2.1"))}
		if m.Question[0].Name == "cloak.example." {
			alias, _ := dns.NewRR("cloak.example. 60 IN CNAME x.deep.example.")
			r.Answer = []dns.RR{alias, addrRR("x.deep.example.", netip.MustParseAddr("192.0.2.1"))}
		}
		return r, nil
	})
	list := List{Name: "ads", File: file, Version: "1", Clients: prefixes("172.31.0.0/24")}
	s.takeLists([]List{list})
	ask := func(from, name string) string {
		t.Helper()
		q := query(name, dns.TypeA)
		q.SetEdns0(1232, false)
		m := unpacked(t, s.serveOne(packed(t, q), from, false))
		out := dns.RcodeToString[m.Rcode]
		if e := edeOf(m); e != nil {
			out += " " + e.ExtraText
		}
		return out
	}
	const lan, other, blocked, passes = "172.31.0.50", "fd00::50", "NXDOMAIN block_list ads", "NOERROR"
	for _, c := range []struct{ from, name, want string }{
		{lan, "ads.example.", blocked}, {lan, "ADS.Example.", blocked}, {lan, "www.ads.example.", passes}, {other, "ads.example.", passes},
		{lan, "deep.example.", blocked}, {lan, "a.b.deep.example.", blocked}, {lan, "good.deep.example.", passes}, {lan, "a.good.deep.example.", passes},
		{lan, "xdeep.example.", passes},
		{other, "cloak.example.", passes}, {lan, "cloak.example.", blocked}, {lan, "cloak.example.", blocked}, {other, "cloak.example.", passes},
		{"::1", "ads.example.", passes}, {"::ffff:172.31.0.50", "ads.example.", blocked}, {lan, "nas.local.", passes},
	} {
		if got := ask(c.from, c.name); got != c.want {
			t.Errorf("%s asks for %s: %s, want %s", c.from, c.name, got, c.want)
		}
	}
	write("two.example\n")
	s.takeLists([]List{list})
	if got := ask(lan, "ads.example."); got != blocked {
		t.Errorf("the version is the same: %s", got)
	}
	list.Version = "2"
	s.takeLists([]List{list})
	if a, b := ask(lan, "ads.example."), ask(lan, "two.example."); a != passes || b != blocked {
		t.Errorf("another version: %s, %s", a, b)
	}
	list.File, list.Version = file+".gone", "3"
	s.takeLists([]List{list})
	if got := ask(lan, "two.example."); got != blocked {
		t.Errorf("a file that can't be read: %s", got)
	}
	s.takeLists(nil)
	if got := ask(lan, "two.example."); got != passes {
		t.Errorf("no list: %s", got)
	}
}
