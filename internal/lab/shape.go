package lab

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Shape is what one direction of a link does to the frames sent by it. The zero
// value is a plain cable.
type Shape struct {
	// Delay is how long a frame is under way once it is wholly sent. Jitter adds
	// up to as much again as it says, evenly spread, by chance. Frames never
	// overtake each other: one that is late holds up those behind it.
	Delay, Jitter time.Duration
	// Loss is how many of a hundred frames get lost under way, by chance and each
	// by itself. They take their share of the rate. ARP and neighbour discovery are
	// spared: the losses are those of the road behind the ISP's router. A neighbour
	// that is not found for a second is an outage, and no loss.
	Loss float64
	// Rate is in bits/s of whole Ethernet frames, without preamble and checksum;
	// 0 is as fast as the lab can. Queue is how many bytes may wait for their turn,
	// the frame being sent among them: what finds no room is dropped (tail drop).
	// 0 is room for 100 ms, and for two full frames at least.
	Rate, Queue int
	// Dead swallows every frame. The carrier stays.
	Dead bool
}

// fullFrame is the longest frame of a link with an MTU of 1500, with a VLAN tag.
const fullFrame = 1518

// Check says what is wrong with a shape, or nil.
func (s Shape) Check() error {
	switch {
	case s.Delay < 0 || s.Jitter < 0:
		return fmt.Errorf("a link's delay of %s and jitter of %s: neither can be negative", s.Delay, s.Jitter)
	case !(s.Loss >= 0 && s.Loss <= 100):
		return fmt.Errorf("a link's loss of %g %%: it is from 0 to 100", s.Loss)
	case s.Rate < 0 || s.Queue < 0:
		return fmt.Errorf("a link's rate of %d bits/s and queue of %d bytes: neither can be negative", s.Rate, s.Queue)
	}
	return nil
}

// room is the bytes that may wait.
func (s Shape) room() int {
	if s.Queue > 0 {
		return s.Queue
	}
	return max(s.Rate/8/10, 2*fullFrame)
}

// Fate is what becomes of a frame.
type Fate uint8

// The fates.
const (
	_      Fate = iota
	Passed      // it arrives
	Lost        // it got lost under way
	Full        // it found no room in the queue
	Dead        // the direction is dead
)

// queue is a direction as a value: it is told when frames of which size are sent
// and says when each arrives, or why it does not. It holds no frame, knows no
// clock, and does the same for the same seed, shapes, times and sizes: each frame
// draws its chances whether it needs them or not, so that a change of the shape
// does not shift the luck of what comes after.
//
// Times are counted from any moment, the same for all calls, and do not go back.
type queue struct {
	shape   Shape
	chance  *rand.Rand
	waiting []unsent // not wholly sent, oldest first
	bytes   int      // of them
	last    time.Duration
}

// unsent is a frame in the queue: when its last bit is sent.
type unsent struct {
	until time.Duration
	size  int
}

func newQueue(s Shape, seed uint64) *queue {
	return &queue{shape: s, chance: rand.New(rand.NewPCG(seed, 0x77656972))}
}

// set changes the shape. What waits already leaves when it would have, and what
// comes after does not overtake it.
func (q *queue) set(s Shape) { q.shape = s }

// send is told of a frame of size bytes at now, and whether loss spares it. The
// time it arrives counts only for one that Passed.
func (q *queue) send(now time.Duration, size int, spared bool) (arrives time.Duration, f Fate) {
	lost, late := q.chance.Float64(), q.chance.Float64()
	s := q.shape
	if s.Dead {
		return 0, Dead
	}
	sent := 0
	for sent < len(q.waiting) && q.waiting[sent].until <= now {
		q.bytes -= q.waiting[sent].size
		sent++
	}
	if sent > 0 {
		q.waiting = q.waiting[:copy(q.waiting, q.waiting[sent:])]
	}

	until := now
	if n := len(q.waiting); n > 0 {
		until = q.waiting[n-1].until
	}
	if s.Rate > 0 {
		if q.bytes+size > s.room() {
			return 0, Full
		}
		until += time.Duration(float64(size) * 8 / float64(s.Rate) * float64(time.Second))
		q.waiting = append(q.waiting, unsent{until, size})
		q.bytes += size
	}
	if lost*100 < s.Loss && !spared {
		return 0, Lost
	}
	q.last = max(q.last, until+s.Delay+time.Duration(late*float64(s.Jitter)))
	return q.last, Passed
}
