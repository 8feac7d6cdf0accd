package probe

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"
)

var (
	one   = netip.MustParseAddr("1.1.1.1")
	eight = netip.MustParseAddr("8.8.8.8")
	six   = netip.MustParseAddr("2001:db8::1")
	fiber = key{"fiber", false}
	lte   = key{"lte", false}
	fib6  = key{"fiber", true}
)

func testEngine() *engine {
	e := newEngine(rand.NewChaCha8([32]byte{1}))
	e.configure([]Line{{WAN: "fiber", ID: 0x70}, {WAN: "lte", ID: 0x80}, {WAN: "fiber", IPv6: true, ID: 0x90}})
	return e
}

func ask(t *testing.T, e *engine, at Monotonic, k key, id uint64, target netip.Addr) []byte {
	t.Helper()
	p, err := e.ask(at, k, Order{ID: id, WAN: k.wan, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// header4 puts an IPv4 header in front, as raw sockets show it.
func header4(p []byte, from, to netip.Addr, options int) []byte {
	h := make([]byte, header4Len+options)
	h[0] = 0x40 | byte(len(h)/4)
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(p)))
	h[8], h[9] = 60, protoICMP4
	copy(h[12:], from.AsSlice())
	copy(h[16:], to.AsSlice())
	return append(h, p...)
}

// replyTo is a request's reply: its type changed.
func replyTo(ipv6 bool, request []byte) []byte {
	p := bytes.Clone(request)
	p[0] = echoReply4
	if ipv6 {
		p[0] = echoReply6
	}
	return p
}

func error4(kind, code byte, request []byte, target netip.Addr, quoted int) []byte {
	quote := header4(request, netip.MustParseAddr("172.31.1.0"), target, 0)
	return append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, quote[:quoted]...)
}

func error6(kind, code byte, request []byte, target netip.Addr) []byte {
	h := make([]byte, header6Len)
	h[0], h[6], h[7] = 0x60, protoICMP6, 64
	copy(h[24:], target.AsSlice())
	return append(append([]byte{kind, code, 0, 0, 0, 0, 0, 0}, h...), request...)
}

// What counts as a reply, and what does not.
func TestReceive(t *testing.T) {
	const sent, got = Monotonic(1000), Monotonic(1000 + 25*time.Millisecond)
	router := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		name   string
		line   key // the reply comes by
		from   netip.Addr
		packet func(request []byte) []byte
		want   Kind // 0: ignored
		why    string
	}{
		{"the reply", fiber, one, func(r []byte) []byte { return header4(replyTo(false, r), one, router, 0) }, Reply, ""},
		{"with IP options", fiber, one, func(r []byte) []byte { return header4(replyTo(false, r), one, router, 8) }, Reply, ""},
		{"from another", fiber, eight, func(r []byte) []byte { return header4(replyTo(false, r), eight, router, 0) }, 0, ""},
		{"by another line", lte, one, func(r []byte) []byte { return header4(replyTo(false, r), one, router, 0) }, 0, ""},
		{"in the other family", fib6, six, func(r []byte) []byte { return replyTo(true, r) }, 0, ""},
		{"wrong nonce", fiber, one, func(r []byte) []byte {
			p := replyTo(false, r)
			p[len(p)-1] ^= 1
			return header4(p, one, router, 0)
		}, 0, ""},
		{"nonce cut off", fiber, one, func(r []byte) []byte { return header4(replyTo(false, r)[:8], one, router, 0) }, 0, ""},
		{"longer", fiber, one, func(r []byte) []byte { return header4(append(replyTo(false, r), 0), one, router, 0) }, 0, ""},
		{"wrong number", fiber, one, func(r []byte) []byte {
			p := replyTo(false, r)
			p[7]++
			return header4(p, one, router, 0)
		}, 0, ""},
		{"another variant of the identifier", fiber, one, func(r []byte) []byte {
			p := replyTo(false, r)
			p[5]++
			return header4(p, one, router, 0)
		}, 0, ""},
		{"our request back", fiber, one, func(r []byte) []byte { return header4(r, one, router, 0) }, 0, ""},
		{"an error", fiber, router, func(r []byte) []byte { return header4(error4(3, 1, r, one, 28), router, one, 0) }, Failed, "192.0.2.1 says: host unreachable"},
		{"an error that quotes all", fiber, router, func(r []byte) []byte { return header4(error4(11, 0, r, one, 44), router, one, 0) }, Failed, "routing loop"},
		{"an error that quotes too little", fiber, router, func(r []byte) []byte { return header4(error4(3, 1, r, one, 27), router, one, 0) }, 0, ""},
		{"an error about another target", fiber, router, func(r []byte) []byte { return header4(error4(3, 1, r, eight, 28), router, one, 0) }, 0, ""},
		{"an error with a wrong nonce", fiber, router, func(r []byte) []byte {
			p := error4(3, 1, r, one, 44)
			p[len(p)-1] ^= 1
			return header4(p, router, one, 0)
		}, 0, ""},
		{"a redirect", fiber, router, func(r []byte) []byte { return header4(error4(5, 1, r, one, 28), router, one, 0) }, 0, ""},
		{"nothing", fiber, one, func([]byte) []byte { return nil }, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEngine()
			r := ask(t, e, sent, fiber, 41, one)
			ev, ok := e.receive(got, c.line, c.from, c.packet(r))
			if ok != (c.want != 0) || ev.Kind != c.want {
				t.Fatalf("got %+v, %v; want kind %d", ev, ok, c.want)
			}
			if !ok {
				return
			}
			if ev.ID != 41 || ev.At != got || !strings.Contains(ev.Why, c.why) {
				t.Errorf("got %+v, want %q of 41", ev, c.why)
			}
			if ev.Kind == Reply && ev.RTT != 25*time.Millisecond {
				t.Errorf("round trip %v, want 25ms", ev.RTT)
			}
			if _, again := e.receive(got, c.line, c.from, c.packet(r)); again {
				t.Error("it counts twice")
			}
		})
	}
}

