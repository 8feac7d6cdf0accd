// Package refused hears from the kernel what the firewall refused.
//
// Rules of main log to an nflog group, so many a second of one rule that a
// person can read them, with the rule's name behind a common prefix. The parent
// opens the netlink socket ([Open]), since that takes CAP_NET_ADMIN; a child
// (package worker) reads it, since the packets in it come from anywhere; the
// parent keeps the last ones and hands them to whoever follows (package tail).
//
//	nft: log prefix "weir NAME" group N
//	  kernel --netlink--> child --Report--> parent: tail --> GET /v1/log, weir log -f
//
// The trap: the kernel binds the group to a socket, not to a process. While any
// copy of the descriptor is open, in the parent too, nobody else can bind the
// group, and while it is not read, messages are lost. So the parent closes its
// copy once the child has its own, and a child that died is given a new socket.
package refused
