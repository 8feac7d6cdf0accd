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
// since the later of its last reply and the sending of the oldest probe that
// still waits for one. Nothing asked is no silence, and a reply of any target
// ends it: a target that is dead or limits its rate fells nothing.
//
//	              address and route              a reply
//	    Absent ----------------------> Untried -----------------+
//	      ^                               |                     |
//	      | no address                    | silent 1.5 s        v
//	 (any state)                          |        +----> Up, or Returning
//	                                      |        |            |
//	                                      |  reply |            | silent for a time-out: a burst
//	(any state)                           |        |            v
//	      | carrier lost                  |        +-------- Suspect
//	      v                               v                     |
//	    Down <---------------------------------------------------+
//	      |                                     silent for Settle
//	      |  a reply to a probe sent since
//	      v
//	  Returning ---- good for HoldDown without a lost probe ----> Up
//
// The time-out is RFC 6298's, from measured round trips: at least 100 ms, at
// most 1 s. The burst asks every target at once and then one each 20 ms until
// one answers. Settle is chosen so that an outage that begins right after a
// reply is acted on within 900 ms at the default of 250 ms between probes:
// 250 ms until the next probe goes, and 650 ms of silence; the rest of a second
// is for whoever carries it out. The 650 ms are also the calm: some thirty
// probes are lost in a row before a line falls, and an interruption of 0.4 s
// (round trips below 100 ms) fells none. Lines with long round trips (satellites) get more, see
// [Config].
//
// A line that gets its address back is Suspect, and Returning at its first reply:
// a lease taken back and given anew costs no flow. A carrier that is gone is Down
// at once. One that is back when it is looked at
// but whose counter has moved is a blink: a reason to ask (a burst), not to move.
//
// # What is chosen
//
//   - While the line in use works it is left only for a better-preferred one
//     that is Up, which after a failure takes an unbroken good time of HoldDown.
//   - When it falls the best line that is Up is taken; if none is, the best one
//     that works at all, without any hold-down: the first to come back is taken
//     at its first reply.
//   - At a cold start an address is enough (Untried), since there is nothing to
//     lose: no packet waits for the first echo. A better-preferred line whose first
//     answer comes within HoldDown of the start is taken at once: it has not
//     failed, it was not there yet (a lease, a modem, duplicate address
//     detection). Later it serves the hold-down like a line that returns.
//   - No line works: none is chosen. The flows of the line that was used last
//     are kept (see [Line.Up]), because there is nothing to gain by ending them.
//   - After a restart [Machine.Adopt] says what was in force, and nothing moves.
//
// # Whose fault a missing reply is
//
// A probe counts only from the moment its sending was confirmed, so a dead or
// stalled prober fells no line. When Tick is called later than it asked for, the
// machine itself was stalled: replies may lie unread, and every line gets 50 ms
// more, once. A target that misses three probes in a row while others answer is
// deaf: it is asked every 30 s and in bursts only, and its losses are its own.
package failover
