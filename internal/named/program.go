package named

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Program is BIND as it is installed.
type Program struct {
	Path     string // of named
	Check    string // of named-checkconf
	UID, GID uint32 // whom it runs as; 0, 0: whom weir runs as
}

// ErrMissing says that BIND is not installed.
var ErrMissing = errors.New("BIND is not installed: apt-get install bind9 (on Debian)")

// daemonUser is the user that Debian's and most others' packages make for it.
const daemonUser = "bind"

// Find looks for BIND where distributions put it. The error is ErrMissing if it
// is not there.
func Find() (Program, error) {
	var p Program
	for _, at := range []struct {
		path *string
		name string
	}{{&p.Path, "named"}, {&p.Check, "named-checkconf"}} {
		for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"} {
			if st, err := os.Stat(filepath.Join(dir, at.name)); err == nil && st.Mode()&0o111 != 0 && *at.path == "" {
				*at.path = filepath.Join(dir, at.name)
			}
		}
		if *at.path == "" {
			return Program{}, ErrMissing
		}
	}
	if os.Geteuid() == 0 && severalUsers() {
		if u, err := user.Lookup(daemonUser); err == nil {
			uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
			gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
			if err := errors.Join(err1, err2); err != nil {
				return Program{}, fmt.Errorf("user %s: %w", daemonUser, err)
			}
			p.UID, p.GID = uint32(uid), uint32(gid)
		}
	}
	return p, nil
}

// severalUsers says whether there are others than the one that weir runs as:
// a user namespace made by an ordinary user has one.
func severalUsers() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	f := strings.Fields(string(b))
	return len(f) > 3 || len(f) == 3 && f[2] != "1"
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
