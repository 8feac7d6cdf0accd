package named

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/foreign"
)

// Program is BIND as it is installed.
type Program struct {
	Path     string // of named
	Check    string // of named-checkconf
	Control  string // of rndc; "": it is not there, and named is started anew where it would be told
	UID, GID uint32 // whom it runs as; 0, 0: whom weir runs as
}

// ErrMissing says that BIND is not installed.
var ErrMissing = errors.New("BIND is not installed: apt-get install bind9 (on Debian)")

// daemonUser is the user that Debian's and most others' packages make for it.
const daemonUser = "bind"

// Find looks for BIND where distributions put it. The error is ErrMissing if it
// is not there.
func Find() (Program, error) {
	p := Program{Path: foreign.Program("named"), Check: foreign.Program("named-checkconf"), Control: foreign.Program("rndc")}
	if p.Path == "" || p.Check == "" {
		return Program{}, ErrMissing
	}
	var err error
	p.UID, p.GID, err = foreign.User(daemonUser)
	return p, err
}

// CheckConf has named-checkconf judge a configuration with all its zones, in a
// directory of its own that is removed again.
func CheckConf(ctx context.Context, c Config) (err error) {
	dir, err := os.MkdirTemp("", "weir-named-")
	if err != nil {
		return fmt.Errorf("check named.conf: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c.Dir = dir
	c.Program.UID, c.Program.GID = 0, 0 // named-checkconf runs as we do
	if _, err := write(c, time.Now()); err != nil {
		return err
	}
	return checkConf(ctx, c.Program, filepath.Join(dir, confFile))
}

// CheckSecrets says which keys have a file that is no good. named runs without them.
func CheckSecrets(c Config) (err error) {
	for _, k := range c.Keys {
		if k.Secret != "" {
			_, kerr := givenSecret(k)
			err = errors.Join(err, kerr)
		}
	}
	return err
}

// maxComplaints is how many lines of named-checkconf are passed on.
const maxComplaints = 5

func checkConf(ctx context.Context, p Program, path string, more ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, p.Check, append(more, "-z", path)...).CombinedOutput()
	if err == nil {
		return nil
	}
	var bad []string
	for l := range strings.Lines(string(out)) {
		if l = strings.TrimSpace(l); !strings.Contains(l, ": loaded serial ") {
			bad = append(bad, l)
		}
	}
	if len(bad) > maxComplaints {
		bad = append(bad[:maxComplaints], fmt.Sprintf("and %d lines more", len(bad)-maxComplaints))
	}
	return fmt.Errorf("named-checkconf refuses the configuration that weir made: %w: %s", err, strings.Join(bad, "; "))
}

// checkZone has named-checkconf judge a zone with its journal.
func checkZone(ctx context.Context, p Program, name, path string) error {
	dir, err := os.MkdirTemp("", "weir-zone-")
	if err != nil {
		return fmt.Errorf("check zone %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	conf := filepath.Join(dir, confFile)
	text := fmt.Sprintf("zone %q { type primary; file %q; };\n", spoken(name), path)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return fmt.Errorf("check zone %s: %w", name, err)
	}
	return checkConf(ctx, p, conf, "-j")
}
