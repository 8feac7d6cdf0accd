package dns

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Asked is a question of a client, for whoever looks at the log of questions. It
// is kept in memory alone, and only where the file wants it.
type Asked struct {
	At     time.Time
	Client netip.Addr
	Name   string // no trailing dot; printable
	Type   string
	Answer string // "NOERROR", "blocked by ads"; "" where nobody told
	Missed int    // so many more there were, too many to tell; then nothing else is set
}

// A second's questions are told in batches: four of so many at most.
const (
	batchEvery = 250 * time.Millisecond
	batchMost  = 250
)

// Recorder gathers questions and passes them on in batches. It is safe for
// concurrent use.
type Recorder struct {
	send func([]Asked)

	mu     sync.Mutex
	on     bool
	batch  []Asked // oldest first
	missed int
}

// NewRecorder makes a Recorder, which is off. send is called from a goroutine of
// its own, once in 250 ms at most.
func NewRecorder(send func([]Asked)) *Recorder { return &Recorder{send: send} }

// Record turns it on or off.
func (r *Recorder) Record(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

// Add takes a question. Its name and answer may hold anything.
func (r *Recorder) Add(a Asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return
	}
	if len(r.batch) == 0 {
		time.AfterFunc(batchEvery, r.flush)
	}
	if len(r.batch) == batchMost {
		r.missed++
		return
	}
	a.Name, a.Type, a.Answer = printable(strings.TrimSuffix(a.Name, ".")), printable(a.Type), printable(a.Answer)
	r.batch = append(r.batch, a)
}

func (r *Recorder) flush() {
	r.mu.Lock()
	b := r.batch
	if r.missed > 0 {
		b = append(b, Asked{At: b[len(b)-1].At, Missed: r.missed})
	}
	r.batch, r.missed = nil, 0
	r.mu.Unlock()
	r.send(b)
}

// printable is s with what a terminal might obey as ?, and cut to what a name
// can be long with each byte escaped (RFC 1035, 5.1).
func printable(s string) string {
	if s == "" {
		return ""
	}
	s = s[:min(len(s), 4*255)]
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

// said is an answer in a word or two.
func (o outcome) said() string {
	if o.ede != nil && o.ede.InfoCode == dns.ExtendedErrorCodeBlocked {
		if list, ok := strings.CutPrefix(o.ede.ExtraText, listEDE); ok {
			return "blocked by " + list
		}
		return o.ede.ExtraText
	}
	return dns.RcodeToString[o.msg.Rcode]
}
