package failover

import "time"

// secondOpinion has the other lines of the family asked at once, when the line in
// use answers echoes and nothing else any more: what they say decides whether the
// targets are dead or the line is hollow, and a line in reserve is asked seldom.
func (m *Machine) secondOpinion(now time.Time, l *line) {
	if !l.inUse || !l.echoesOnly() {
		return
	}
	for _, o := range m.lines {
		if o != l && o.id.Family == l.id.Family && o.verdict.Works() && o.verdict != Suspect {
			o.next, o.volley = now, true
		}
	}
}

const (
	// disproof is how many packets of running conversations tell that a line whose
	// targets of other kinds are silent carries more than echoes: more than far ends
	// repeat that hear nothing from us. unspoken is how long none comes on a line that
	// does not; what was on its way when the targets fell silent has come by settled.
	disproof = 50
	unspoken = 2 * time.Second
	settled  = time.Second
)

// hearsay is what a line carries while only its echoes are answered.
type hearsay struct {
	echoesSince time.Time // zero: others are answered too
	carried     uint64    // packets of running conversations, echo replies not among them
	carriedAt   time.Time // the last
}

// suspectEchoes notes since when only echoes are answered.
func (l *line) suspectEchoes(now time.Time) {
	switch {
	case !l.echoesOnly():
		l.hearsay = hearsay{}
	case l.echoesSince.IsZero():
		l.echoesSince = now
	}
}

// carries takes n packets of running conversations, seen at a time.
func (h *hearsay) carries(at time.Time, n uint64) {
	if n > 0 && !h.echoesSince.IsZero() && at.Sub(h.echoesSince) >= settled {
		h.carried, h.carriedAt = h.carried+n, at
	}
}

// disproved says that the line carries more than echoes, whatever its targets do.
func (h *hearsay) disproved() bool { return h.carried >= disproof }

// unheard says whether nothing but echoes came for so long that the line is judged.
func (h *hearsay) unheard(now time.Time) bool {
	return now.Sub(later(h.echoesSince, h.carriedAt)) >= unspoken
}

// echoesOnly says whether a target answers echoes, and every one that is asked in
// another way, and was answered before, is deaf.
func (l *line) echoesOnly() bool {
	echoes, others := false, false
	for _, t := range l.targets {
		switch {
		case t.Kind == Echo:
			echoes = echoes || !t.deaf()
		case t.last.IsZero():
		case !t.deaf():
			return false
		default:
			others = true
		}
	}
	return echoes && others
}
