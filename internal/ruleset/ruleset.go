// Package ruleset writes the nftables text of each namespace.
//
// It is part of desired.Build and as pure. Main holds all state: policy,
// translation, forwards, the marks that pin a flow to its line. The namespaces
// of the WANs are stateless line cards.
package ruleset

// TableName is the nft table that is weir's (family inet) in every namespace.
const TableName = "weir"

// The bits of a packet or conntrack mark that are weir's. The low byte is the
// index of the WAN (state.State.Index).
const (
	MarkIndex = 0x0ff
	MarkIn    = 0x100 // the flow came in by the line: it never leaves by another
	MarkBound = 0x200 // our own packets that use a line whatever its verdict; never in a conntrack mark
	MarkMask  = MarkIndex | MarkIn | MarkBound

	// MarkClaimed, in a conntrack mark only, says that a forward claims the flow.
	// The kernel's own word for it, ct status dnat, is missing where the
	// destination stays the same: a line can have the address of a host inside.
	MarkClaimed = 0x400

	// MarkHeld, in a conntrack mark only, says that a route lets the flow leave by
	// its own line and by no other (only, never).
	MarkHeld = 0x800

	// MarkTCP, in a conntrack mark only, is on each TCP connection that goes out by
	// a line. One request then deletes all else of the line's, on every kernel.
	MarkTCP = 0x1000

	// MarkRouted, in a conntrack mark only, says that a route of the file chose the
	// flow's line: it does not follow failover's choice (on_return = "move").
	MarkRouted = 0x2000

	// MarkAnswered, in a conntrack mark only, says that something came back of a
	// flow that went out; MarkProbe that it is of our own probes. See count.go.
	MarkAnswered = 0x4000
	MarkProbe    = 0x8000

	// MarkSlow, in a conntrack mark only, says that the rule which let the flow begin
	// keeps it from the fast path (fast = false).
	MarkSlow = 0x10000
)

// Table is the table inet weir of a namespace.
//
// Text declares sets, maps, counters and chains, and holds every rule, but no
// elements of Sets: it changes when the file does. Sets holds what changes with
// state, so that a renewed lease is an element changed and no ruleset loaded.
type Table struct {
	Text string
	Sets []Set
}

// Set is the content of a named set or map: elements in nft's syntax, sorted.
// A map's element is "key : value".
type Set struct {
	Name     string
	Elements []string
}

// Refusals are told to nflog group LogGroup; the prefix is LogPrefix and the
// name of what refused: "block.bedtime" for a rule of the file, and names with
// more than one dot for the rest: "lan.guest.refused", "wan.fiber.closed".
const (
	LogGroup  = 87
	LogPrefix = "weir "
)
