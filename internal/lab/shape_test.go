package lab

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

// sent is a frame that a direction is told of.
type sent struct {
	at   time.Duration
	size int
}

// told is what it says of it.
type told struct {
	At   time.Duration
	Fate Fate
}

func ask(q *queue, frames ...sent) []told {
	var out []told
	for _, f := range frames {
		at, fate := q.send(f.at, f.size, false)
		out = append(out, told{at, fate})
	}
	return out
}

func TestQueue(t *testing.T) {
	for _, c := range []struct {
		name   string
		shape  Shape
		frames []sent
		want   []told
	}{
		{"plain cable", Shape{}, []sent{{0, 1514}, {0, 60}, {5 * ms, 60}}, []told{{0, Passed}, {0, Passed}, {5 * ms, Passed}}},
		{"delay", Shape{Delay: 20 * ms}, []sent{{0, 1514}, {3 * ms, 60}}, []told{{20 * ms, Passed}, {23 * ms, Passed}}},
		// 1 Mbit/s: 1000 bytes take 8 ms.
		{"rate", Shape{Rate: 1e6, Queue: 10000}, []sent{{0, 1000}, {0, 1000}, {100 * ms, 500}}, []told{{8 * ms, Passed}, {16 * ms, Passed}, {104 * ms, Passed}}},
		{"rate and delay", Shape{Rate: 1e6, Queue: 10000, Delay: ms}, []sent{{0, 1000}, {0, 1000}}, []told{{9 * ms, Passed}, {17 * ms, Passed}}},
		// The queue has room for bytes, not frames: a small one fits where a big one doesn't.
		{"tail drop", Shape{Rate: 1e6, Queue: 2100}, []sent{{0, 1000}, {0, 1000}, {0, 1000}, {0, 100}, {0, 1}, {8 * ms, 1000}},
			[]told{{8 * ms, Passed}, {16 * ms, Passed}, {0, Full}, {16*ms + 800*time.Microsecond, Passed}, {0, Full}, {24*ms + 800*time.Microsecond, Passed}}},
		{"room by default is 100 ms", Shape{Rate: 1e6}, []sent{{0, 6000}, {0, 6500}, {0, 1}}, []told{{48 * ms, Passed}, {100 * ms, Passed}, {0, Full}}},
		{"but two frames", Shape{Rate: 1000}, []sent{{0, 1518}, {0, 1518}, {0, 1}}, []told{{12144 * ms, Passed}, {24288 * ms, Passed}, {0, Full}}},
		{"all lost", Shape{Loss: 100}, []sent{{0, 60}, {0, 60}}, []told{{0, Lost}, {0, Lost}}},
		{"lost frames take their share", Shape{Loss: 100, Rate: 1e6, Queue: 1000}, []sent{{0, 1000}, {0, 1}}, []told{{0, Lost}, {0, Full}}},
		{"dead", Shape{Dead: true, Rate: 1e6, Queue: 10}, []sent{{0, 1000}}, []told{{0, Dead}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.shape.Check(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, ask(newQueue(c.shape, 1), c.frames...)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestQueueChanges(t *testing.T) {
	q := newQueue(Shape{Rate: 1e6, Queue: 3000, Delay: 10 * ms}, 1)
	got := ask(q, sent{0, 1000}, sent{0, 1000})
	// Ten times as fast and without delay: what waits leaves as it would have, and
	// nothing overtakes it.
	q.set(Shape{Rate: 1e7, Queue: 3000})
	got = append(got, ask(q, sent{ms, 1000}, sent{ms, 1000}, sent{30 * ms, 1000})...)
	// Dead, and back: what was under way is not called back.
	q.set(Shape{Dead: true})
	got = append(got, ask(q, sent{31 * ms, 60})...)
	q.set(Shape{})
	got = append(got, ask(q, sent{32 * ms, 60})...)
	want := []told{
		{18 * ms, Passed}, {26 * ms, Passed},
		{26 * ms, Passed}, {0, Full}, {30*ms + 800*time.Microsecond, Passed},
		{0, Dead}, {32 * ms, Passed},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// stream1500 is a steady stream of full frames.
func stream1500(n int, every time.Duration) []sent {
	out := make([]sent, n)
	for i := range out {
		out[i] = sent{time.Duration(i) * every, 1514}
	}
	return out
}

func TestQueueChance(t *testing.T) {
	const n = 20000
	shape := Shape{Loss: 30, Delay: 5 * ms, Jitter: 4 * ms}
	frames := stream1500(n, ms)
	a, b := ask(newQueue(shape, 7), frames...), ask(newQueue(shape, 7), frames...)
	if d := cmp.Diff(a, b); d != "" {
		t.Fatal("the same seed and frames, another fate:", d)
	}
	if cmp.Equal(a, ask(newQueue(shape, 8), frames...)) {
		t.Error("another seed, the same fate")
	}
	lost, last := 0, time.Duration(0)
	least, most := time.Hour, time.Duration(0)
	for i, f := range a {
		if f.Fate == Lost {
			lost++
			continue
		}
		if f.At < last {
			t.Fatalf("frame %d overtakes", i)
		}
		last = f.At
		least, most = min(least, f.At-frames[i].at), max(most, f.At-frames[i].at)
	}
	// Six standard deviations.
	if off := math.Abs(float64(lost) - .3*n); off > 6*math.Sqrt(n*.3*.7) {
		t.Errorf("%d of %d lost, want 30 %%", lost, n)
	}
	if least < 5*ms || least > 5100*time.Microsecond || most > 9*ms || most < 8900*time.Microsecond {
		t.Errorf("delays from %s to %s, want from 5 to 9 ms", least, most)
	}

	// What a frame's luck is does not depend on what the shape was before it.
	q := newQueue(Shape{Dead: true}, 7)
	ask(q, frames[:n/2]...)
	q.set(Shape{Loss: 30})
	for i, f := range ask(q, frames[n/2:]...) {
		if (f.Fate == Lost) != (a[n/2+i].Fate == Lost) {
			t.Fatalf("frame %d: %v after another past, %v otherwise", n/2+i, f.Fate, a[n/2+i].Fate)
		}
	}
}

// Whatever is sent, a direction with a rate carries no more than that and, while
// it is asked for more, no less; and nothing waits longer than the queue is long.
func TestQueueRate(t *testing.T) {
	const rate, room = 2_000_000, 300_000
	frames := stream1500(4000, 3*ms) // 4 Mbit/s for 12 s
	bytes, wait := 0, time.Duration(0)
	var last time.Duration
	for i, f := range ask(newQueue(Shape{Rate: rate, Queue: room}, 1), frames...) {
		if f.Fate == Passed {
			bytes += frames[i].size
			wait, last = max(wait, f.At-frames[i].at), f.At
		}
	}
	if got := float64(bytes) * 8 / last.Seconds(); math.Abs(got-rate) > 1 {
		t.Errorf("carried %.0f bits/s, want %d", got, rate)
	}
	if full := time.Duration(room) * 8 * time.Second / rate; wait > full || wait < full-10*ms {
		t.Errorf("waited %s at most, want %s", wait, full)
	}
}

// What finds neighbours is not lost by chance; a dead direction and a full queue
// take it like all else.
func TestSpared(t *testing.T) {
	arp := make([]byte, 60)
	arp[12], arp[13] = 0x08, 0x06
	ns := make([]byte, 86)
	ns[12], ns[13], ns[20], ns[54] = 0x86, 0xdd, 58, 135
	echo := make([]byte, 118)
	echo[12], echo[13], echo[20], echo[54] = 0x86, 0xdd, 58, 128
	for _, c := range []struct {
		frame []byte
		want  bool
	}{{arp, true}, {ns, true}, {echo, false}, {nil, false}, {ns[:54], false}, {arp[:13], false}} {
		if got := findsNeighbours(c.frame); got != c.want {
			t.Errorf("% x: %v, want %v", c.frame, got, c.want)
		}
	}
	for _, c := range []struct {
		shape Shape
		want  Fate
	}{{Shape{Loss: 100}, Passed}, {Shape{Loss: 100, Rate: 1, Queue: 1}, Full}, {Shape{Dead: true}, Dead}} {
		if _, f := newQueue(c.shape, 1).send(0, 60, true); f != c.want {
			t.Errorf("%+v: %v, want %v", c.shape, f, c.want)
		}
	}
}

func TestShapeCheck(t *testing.T) {
	for _, s := range []Shape{{Delay: -1}, {Jitter: -1}, {Loss: -1}, {Loss: 101}, {Loss: math.NaN()}, {Rate: -1}, {Queue: -1}} {
		if s.Check() == nil {
			t.Errorf("%+v is fine", s)
		}
	}
}

// BenchmarkQueue is what deciding on a frame costs, of a link's cost for it.
func BenchmarkQueue(b *testing.B) {
	q := newQueue(Shape{Rate: 1e9, Queue: 300_000, Loss: 1, Delay: 10 * ms, Jitter: ms}, 1)
	now := time.Duration(0)
	for b.Loop() {
		q.send(now, 1514, false)
		now += 12 * time.Microsecond
	}
}