func TestReceive6(t *testing.T) {
	e := testEngine()
	r := ask(t, e, 0, fib6, 1, six)
	if _, ok := e.receive(5, fib6, one, replyTo(true, r)); ok {
		t.Error("an IPv4 address answers for an IPv6 target")
	}
	if ev, ok := e.receive(5, fib6, six, replyTo(true, r)); !ok || ev.Kind != Reply {
		t.Errorf("got %+v, %v", ev, ok)
	}
	r = ask(t, e, 0, fib6, 2, six)
	ev, ok := e.receive(5, fib6, one, error6(1, 0, r, six))
	if !ok || ev.Kind != Failed || ev.ID != 2 || !strings.Contains(ev.Why, "no route") {
		t.Errorf("got %+v, %v", ev, ok)
	}
}

// A late reply is a reply with a long round trip; beyond ten seconds it is none,
// and the number's next user is not taken for it.
func TestLateReply(t *testing.T) {
	e := testEngine()
	first := ask(t, e, 0, fiber, 1, one)
	second := ask(t, e, 0, fiber, 2, one)
	if ev, ok := e.receive(Monotonic(9*time.Second), fiber, one, header4(replyTo(false, first), one, one, 0)); !ok || ev.RTT != 9*time.Second {
		t.Errorf("got %+v, %v", ev, ok)
	}
	if ev, ok := e.receive(Monotonic(11*time.Second), fiber, one, header4(replyTo(false, second), one, one, 0)); ok {
		t.Errorf("got %+v", ev)
	}
	for i := range 1 << 16 { // once around
		ask(t, e, Monotonic(20*time.Second)+Monotonic(i), fiber, uint64(i), one)
	}
	if n := len(e.lines[fiber].requests); n != 1<<16 {
		t.Errorf("%d requests wait, want 65536", n)
	}
	ask(t, e, Monotonic(40*time.Second), fiber, 3, one)
	if n := len(e.lines[fiber].requests); n != 1 {
		t.Errorf("%d requests wait after a long silence, want 1", n)
	}
}

// A line that is silent gets another identifier every five seconds, and one that
// answers keeps to its own.
func TestSilentLineChangesItsIdentifier(t *testing.T) {
	e := testEngine()
	ids := map[uint16]int{}
	ident := func(p []byte) uint16 { return binary.BigEndian.Uint16(p[4:]) }
	at := Monotonic(time.Second)
	for range 400 {
		r := ask(t, e, at, fiber, 1, one)
		ids[ident(r)]++
		if _, ok := e.receive(at+1, fiber, one, header4(replyTo(false, r), one, one, 0)); !ok {
			t.Fatal("a reply is ignored")
		}
		at += Monotonic(250 * time.Millisecond)
	}
	if len(ids) != 1 {
		t.Errorf("a line that answers has the identifiers %v", ids)
	}
	last := map[uint16]Monotonic{}
	for range 800 {
		id := ident(ask(t, e, at, fiber, 1, one))
		if before, used := last[id]; used && at-before > Monotonic(6*time.Second) && at-before < Monotonic(30*time.Second) {
			t.Fatalf("identifier %#x comes again after %v", id, time.Duration(at-before))
		}
		if id&^variant != 0x70 {
			t.Fatalf("identifier %#x is not the line's", id)
		}
		last[id] = at
		at += Monotonic(250 * time.Millisecond)
	}
	if len(last) != 16 {
		t.Errorf("a silent line has the identifiers %v, want 16", last)
	}
	r := ask(t, e, at, fiber, 1, one)
	if _, ok := e.receive(at+1, fiber, one, header4(replyTo(false, r), one, one, 0)); !ok {
		t.Error("a reply to a changed identifier is ignored")
	}
}

