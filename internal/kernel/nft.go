package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/plan"
	"weir/internal/ruleset"
)

// nftSeen is what is known of a namespace's table.
type nftSeen struct {
	loaded *loadedTable // our last load; nil: not known
	asked  bool         // loaded was looked for
	// What the comparison with it came to, and at which generation.
	gen     uint32
	valid   bool
	exists  bool
	touched []plan.Touch
}

// loadedTable is what we loaded last, and how the kernel shows it. Kept in the
// runtime directory.
type loadedTable struct {
	Boot  string        `json:"boot"`
	NS    uint64        `json:"ns"` // space.cookie
	Table ruleset.Table `json:"table"`
	Form  *form         `json:"form"`
}

// lookNft finds the program nft. /usr/sbin is not in an ordinary user's PATH.
func lookNft() string {
	if p, err := exec.LookPath("nft"); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, "nft")); err == nil {
			return p
		}
	}
	return ""
}

// errNoNft says what to install.
var errNoNft = errors.New("the program nft is not there (looked in PATH, /usr/sbin and /sbin): install the package nftables")

// runNft runs nft in s with text on its standard input: one transaction.
func (k *Kernel) runNft(ctx context.Context, s *space, text string) error {
	if k.nft == "" {
		return errNoNft
	}
	// A bound for a program that hangs: a slow machine takes its time for a large file.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return s.writes.do("nft", func() error {
		return inSpace(s, func() error {
			cmd := exec.CommandContext(ctx, k.nft, "-f", "-")
			cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
			cmd.Stdin = strings.NewReader(text)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				said := strings.TrimSpace(out.String())
				if lines := strings.Split(said, "\n"); len(lines) > 12 {
					said = strings.Join(lines[:12], "\n") + "\n..."
				}
				return fmt.Errorf("nft: %w\n%s", err, said)
			}
			return nil
		})
	})
}

// readTable compares the table in s with what was loaded last. Where no nft
// transaction went through since the last time, it reads nothing.
func (k *Kernel) readTable(s *space) (plan.Table, error) {
	n := &s.nft
	if !n.asked {
		n.loaded, n.asked = k.loadTableRecord(s), true
	}
	gen, err := s.generation()
	if err != nil {
		return plan.Table{}, err
	}
	if !n.valid || n.gen != gen {
		now, gen, err := s.dumpTable()
		if err != nil {
			return plan.Table{}, err
		}
		n.gen, n.valid, n.exists, n.touched = gen, true, now != nil, nil
		if n.loaded != nil && n.loaded.Form != nil && now != nil {
			n.touched = touches(n.loaded.Form, now)
		}
	}
	t := plan.Table{Exists: n.exists, Touched: n.touched}
	if n.exists && n.loaded != nil {
		t.Text, t.Sets = n.loaded.Table.Text, n.loaded.Table.Sets
	}
	return t, nil
}

// keepTable keeps how the kernel shows what was just loaded. That it can't be
// written for the next process costs that one a load, and no more.
func (k *Kernel) keepTable(s *space, next ruleset.Table) error {
	f, gen, err := s.dumpTable()
	if err != nil {
		return err
	}
	s.nft = nftSeen{
		loaded: &loadedTable{Boot: k.boot, NS: s.cookie, Table: next, Form: f},
		asked:  true, gen: gen, valid: true, exists: f != nil,
	}
	if err := k.saveTableRecord(s); err != nil {
		k.log.Warn("what was loaded can't be kept", "ns", place(s.name), "err", err)
	}
	return nil
}
