package blocklist

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	both, below, pass := blockName|blockBelow, blockBelow, passName|passBelow
	for _, c := range []struct {
		what, text string
		want       names
	}{
		{"hosts", "127.0.0.1 localhost localhost.localdomain\n::1 ip6-localhost\n0.0.0.0 0.0.0.0\n0.0.0.0 Ads.Example. two.example # both\nfe80::1%lo0 localhost\n", names{"ads.example": blockName, "two.example": blockName}},
		{"names", "ads.example\r\n*.all.example\n.dot.example\n_dmarc.ads.example # why\n\n", names{"ads.example": blockName, "all.example": both, "dot.example": both, "_dmarc.ads.example": blockName}},
		{"Adblock Plus", "[Adblock Plus]\n! a list\n||ads.example^\n||*.wild.example^\n||important.example^$important\n@@||good.example^|\n||page.example^$third-party\n||path.example/x\n##.banner\nexample.com##.ad\n/regexp/\n@@/x/\n", names{"ads.example": both, "wild.example": both, "important.example": both, "good.example": pass}},
		{"a policy zone", "$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ IN NS localhost.\nads.example CNAME .\n*.ads.example 60 IN CNAME .\nnodata.example IN CNAME *.\ngood.example CNAME rpz-passthru.\nwalled.example A 192.0.2.1\n32.1.2.0.192.rpz-ip CNAME .\nslow.example CNAME rpz-tcp-only.\n", names{"ads.example": both, "nodata.example": blockName, "good.example": passName, "walled.example": blockName}},
		{"a policy zone with its origin", "$ORIGIN rpz.example.\nads.example.rpz.example. CNAME .\n*.ads.example.rpz.example. CNAME .\n", names{"ads.example": both}},
		{"a transferred policy zone", "rpz.example. 60 IN SOA a. b. 1 2 3 4 5\nads.example.rpz.example. 60 IN CNAME .\n", names{"ads.example": blockName}},
		{"no top-level domain, no address", "com\n||net^\n192.0.2.1\nok.example\nfine.example\n", names{"ok.example": blockName, "fine.example": blockName}},
		{"below alone", "*.b.example CNAME .\n", names{"b.example": below}},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := names{}
			if _, err := parse(strings.NewReader(c.text), got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"no name":           "# nothing\n",
		"web page":          "\n<html>\nads.example\n",
		"no list":           "ads.example\nthis is prose\nand some more\n",
		"more than 64 MB":   "ads.example\n" + strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", maxBytes/1024),
		"there is no name":  strings.Repeat("x", 100_000) + "\n",
		"there is no name ": "\x00\xff\x01\n\x02",
	} {
		if _, err := parse(strings.NewReader(text), names{}); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// verdict is what a policy zone says of a name, as a server looks it up: by the
// name, else by the wildcard at the closest name that is there (RFC 4592).
func verdict(zone map[string]string, name string) string {
	if v, ok := zone[name]; ok {
		return v
	}
	exists := func(n string) bool {
		for owner := range zone {
			if owner == n || strings.HasSuffix(owner, "."+n) {
				return true
			}
		}
		return false
	}
	if exists(name) {
		return ""
	}
	for p := range parents(name) {
		if exists(p) {
			return zone["*."+p]
		}
	}
	return ""
}

func policyOf(t *testing.T, n names) map[string]string {
	t.Helper()
	var b bytes.Buffer
	if err := n.writePolicy(&b, 1); err != nil {
		t.Fatal(err)
	}
	zone := map[string]string{}
	for l := range strings.Lines(b.String()) {
		if f := strings.Fields(l); len(f) == 3 && f[1] == "CNAME" {
			zone[f[0]] = f[2]
		}
	}
	return zone
}

func TestCompile(t *testing.T) {
	rules := names{}
	if _, err := parse(strings.NewReader("||deep.example^\nx.deep.example\n@@||a.b.good.deep.example^\nads.example\n*.ads.example\nsub.ads.example\nown.example\nwww.own.example\n"), rules); err != nil {
		t.Fatal(err)
	}
	zone := policyOf(t, compile(rules, []string{"own.example", "cdn.ads.example"}))
	for name, want := range map[string]string{
		"deep.example": ".", "x.deep.example": ".", "y.x.deep.example": ".", "good.deep.example": ".", "b.good.deep.example": ".", "z.b.good.deep.example": ".",
		"z.good.deep.example": ".", "a.b.good.deep.example": "rpz-passthru.", "q.a.b.good.deep.example": "rpz-passthru.",
		"ads.example": ".", "sub.ads.example": ".", "r.sub.ads.example": ".", "cdn.ads.example": "rpz-passthru.", "r.cdn.ads.example": "rpz-passthru.",
		"own.example": "", "www.own.example": "", "other.example": "", "example": "",
	} {
		if got := verdict(zone, name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// FuzzParse: no bytes make it panic, nor files that a resolver reads as something
// else than names.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"0.0.0.0 ads.example\n", "||ads.example^$important\n@@||good.ads.example^\n", "$ORIGIN x.\n*.a.x. 60 IN CNAME rpz-passthru.\n", "a.example CNAME\n", "@", "*.\n", "..\n", "0.0.0.0\n",
		"a.b\x00c.example\n", "\xff\xfe", "||^\n", "@@||\n", "a.example IN\n", "* CNAME .\n", strings.Repeat("a.", 200) + "example\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rules := names{}
		if _, err := parse(bytes.NewReader(b), rules); err != nil {
			return
		}
		for name := range rules {
			if !validName(name) {
				t.Fatalf("took %q", name)
			}
		}
		out := compile(rules, []string{"allowed.example"})
		var text bytes.Buffer
		if err := out.writeNames(&text); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(text.String()) {
			if name := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "!"), "*."); !validName(name) {
				t.Fatalf("wrote %q", l)
			}
		}
		for owner := range policyOf(t, out) {
			if !validName(strings.TrimPrefix(owner, "*.")) {
				t.Fatalf("wrote %q into the policy zone", owner)
			}
		}
	})
}
