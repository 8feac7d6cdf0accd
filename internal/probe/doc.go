// Package probe asks targets over a cable each: for an echo, to answer a TCP
// handshake, or a DNS question.
//
// It is a child of the daemon (package worker). When to ask whom is decided in
// the parent, by failover.Machine, so that one pure machine holds schedule,
// time-outs and verdicts; the child sends what it is told to at once and tells
// what comes of it. It keeps no clock of its own and judges nothing: silence is
// no event here.
//
//	parent                                        child
//	Message{Config} and a socket per line ------> takes them, keeps what waits
//	Message{Probes} ----------------------------> sends the probes
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
// For echoes the parent opens a raw ICMP socket per line with [Open], bound to the
// cable's end in main; the child need not have the privilege. (Ping sockets are
// not to be had in a user namespace: ping_group_range is empty there.) A raw
// socket sees every ICMP packet of its cable, so a classic BPF filter on the
// socket leaves only echo replies with the line's identifier, and ICMP errors
// about its requests.
//
// A TCP or DNS probe has a socket of its own that the child opens, bound to the
// cable too, and so goes the same way, is marked as a probe and translated as an
// echo request is. Its port is the kernel's choice. It is closed with the answer;
// at most 64 wait for one on a line, for ten seconds at most.
//
// # What counts as a reply
//
// To an echo request: it comes by the line's socket, from the address that was
// asked, with the line's identifier, the request's sequence number and the
// request's 128 random bits: who did not see the request can't make its reply.
//
// To a TCP handshake: the target accepts or refuses. The handshake is then broken
// off by a reset, before its last ACK: the program there never hears of it. An
// ICMP error is no reply, though some firewalls make their refusals that way: it
// may be the ISP's.
//
// To a DNS question: any whole response that has its number and repeats it, also
// one that says that there is no such name, or that refuses. Not SERVFAIL: a modem
// or an ISP's resolver that has lost its own way out says that.
//
// A reply counts once, however late within ten seconds.
package probe
