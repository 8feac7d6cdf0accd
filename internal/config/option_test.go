package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestOptionsOnTheWire has the bytes of RFC 2132 (and the RFC named) for each
// kind of value.
func TestOptionsOnTheWire(t *testing.T) {
	for _, c := range []struct{ option, want string }{
		{`routers = "10.0.0.2"`, "3 0a000002"},
		{`ntp-servers = ["10.0.0.1", "10.0.0.2"]`, "42 0a0000010a000002"},
		{`time-offset = -18000`, "2 ffffb9b0"},
		{`time-offset = 3600`, "2 00000e10"},
		{`interface-mtu = 1492`, "26 05d4"},
		{`default-ip-ttl = 64`, "23 40"},
		{`ip-forwarding = false`, "19 00"},
		{`ip-forwarding = true`, "19 01"},
		{`v6-only-preferred = 1800`, "108 00000708"},
		{`domain-name = "home.arpa"`, "15 686f6d652e61727061"},
		{`tftp-server-name = "10.0.0.9"`, "66 31302e302e302e39"},
		{`bootfile-name = "pxe/x"`, "67 7078652f78"},
		{`domain-search = ["a.bc", "d"]`, "119 01610262630001" + "6400"}, // RFC 3397, not compressed
		{`vendor-encapsulated-options = "hex:01:04:c0 a8 00 01"`, "43 0104c0a80001"},
		{`vendor-encapsulated-options = "ab"`, "43 6162"},
		{`150 = "hex:0a000001"`, "150 0a000001"}, // has a name, and is said in bytes
		{`150 = "10.0.0.1"`, "150 0a000001"},     // or as the name has it
		{`42 = ["10.0.0.1", "10.0.0.2"]`, "42 0a0000010a000002"},
		{`224 = "hex:01ff"`, "224 01ff"},
		{`254 = "text"`, "254 74657874"},
		{`121 = "hex:080a0a000002"`, "121 080a0a000002"},
		{`captive-portal = "https://x/"`, "114 68747470733a2f2f782f"},
	} {
		cfg, diags := Parse(simplest, lanWith("dhcp { option = { "+c.option+" } }"))
		if cfg == nil {
			t.Errorf("%s: %v", c.option, diags)
			continue
		}
		o := cfg.LANs[1].DHCP.Options[0]
		if got := fmt.Sprintf("%d %x", o.Code, o.Data); got != c.want || !strings.HasPrefix(c.option, o.Name) && optionNames[o.Name].code != o.Code {
			t.Errorf("%s: %s %s, want %s", c.option, o.Name, got, c.want)
		}
	}
	for _, bad := range []string{
		`0 = "x"`, `255 = "x"`, `1 = "hex:ffffff00"`, `53 = "hex:05"`, `82 = "hex:00"`, `224 = 7`, `224 = "hex:1"`, `224 = ["a"]`, `42 = "x"`, `1.5 = "x"`, `-1 = "x"`,
		`routers = "fd00::1"`, `routers = []`, `routers = 1`, `time-offset = 2147483648`, `time-offset = "x"`, `interface-mtu = -1`, `interface-mtu = 65536`,
		`default-ip-ttl = 256`, `ip-forwarding = 1`, `v6-only-preferred = 4294967296`, `domain-name = ""`, `domain-search = "a..b"`,
		`vendor-encapsulated-options = "hex:0"`, `vendor-encapsulated-options = "hex:"`, `bootfile-name = "` + strings.Repeat("x", 256) + `"`,
		`domain-search = ["` + strings.Repeat(strings.Repeat("x", 40)+`", "`, 8) + `x"]`, `bootfile-name = x`, `ntp-servers = null`,
	} {
		f := lanWith("dhcp { option = { " + bad + " } }")
		_, diags := Parse(simplest, f)
		if !diags.HasErrors() || diags[0].Line != 4 || diags[0].File != f.Name {
			t.Errorf("%s: %v", bad, diags)
		}
	}
}

// lanWith is a second LAN with something in it, in line 4.
func lanWith(what string) File {
	return File{Name: "more.hcl", Src: []byte("lan \"b\" {\n  interface = \"eth9\"\n  address   = \"10.0.99.1/24\"\n  " + what + "\n}\n")}
}
