// Package dhcpd is the DHCPv4 server of the LANs (RFC 2131), a worker.
//
//	frame --> Engine.Handle --> reply ------------------------------> frame
//	                 |            ^
//	                 |  a lease that changed is kept first
//	                 +--> Report.Keep --> parent's store --> Order.Kept
//
// Engine is pure: messages and the time go in, replies and leases come out. No
// ACK leaves before the lease in it is on disk: the reply waits for the parent's
// Kept. The parent has several batches of leases at a time: those that come while
// it writes share its next fdatasync, and neither waits for the other process to be
// scheduled. A parent that can't write says so in
// Kept, and the reply leaves all the same: a full disk takes no house offline.
//
// An address remembers who had it last, also when the lease has ended, and is
// the last to be given to another. Addresses that are new to a client are probed
// by ARP before they are offered, 64 at a time. Everything is bounded by the
// number of addresses there are, and by maxLeases, whoever asks how often; the
// search for one is short, however large the pool.
//
// A LAN has addresses for clients of its own and for those behind relays in it;
// which network a client is in, and then which host and class it is, is worked
// out anew for each message.
package dhcpd
