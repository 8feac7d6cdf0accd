// Package dhcp4 is the DHCPv4 client of a WAN (RFC 2131), a worker.
//
//	Init --DISCOVER--> Selecting --OFFER--> Requesting --ACK--> Probing --nobody has it--> Bound
//	  ^                                                            |                       |  ^
//	  |<---------------------------DECLINE-------------------------+                  T1   |  | ACK
//	  |                                                                                    v  |
//	  |<--NAK, or the lease's end-- Rebinding (broadcast) <--T2-- Renewing (unicast) <-----+  |
//	  |                                  +--------------------------------+-------------------+
//	  +<--NAK-- Rebooting (a lease from before, or the carrier came back) --ACK--> Bound
//
// Engine is pure: packets and the time go in, packets and reports come out. A
// lease is held whatever the state, until it ends, a server takes it back, or
// another takes its place: a server that is silent costs nothing until then.
//
// What a server sends is read leniently, since the line is the only one there
// is: a bad option costs itself, and is noted.
package dhcp4
