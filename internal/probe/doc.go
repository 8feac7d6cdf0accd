// Package probe asks targets for an echo, over a cable each.
//
// It is a child of the daemon (package worker). When to ask whom is decided in
// the parent, by failover.Machine, so that one pure machine holds schedule,
// time-outs and verdicts; the child sends what it is told to at once and tells
// what comes of it. It keeps no clock of its own and judges nothing: silence is
// no event here.
//
//	parent                                        child
//	Message{Config} and a socket per line ------> takes them, keeps what waits
//	Message{Probes} ----------------------------> sends the echo requests
//	                        <-- Report{Reply}     with the kernel's time of arrival
//	                        <-- Report{Sent}      if there was no reply within 40 ms
//	                        <-- Report{Failed}    not sent, or an ICMP error came back
//
// Lines are asked together and events told together, so that is some ten small
// messages a second for a house with two WANs. All times are of the events, not
// of the messages, and a message is never late by as much as a time-out: a
// verdict waits for none. A child that dies or hangs fells no line, since a probe
// that was not told to be sent counts for nothing.
//
// # Sockets
//
// The parent opens a raw ICMP socket per line with [Open], bound to the cable's
// end in main; the child could not, and needs no privilege. (Ping sockets are
// not to be had in a user namespace: ping_group_range is empty there.) A raw
// socket sees every ICMP packet of its cable, so a classic BPF filter on the
// socket leaves only echo replies with the line's identifier, and ICMP errors
// about its requests.
//
// # What counts as a reply
//
// It comes by the line's socket, from the address that was asked, with the
// line's identifier, the request's sequence number and the request's 128 random
// bits: who did not see the request can't make its reply. A reply counts once,
// however late within ten seconds.
package probe
