// Package dhcp6 is the DHCPv6 client of a WAN (RFC 8415), a worker: prefixes for
// the house's LANs (IA_PD), and the line's own address (IA_NA) where that is
// wanted.
//
//	Soliciting --ADVERTISE--> Requesting --REPLY--> Bound <----------- REPLY -----------+
//	    ^ |                       ^                   |                                 |
//	    | +--- REPLY (rapid commit) -------------> Bound --T1--> Renewing --T2--> Rebinding
//	    |                         +-- NoBinding ------------------+----------------+    |
//	    +<-- all that was held has ended, or the server has nothing any more -----------+
//	Verifying (a lease from before, or the carrier came back): REBIND, CONFIRM if
//	    only addresses are held --REPLY or silence--> Bound, or Soliciting
//
// Engine is pure: messages and the time go in, messages and reports come out. What
// is held is held whatever the state, until it ends, a server takes it back, or
// something else takes its place.
//
// Beside that an Information-request asks for what there is without a lease (18.2.6),
// while none brings it; and Releasing gives back what is wanted no more, the rest
// being held on.
//
// Everything is sent to all servers of the link: the Server Unicast option is
// obsolete and ignored, and so are Reconfigure messages, which nobody may send who
// was not invited to (RFC 8415, 18.2.11).
//
// What a server sends is read leniently, since the line is the only one there
// is: a bad option costs itself, and is noted.
package dhcp6
