// Package doctor looks at a machine that is, or is to be, a gateway: what its kernel
// can do, who else is at work on its network, its clock, disk, queues and conntrack.
// It needs no daemon and no root; what it could not see it says.
//
// Look reads files by a fs.FS that is the machine's root, and asks the kernel through
// Probe: both are values of the caller's.
package doctor

import (
	"fmt"
	"io/fs"
	"time"
)

// How a finding is.
const (
	OK     = "ok"
	Note   = "note"   // works, and could be better
	Wrong  = "wrong"  // weir would not work as it should
	Unseen = "unseen" // this user can't see it
)

// Finding is what one look came to.
type Finding struct {
	Check string `json:"check"` // what was looked at: "nft", "service named"
	State string `json:"state"` // OK, Note, Wrong or Unseen
	Seen  string `json:"seen"`
	Do    string `json:"do,omitempty"`    // what to do about it
	Safe  bool   `json:"safe,omitempty"`  // --fix does it
	Fixed bool   `json:"fixed,omitempty"` // and has
	Error string `json:"error,omitempty"` // or could not, and why

	fix func() error
}

// Machine is what is looked at.
type Machine struct {
	Root     fs.FS                                              // the machine's file system, /
	StateDir string                                             // without the leading slash
	Run      func(stdin string, args ...string) (string, error) // in new network and user namespaces: nothing of the machine's is touched
	NFT      string                                             // what `nft --version` prints; "": it is not installed
	Kernel   string                                             // its release: "6.1.0-18-amd64"
	CPUs     int
	Now      time.Time
	Built    time.Time // of the program: no right clock is before it
	Synced   bool      // adjtimex(2): somebody keeps the clock
	Disk     Disk
	Write    func(path, text string) error // for fixes: path is without the leading slash
	Load     func(module string) error
}

// Disk is the file system that the state directory is on, or will be.
type Disk struct {
	Free     uint64 // bytes
	ReadOnly bool
	Memory   bool // tmpfs or ramfs: gone with a reboot
	Err      error
}

// Look makes all checks.
func Look(m Machine) []Finding {
	var out []Finding
	for _, check := range []func(Machine) []Finding{kernels, services, clocks, disks, queues, conntracks} {
		out = append(out, check(m)...)
	}
	return out
}

// Fix does what is safe: it loads modules and sets values that cost nobody a packet. It
// ends no service and changes no file of others.
func Fix(found []Finding) {
	for i := range found {
		f := &found[i]
		if f.fix == nil {
			continue
		}
		if err := f.fix(); err != nil {
			f.Error = err.Error()
			continue
		}
		f.Fixed = true
	}
}

// Bad says whether something is wrong, and not mended.
func Bad(found []Finding) bool {
	for _, f := range found {
		if f.State == Wrong && !f.Fixed {
			return true
		}
	}
	return false
}

func ok(check, format string, args ...any) []Finding {
	return []Finding{{Check: check, State: OK, Seen: fmt.Sprintf(format, args...)}}
}
