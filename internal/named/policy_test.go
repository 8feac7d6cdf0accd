package named

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestDenied: an answer that is withheld is told once, with what to do about it;
// nothing else that named says is taken for one.
func TestDenied(t *testing.T) {
	for text, want := range map[string]string{
		"answer address 10.0.0.1 denied for a.b.example.co.uk/A/IN": `name=a.b.example.co.uk to=10.0.0.1 rule="rebinding protection" remedy="if that is meant so: dns { private_domain = \"example.co.uk\" }"`,
		"answer address ::ffff:10.0.0.1 denied for x.test/AAAA/IN":  `name=x.test to=::ffff:10.0.0.1 `,
		"answer address 10.0.0.1 denied for ./A/IN":                 `name=. `,
		"":                                       "",
		"answer address":                         "",
		"answer target x.test denied for y.test": "",
		"answer address 10.0.0.1 denied for x.test/TXT/IN":               "",
		"client @0x1 1.1.1.1#1 (answer address 10.0.0.1): denied for x.": "",
	} {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		c := complaints{}
		for range 2 {
			if got := c.told(log, text); got != (want != "") {
				t.Errorf("%q: taken %t", text, got)
			}
		}
		if n := strings.Count(out.String(), "\n"); n > 1 || !strings.Contains(out.String(), want) || (want == "") != (n == 0) {
			t.Errorf("%q: the log has %q, want %q", text, out.String(), want)
		}
	}
}

func TestInside(t *testing.T) {
	got := inside()
	for _, want := range []string{"0.0.0.0/8", "172.16.0.0/12", "::ffff:172.16.0.0/108", "64:ff9b::ac10:0/108", "100.64.0.0/10", "::/128", "::1/128", "fc00::/7", "fe80::/10"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not inside: %q", want, got)
		}
	}
}
