// Package blocklist reads lists of names that are not to be resolved: files, and
// what others publish on the web.
//
//	source --fetch--> DIR/src-HASH, as it came, with its validators
//	sources, allow --Parse, compile (pure)--> DIR/NAME.names, DIR/NAME.rpz
//
// What was fetched stays there, so that a boot without internet has the last list,
// and a fetch that fails, or brings something that is no list, changes nothing.
// It runs as a child: the lists are strangers' bytes.
package blocklist

import (
	"time"
)

// Config is all that the worker needs to know. It is sent whole at the start and
// again whenever something of it changed.
type Config struct {
	Dir   string // where it keeps everything, absolute; made if it is not there
	Lists []List
	Via   string // by which lines the internet is reached; another one: what failed is tried at once
}

// List is a block_list of the file.
type List struct {
	Name    string
	Sources []string      // an http or https URL, or a file's absolute path
	Refresh time.Duration // how often URLs are fetched
	Allow   []string      // domains that are never blocked with all below them; no trailing dot
}

// Report is what the worker tells: how each list stands, in Config's order.
type Report struct{ Lists []State }

// State is how a list stands.
type State struct {
	Name    string
	Names   int       // that are blocked; a name with all below it counts once
	Version string    // of its files, of which others are told by it; "": there are none yet
	Updated time.Time // when what it has was last found to be what its sources have
	Err     string    // what of its sources could not be had the last time; "": all is well
	Skipped int       // lines of the sources that say nothing to DNS: rules for web pages, addresses
}

// NamesFile is a list's file for weir's own resolver: a name a line, sorted; with
// "*." before it all below it is meant, and with "!" it is let through.
func NamesFile(name string) string { return name + ".names" }

// PolicyFile is the same list as a response policy zone, for BIND.
func PolicyFile(name string) string { return name + ".rpz" }

// The bounds of a source.
const (
	maxBytes = 64 << 20 // unpacked
	maxNames = 2_000_000
	maxLine  = 4096
)
