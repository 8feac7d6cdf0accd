package named

import (
	"testing"
)

func TestRPZAddress(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.0.0.0/8": "8.0.0.0.10", "172.16.0.0/12": "12.0.0.16.172", "fc00::/7": "7.zz.fc00", "::1/128": "128.1.zz", "::/128": "128.zz",
		"64:ff9b::ac10:0/108": "108.0.ac10.zz.ff9b.64", "2001:db8:5::/64": "64.zz.5.db8.2001", "2001:db8:1:2:3:4:5:6/128": "128.6.5.4.3.2.1.db8.2001",
	} {
		got := rpzIP(pfx(prefix))
		if got != want+".rpz-ip" {
			t.Errorf("%s is %s, want %s", prefix, got, want)
		}
		line := "client @0x7f34b4897098 10.1.0.1#53650 (x.test): rpz IP NODATA rewrite x.test/A/IN via " + got + ".rebind.weir"
		if name, to, ok := rebound(line); !ok || name != "x.test" || pfx(to) != pfx(prefix) {
			t.Errorf("%s: %q %q %t", line, name, to, ok)
		}
	}
	for _, line := range []string{
		"", "rpz", "client @0x7f34b4897098 10.1.0.1#53650 (x.test): rpz QNAME NXDOMAIN rewrite x.test/A/IN via x.test.list.weir",
		"client @0x1 10.1.0.1#1 (x.test): rpz IP NODATA rewrite x.test/A/IN via 8.0.0.0.10.rpz-ip.other.weir",
	} {
		if _, _, ok := rebound(line); ok {
			t.Errorf("%q is taken for an answer that pointed inside", line)
		}
	}
}
