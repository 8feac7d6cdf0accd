package named

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// TestSuspects: a complaint of named's is about the zone that was asked for, and about
// nobody that the file does not name.
func TestSuspects(t *testing.T) {
	ap := netip.MustParseAddrPort
	of := []Forwarder{
		{"", ap("9.9.9.9:53")}, {"branch.example", ap("10.9.0.1:53")}, {"lab.branch.example", ap("10.9.0.2:5353")},
		{"branch.example", ap("[fd00::9]:53")}, {"9.10.in-addr.arpa", ap("10.9.0.1:53")},
	}
	for text, want := range map[string]string{
		"x.branch.example resolver failure, stale answer unavailable":                            "branch.example 10.9.0.1:53, branch.example [fd00::9]:53",
		"www.example.com resolver failure, stale answer used":                                    " 9.9.9.9:53",
		"x.branch.example stale answer used, an attempt to refresh the RRset will still be made": "",
		"timed out resolving 'x.branch.example/A/IN': 10.9.0.1#53":                               "branch.example 10.9.0.1:53",
		"timed out resolving 'Branch.Example/SOA/IN': 10.9.0.1#53":                               "branch.example 10.9.0.1:53",
		"host unreachable resolving 'x.lab.branch.example/AAAA/IN': 10.9.0.2#5353":               "lab.branch.example 10.9.0.2:5353",
		"REFUSED unexpected RCODE resolving 'x.branch.example/A/IN': fd00::9#53":                 "branch.example [fd00::9]:53",
		"timed out resolving '1.0.9.10.in-addr.arpa/PTR/IN': 10.9.0.1#53":                        "9.10.in-addr.arpa 10.9.0.1:53",
		"timed out resolving 'www.example.com/A/IN': 9.9.9.9#53":                                 " 9.9.9.9:53",
		"timed out resolving './NS/IN': 9.9.9.9#53":                                              " 9.9.9.9:53",
		"timed out resolving 'x.lab.branch.example/A/IN': 10.9.0.1#53":                           "", // not asked for that
		"timed out resolving 'notbranch.example/A/IN': 10.9.0.1#53":                              "",
		"timed out resolving 'www.example.com/A/IN': 192.0.2.53#53":                              "", // one of the root's
		"timed out resolving 'x.branch.example/A/IN': 10.9.0.1#5353":                             "",
		"timed out resolving 'x.branch.example/A/IN': 10.9.0.1#99999":                            "",
		"timed out resolving 'x' resolving 'x.branch.example/A/IN': 10.9.0.1#53 more":            "",
		"": "",
	} {
		got := []string{}
		for _, f := range suspects(of, text) {
			got = append(got, f.Zone+" "+f.Server.String())
		}
		if d := strings.Join(got, ", "); d != want {
			t.Errorf("%s: %q, want %q", text, d, want)
		}
	}
}

// TestWatch: who gives no answer is news once, and once more when he does.
func TestWatch(t *testing.T) {
	ap := netip.MustParseAddrPort
	one, other := Forwarder{"a.example", ap("10.9.0.1:53")}, Forwarder{"b.example", ap("10.9.0.1:53")}
	log := slog.New(slog.DiscardHandler)
	w := newWatch()
	w.keep([]Forwarder{one, other})
	step := func(what string, s Silent, news bool, silent int) {
		t.Helper()
		before := w.silent
		told := len(before)
		if got := w.take(s, log); got != news || len(w.silent) != silent || len(before) != told {
			t.Errorf("%s: news %t, silent %v", what, got, w.silent)
		}
	}
	step("an answer", Silent{Forwarder: one}, false, 0)
	step("none", Silent{one, "not within 2s"}, true, 1)
	step("none again", Silent{one, "not within 2s"}, false, 1)
	step("the other zone's too", Silent{other, "not within 2s"}, true, 2)
	step("for another reason", Silent{one, "it answers REFUSED"}, true, 2)
	step("one answers", Silent{Forwarder: one}, true, 1)
	step("one that the file does not name", Silent{Forwarder{"c.example", ap("10.9.0.1:53")}, "x"}, false, 1)
	if w.keep([]Forwarder{one, other}) {
		t.Error("the same forwarders are others")
	}
	if !w.keep([]Forwarder{one}) || len(w.silent) != 0 {
		t.Errorf("a zone that is gone is still silent: %v", w.silent)
	}
}
