// Package cases holds weir against what its own people did not write and did not
// think of: complaints from the field about other gateways, each a test named
// for what it shows, and the programs of others at both ends of it.
//
// Every case runs the real daemon on a user's file in a lab (package lab), and
// judges by packets: what a client got, who was heard by whom on which line.
// Where the complaint is that nobody was told, what weir tells is looked at too.
//
// Some are shorter than the complaint they come from. WEIR_LONG=1 gives them its
// full size: ten minutes of leases of 120 s, an upload of 1 GB. That takes eleven
// minutes, and so a longer -timeout.
package cases