// A new configuration keeps what waits on lines that stay.
func TestConfigureKeepsWhatWaits(t *testing.T) {
	e := testEngine()
	r := ask(t, e, 0, fiber, 1, one)
	other := ask(t, e, 0, lte, 2, one)
	e.configure([]Line{{WAN: "fiber", ID: 0x70}, {WAN: "lte", ID: 0x990}})
	if _, ok := e.receive(5, fiber, one, header4(replyTo(false, r), one, one, 0)); !ok {
		t.Error("the reply on the line that stayed is ignored")
	}
	if _, ok := e.receive(5, lte, one, header4(replyTo(false, other), one, one, 0)); ok {
		t.Error("a reply with the identifier of before counts")
	}
	if _, err := e.ask(0, fib6, Order{WAN: "fiber", Target: six}); err == nil {
		t.Error("a line that is gone is asked")
	}
}

// The filters let through what parse can read of this identifier, and nothing of
// another.
func TestFilters(t *testing.T) {
	vm := func(prog []bpf.Instruction) func([]byte) bool {
		v, err := bpf.NewVM(prog)
		if err != nil {
			t.Fatal(err)
		}
		return func(p []byte) bool {
			n, err := v.Run(p)
			if err != nil {
				t.Fatal(err)
			}
			return n > 0
		}
	}
	e := testEngine()
	r4, r6 := ask(t, e, 0, fiber, 1, one), ask(t, e, 0, fib6, 2, six)
	for _, c := range []struct {
		name   string
		filter func(id uint16) []bpf.Instruction
		id     uint16
		packet []byte
		want   bool
	}{
		{"reply", filter4, 0x70, header4(replyTo(false, r4), one, one, 0), true},
		{"reply with options", filter4, 0x70, header4(replyTo(false, r4), one, one, 12), true},
		{"request", filter4, 0x70, header4(r4, one, one, 0), false},
		{"unreachable", filter4, 0x70, header4(error4(3, 1, r4, one, 28), one, one, 4), true},
		{"exceeded", filter4, 0x70, header4(error4(11, 0, r4, one, 28), one, one, 0), true},
		{"parameter", filter4, 0x70, header4(error4(12, 0, r4, one, 28), one, one, 0), true},
		{"redirect", filter4, 0x70, header4(error4(5, 0, r4, one, 28), one, one, 0), false},
		{"about a reply of ours", filter4, 0x70, header4(error4(3, 1, replyTo(false, r4), one, 28), one, one, 0), false},
		{"short", filter4, 0x70, header4(nil, one, one, 0), false},
		{"reply", filter6, 0x90, replyTo(true, r6), true},
		{"request", filter6, 0x90, r6, false},
		{"unreachable", filter6, 0x90, error6(1, 0, r6, six), true},
		{"too big", filter6, 0x90, error6(2, 0, r6, six), true},
		{"exceeded", filter6, 0x90, error6(3, 0, r6, six), true},
		{"parameter", filter6, 0x90, error6(4, 0, r6, six), true},
		{"neighbour", filter6, 0x90, []byte{135, 0, 0, 0, 0, 9, 0, 9}, false},
		{"type 0", filter6, 0x90, error6(0, 0, r6, six), false},
		{"short", filter6, 0x90, nil, false},
	} {
		if got := vm(c.filter(c.id))(c.packet); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := vm(c.filter(c.id | variant))(c.packet); got != c.want {
			t.Errorf("%s: %v in a variant of the identifier, want %v", c.name, got, c.want)
		}
		if vm(c.filter(c.id + variant + 1))(c.packet) {
			t.Errorf("%s: it passes another line's filter", c.name)
		}
	}
}

func TestChecksum(t *testing.T) {
	p := request(false, 7, 1, nonce{1, 2, 3})
	if got := checksum(p); got != 0 {
		t.Errorf("the sum over a request with its checksum is %#x, want 0 (RFC 1071)", got)
	}
	if p := request(true, 7, 1, nonce{1, 2, 3}); p[2] != 0 || p[3] != 0 {
		t.Error("ICMPv6's checksum is the kernel's to fill in")
	}
}

// FuzzReceive: no bytes from the wire panic, and none but the right ones count.
func FuzzReceive(f *testing.F) {
	e := testEngine()
	r4, err := e.ask(0, fiber, Order{ID: 1, WAN: "fiber", Target: one})
	if err != nil {
		f.Fatal(err)
	}
	r6, err := e.ask(0, fib6, Order{ID: 2, WAN: "fiber", Target: six})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(false, header4(replyTo(false, r4), one, one, 0))
	f.Add(false, header4(error4(3, 1, r4, one, 28), one, one, 0))
	f.Add(true, replyTo(true, r6))
	f.Add(true, error6(1, 3, r6, six))
	f.Add(false, []byte{0x4f, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, ipv6 bool, p []byte) {
		e := testEngine()
		k, target := fiber, one
		if ipv6 {
			k, target = fib6, six
		}
		r, err := e.ask(0, k, Order{ID: 1, WAN: "fiber", Target: target})
		if err != nil {
			t.Fatal(err)
		}
		ev, ok := e.receive(1, k, target, p)
		if ok && ev.Kind == Reply && !bytes.Contains(p, r[8:]) {
			t.Errorf("%x counts as a reply without the nonce", p)
		}
	})
}
