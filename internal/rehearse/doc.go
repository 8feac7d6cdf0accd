// Package rehearse brings a user's file up in a lab, as it is and by the real
// `weir run`, tries what a house relies on, and reports.
//
//	Rehearse (outside)                          Inside (pid 1 of a lab)
//	  site: what surrounds the file               bench: ISPs, clients, hosts
//	  runs: which drills share a lab     --->     weir run FILE
//	  report: table, JSON, SVG           <---     drills, one after the other
//
// A run is a lab with some drills; runs go side by side. Every verdict and
// figure is taken from packets at a client, an ISP or an internet host, never
// from what weir says of itself. For each drill the tests hold a saboteur that
// turns it red.
package rehearse
