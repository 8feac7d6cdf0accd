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
