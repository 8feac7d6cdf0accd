package fastpath

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"weir/internal/ruleset"
)

var (
	home  = Port{Link: Link{Index: 2}}
	guest = Port{Link: Link{Index: 3}}
	fiber = Port{Link: Link{Index: 4}, Line: 1}
	lte   = Port{Link: Link{Index: 5}, Line: 2}
)

// Who may be carried between which ports, by the mark of the entry.
func TestSided(t *testing.T) {
	for _, c := range []struct {
		name      string
		mark      uint32
		near, far Port
		stays     bool
	}{
		{"out by its line", 1, home, fiber, false},
		{"out by its line, other bits", 1 | ruleset.MarkTCP | ruleset.MarkRouted | ruleset.MarkAnswered | ruleset.MarkHeld | 1<<20, home, fiber, false},
		{"in by its line", 1 | ruleset.MarkIn | ruleset.MarkClaimed, fiber, home, false},
		{"from LAN to LAN", 0, home, guest, false},
		{"out by another line", 1, home, lte, true},
		{"out by a line, pinned to none", 0, home, fiber, true},
		{"came in by the line that it leaves by", 1 | ruleset.MarkIn, home, fiber, true},
		{"went out by the line that it comes in by", 1, fiber, home, true},
		{"in by another line", 2 | ruleset.MarkIn, fiber, home, true},
		{"from LAN to LAN, pinned to a line", 1, home, guest, true},
		{"from line to line", 1 | ruleset.MarkIn, fiber, lte, true},
		{"a rule that keeps it", 1 | ruleset.MarkSlow, home, fiber, true},
		{"a rule that keeps it, from LAN to LAN", ruleset.MarkSlow, home, guest, true},
		{"a probe", 1 | ruleset.MarkProbe, home, fiber, true},
	} {
		if why := sided(conntrack.Flow{Mark: c.mark}, c.near, c.far); (why != "") != c.stays {
			t.Errorf("%s: stays with main: %v (%q), want %v", c.name, why != "", why, c.stays)
		}
	}
}

// Main routes by a destination that is translated and a source that is not yet; what
// comes from a LAN is pinned by then, what comes by a cable is not.
func TestAsked(t *testing.T) {
	a := netip.MustParseAddr
	ip := func(src, dst string) conntrack.Tuple {
		return conntrack.Tuple{IP: conntrack.IPTuple{SourceAddress: a(src), DestinationAddress: a(dst)}}
	}
	out := conntrack.Flow{TupleOrig: ip("172.31.0.50", "203.0.113.9"), TupleReply: ip("203.0.113.9", "198.51.100.10"), Mark: 1 | ruleset.MarkTCP}
	in := conntrack.Flow{TupleOrig: ip("203.0.113.9", "198.51.100.10"), TupleReply: ip("172.31.0.23", "203.0.113.9"), Mark: 1 | ruleset.MarkIn}
	for _, c := range []struct {
		name  string
		entry conntrack.Flow
		reply bool
		port  Port
		want  question
	}{
		{"out", out, false, home, question{src: a("172.31.0.50"), dst: a("203.0.113.9"), from: 2, mark: 1}},
		{"its answer", out, true, fiber, question{src: a("203.0.113.9"), dst: a("172.31.0.50"), from: 4}},
		{"in", in, false, fiber, question{src: a("203.0.113.9"), dst: a("172.31.0.23"), from: 4}},
		{"the answer to it", in, true, home, question{src: a("172.31.0.23"), dst: a("203.0.113.9"), from: 2, mark: 1 | ruleset.MarkIn}},
	} {
		if got := asked(c.entry, c.reply, c.port); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What a sweep does with a flow; and that whatever it leaves to the program has an entry
// for longer than the program goes on alone.
func TestFateOf(t *testing.T) {
	clock := timers{tcp: 5 * 24 * time.Hour, udp: 2 * time.Minute}
	tcp := conntrack.Flow{ProtoInfo: conntrack.ProtoInfo{TCP: &conntrack.ProtoInfoTCP{State: tcpEstablished}}}
	const now = time.Hour
	e := func(g uint32) Entry { return Entry{Generation: g} }
	for _, c := range []struct {
		name    string
		entry   conntrack.Flow
		idle    time.Duration
		checked time.Duration // ago
		a, b    Entry
		alone   bool
		want    fate
	}{
		{name: "a call", idle: time.Second, checked: time.Second, a: e(7), b: e(7), want: stays},
		{name: "a call that pauses", idle: time.Minute, checked: time.Second, a: e(7), b: e(7), want: stays},
		{name: "a call that is over", idle: time.Minute + 1, checked: time.Second, a: e(7), b: e(7), want: ends},
		{name: "a connection that waits", entry: tcp, idle: 5 * time.Minute, checked: time.Second, a: e(7), b: e(7), want: stays},
		{name: "and waits on", entry: tcp, idle: 5*time.Minute + 1, checked: time.Second, a: e(7), b: e(7), want: ends},
		{name: "not looked for in a while", checked: checkEvery, a: e(7), b: e(7), want: check},
		{name: "closed one way", a: e(0), b: e(7), want: ends},
		{name: "closed the other way", a: e(7), b: e(0), want: ends},
		{name: "of before", a: e(6), b: e(6), want: ends},
		{name: "one way is gone", a: e(7), b: e(7), alone: true, want: ends},
	} {
		k := &kept{entry: c.entry, last: now - c.idle, checked: now - c.checked, found: [2]found{{c.a, 3}, {c.b, 3}}}
		if c.alone {
			k.found[1].sweep = 2
		}
		got := clock.fateOf(k, 3, 7, now)
		if got != c.want {
			t.Errorf("%s: fate %d, want %d", c.name, got, c.want)
		}
		// It was held when it was checked the last time.
		if left := clock.left(k, now) - checkEvery - spread*sweepSlow; got != ends && left <= patience {
			t.Errorf("%s: conntrack's entry may have %s to live, the program goes on alone for %s", c.name, left, patience)
		}
	}
	for _, short := range []timers{{}, {tcp: time.Second, udp: time.Second}} {
		if left := short.left(&kept{last: 0}, now); left <= patience+checkEvery+spread*sweepSlow {
			t.Errorf("with timers of %v an entry has %s to live", short, left)
		}
	}
}

// No answer of any bytes is more than an error.
func FuzzEntry(f *testing.F) {
	enc := newEncoder()
	tupleTo(enc, Tuple{netip.MustParseAddrPort("172.31.0.50:5000"), netip.MustParseAddrPort("203.0.113.9:443"), unix.IPPROTO_UDP}, 3)
	b, err := enc.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	// The same as the reply's: an entry.
	reply := append([]byte{}, b...)
	native.PutUint16(reply[2:], native.Uint16(reply[2:])&0xc000|ctTupleReply)
	whole := append(append([]byte{}, b...), reply...)
	f.Add(whole)
	c, err := parseEntry(whole)
	if err != nil || c.TupleOrig.Zone != 3 || c.TupleOrig.Proto.DestinationPort != 443 || c.TupleReply.IP.SourceAddress != netip.MustParseAddr("172.31.0.50") {
		f.Errorf("%+v, %v", c, err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseEntry(b)
		if err == nil {
			Ways(c, Side{Link: 1}, Side{Link: 2})
		}
		keyed(b)
	})
}
