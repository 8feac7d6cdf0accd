package failover

import (
	"net/netip"
	"testing"
)

func TestTargetText(t *testing.T) {
	for _, c := range []struct {
		target Target
		want   string
	}{
		{echo("192.0.2.1"), "192.0.2.1"},
		{echo("2001:db8::1"), "2001:db8::1"},
		{Target{Kind: TCP, Addr: netip.MustParseAddr("192.0.2.1"), Port: 443}, "tcp://192.0.2.1:443"},
		{Target{Kind: TCP, Addr: netip.MustParseAddr("2001:db8::1"), Port: 443}, "tcp://[2001:db8::1]:443"},
		{Target{Kind: DNS, Addr: netip.MustParseAddr("192.0.2.1"), Name: "example.org"}, "dns://192.0.2.1/example.org"},
		{Target{Kind: DNS, Addr: netip.MustParseAddr("192.0.2.1"), Port: 53, Name: "example.org"}, "dns://192.0.2.1/example.org"},
		{Target{Kind: DNS, Addr: netip.MustParseAddr("2001:db8::1"), Port: 5353, Name: "example.org"}, "dns://[2001:db8::1]:5353/example.org"},
		{Target{Kind: DNS, Addr: netip.MustParseAddr("2001:db8::1"), Name: "example.org"}, "dns://[2001:db8::1]/example.org"},
		{Target{Kind: DNS, Addr: netip.MustParseAddr("2001:db8::1")}, "dns://[2001:db8::1]"},
	} {
		if got := c.target.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.target, got, c.want)
		}
	}
}
