// Package failover judges lines and says which one new connections take.
//
// It is a pure state machine: what happened and when goes in, what to probe now
// and what has changed comes out. It has no clock, no socket and no goroutine;
// whoever owns a [Machine] calls it from one goroutine.
//
// # What is judged
//
// A line is one family of one WAN. IPv4 and IPv6 are judged apart, because they
// fail apart. All judging rests on one quantity, a line's silence: the time
// since the later of its last sign of life and the sending of the oldest probe
// that still waits for one. Nothing asked is no silence, and a reply of any target
// ends it, a late one too: a target that is dead or limits its rate fells nothing.
//
//	              address and route              a reply
//	    Absent ----------------------> Untried -----------------+
//	      ^                               |                     |
//	      | no address                    | silent 1.5 s        v
//	 (any state)                          |        +----> Up, Degraded
//	                                      |        |      or Returning
//	                                      |  reply |            |
//	(any state)                           |        |            | silent for a time-out: a burst
//	      | carrier lost                  |        |            v
//	      v                               v        +-------- Suspect
//	    Down <---------------------------------------------------+
//	      |                   silent for Settle, without excuse
//	      |  a reply to a probe sent since
//	      v
//	  Returning ---- good for its hold-down ----> Up <----> Degraded
//	      ^                                                    |
//	      +---- better again, after it was left for that ------+
//
// The time-out is RFC 6298's, from measured round trips: at least 100 ms, at
// most 1 s. The burst asks every target at once and then one each 20 ms until
// one answers. Settle is chosen so that an outage that begins right after a
// reply is acted on within 900 ms at the default of 250 ms between probes:
// 250 ms until the next probe goes, and 650 ms of silence; the rest of a second
// is for whoever carries it out. The 650 ms are also the calm: some thirty
// probes are lost in a row before a line falls, and an interruption of 0.4 s
// (round trips below 100 ms) fells none. Lines with long round trips (satellites)
// get more, see [Config].
//
// A line that gets its address back is Suspect, and Returning at its first reply:
// a lease taken back and given anew costs no flow. A carrier that is gone is Down
// at once, and asked often for the first seconds after it is back: its connections
// wait for it. One that is back when it is looked at but whose counter has moved is
// a blink: a reason to ask (a burst), not to move.
//
// # Evidence
//
// Probes are a sample; what the house itself gets over the line is better. While
// it matters, and not otherwise, the machine asks for readings of a line's
// counters ([Output], [Counts]):
//
//   - An answer to something new (the first reply of a flow, of DNS, of an echo)
//     is as good as a probe's reply.
//   - Anything else that comes back excuses lost probes for as long as it goes
//     on, but for 3 s of silence at most. So load fells no line, and a dead uplink
//     is found though the far ends go on repeating what they said.
//   - With long round trips silence alone takes seconds to mean something. Dense
//     traffic that stops, while three probes are overdue, means it after 650 ms.
//   - Readings bound a time from below: what is seen between two of them counts
//     from the first.
//
// What was sent and not answered is no evidence: houses talk to addresses that
// answer nobody all day long. A line that answers echoes and nothing else is told
// by its targets of other kinds, if the file names any: all that answered before
// are deaf, one of them has answered by another line since, and the house's own
// conversations have stopped. If those go on the targets are blocked, and the line
// is held to its echoes.
//
// # Degraded
//
// A line that loses more than [Thresholds].Loss of its last 64 regular probes, or
// whose latest 16 round trips have a median above Latency, works and is Degraded;
// it is over at half of the one and three quarters of the other. New connections
// leave it after 10 s if another line is clearly better: Up, itself that far below
// the thresholds, with at most half the latency; or with hardly a loss in 40 probes
// or more that were sent since, or, in doubt, at most half the loss for 30 s on end.
// No line that is paid by volume is taken because another is slow. If the house's
// own dense traffic goes with round trips that are longer than the line's own, a
// buffer is full: that is shown and moves nothing, as the load would only go along.
//
// Chance has many hours in which to make a bad line look good. So a line that was
// left, or that may be taken, is asked as often as the one in use, and one that was
// left for its losses is better again only at a quarter of the threshold. A target
// that loses significantly more than the line's best one limits its replies; what
// it loses says nothing about the line. That all of them do cannot be told from a
// line that loses: it is left once and kept in reserve for as long as that lasts.
//
// The thresholds are absolute, as the file says them, and not relative to a line's
// usual figures: whoever reads "degraded above 400 ms" must be able to believe it,
// a line whose usual latency is bad is a bad line, and what is usual cannot be
// known of one that was bad when weir started. A line that is slow by its nature (a
// satellite's) is shown as Degraded, is used like any other, and is left for one
// with half its latency. Whoever prefers it all the same raises latency.
//
// # What is chosen
//
//   - While the line in use works it is left only for a better-preferred one
//     that is Up, or when it is Degraded, as above.
//   - A failure costs a hold-down, unbroken good time before the line is Up: the
//     file's at first, then twice as much each time, up to an hour. Failures within
//     the hold-down of the one counted last are the same trouble and count once:
//     a line that flaps has to be good about as long as it was bad. An hour of
//     good time makes one failure forgotten.
//   - When it falls the best line that is Up is taken; if none is, the best one
//     that works at all, without any hold-down: the first to come back is taken
//     at its first reply.
//   - At a cold start an address is enough (Untried), since there is nothing to
//     lose: no packet waits for the first echo. A better-preferred line whose first
//     answer comes within HoldDown of the start is taken at once: it has not
//     failed, it was not there yet (a lease, a modem, duplicate address
//     detection). Later it serves the hold-down like a line that returns.
//   - What a person chose ([Machine.Use]) goes before the file's order, at once if
//     it works and whatever its figures; while it does not work, the others serve.
//   - No line works: none is chosen. The flows of the line that was used last
//     are kept (see [Line.Up]), because there is nothing to gain by ending them.
//   - After a restart [Machine.Adopt] says what was in force, and nothing moves.
//
// # Lines of routes, and lines paid by volume
//
// A line serves if it is in use, if a route of the file may lead to it, or if it was
// left with flows that go on. One of a route is asked as often as the one in use.
//
// A metered line is asked every 30 s, in use too, and for a while at once when there
// is a reason: a loss, the alarm of another line. While it serves, its traffic says
// more, at one reading a second, four if it is dense: an answer to something new puts
// the next probe off by 30 s, and traffic that stops has it asked, because only that
// tells a pause from an outage. So do flows that are begun and bring nothing, at most
// each 10 s: that fells no line, but who begins something must not wait half a minute.
// One of a route that is dead is asked as often as another in reserve: what is led
// there may have no other.
//
// # Whose fault a missing reply is
//
// A probe counts only from the moment its sending was confirmed, so a dead or
// stalled prober fells no line. When Tick is called later than it asked for, the
// machine itself was stalled: replies may lie unread, and every line gets 50 ms
// more, once. A target that misses three probes in a row while others answer is
// deaf: it is asked every 30 s and in bursts only, and its losses are its own. Those
// of a line that answers echoes and nothing else are asked every 2 s, for that is
// what it has to do again.
package failover
