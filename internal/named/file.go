package named

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// written is what write made.
type written struct {
	changed bool // of named.conf or the keys: named is to be told
	keys    map[string]secretKey
	zones   []*zone
}

// write makes the files of a configuration: named.conf, keys that are not there
// yet, and the files of zones that have none.
func write(c Config, now time.Time) (written, error) {
	text, err := Conf(c)
	if err != nil {
		return written{}, err
	}
	w := written{keys: map[string]secretKey{}}
	if w.zones, err = zonesOf(c); err != nil {
		return written{}, err
	}
	work := filepath.Join(c.Dir, workDir)
	p := c.Program
	if p.UID != 0 {
		if err := passage(c.Dir); err != nil {
			return written{}, err
		}
	}
	if err := folder(c.Dir, 0o750, 0, p.GID); err != nil {
		return written{}, err
	}
	if err := folder(work, 0o750, p.UID, p.GID); err != nil {
		return written{}, err
	}
	m := managedDir.FindStringSubmatch(text)
	if err := folder(m[1], 0o750, p.UID, p.GID); err != nil {
		return written{}, err
	}
	keys := []secretKey{}
	for _, k := range append([]Key{{Name: ownKey, Algorithm: "hmac-sha256"}}, c.Keys...) {
		s, err := secret(c.Dir, k)
		if err != nil {
			return written{}, err
		}
		keys = append(keys, s)
		w.keys[k.Name] = s
	}
	files := []struct {
		path, text string
		told       bool
	}{
		{filepath.Join(c.Dir, emptyFile), emptyZone, false},
		{filepath.Join(c.Dir, localhostFile), localhostZone, false},
		{filepath.Join(c.Dir, keysFile), keysConf(keys), true},
		{filepath.Join(c.Dir, confFile), text, true},
	}
	for _, z := range w.zones {
		path := filepath.Join(work, zoneFile(z.name))
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			if err := z.begin(c, path, now); err != nil {
				return written{}, err
			}
		}
	}
	for _, f := range files {
		old, err := os.ReadFile(f.path)
		if err == nil && string(old) == f.text {
			continue
		}
		if err := put(f.path, f.text, 0o640, 0, p.GID); err != nil {
			return written{}, err
		}
		w.changed = w.changed || f.told
	}
	return w, nil
}

// passage lets named's user pass through to dir. The state directory around it
// stays shut for looking; what is above that is the owner's to open.
func passage(dir string) error {
	for up, own := filepath.Dir(dir), true; ; up, own = filepath.Dir(up), false {
		st, err := os.Stat(up)
		switch {
		case err != nil:
			return fmt.Errorf("let named reach its files: %w", err)
		case st.Mode()&0o001 == 0 && !own:
			return fmt.Errorf("named runs as user %s and can't pass through %s to its files: chmod o+x %[2]s, or keep the state elsewhere (--state-dir)", daemonUser, up)
		case st.Mode()&0o001 == 0:
			if err := os.Chmod(up, st.Mode().Perm()|0o011); err != nil {
				return fmt.Errorf("let named reach its files: %w", err)
			}
		}
		if up == "/" {
			return nil
		}
	}
}

var managedDir = regexp.MustCompile(`managed-keys-directory "([^"]*)"`)

// begin writes a zone's file, for named to go on with: a journal that is left of
// another file does not fit it. The serial number is the time, in seconds, so
// that a zone that is made anew goes on above the one that was lost: named adds
// one for each update.
func (z *zone) begin(c Config, path string, now time.Time) error {
	if err := os.Remove(path + ".jnl"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("begin zone %s: %w", z.name, err)
	}
	text := z.text(absolute(c.Gateway+"."+c.Domain), uint32(now.Unix()))
	return put(path, text, 0o640, c.Program.UID, c.Program.GID)
}

// secret is a key with its secret, which is made once and kept in a file that
// others can take it from, in the form that nsupdate -k takes.
func secret(dir string, k Key) (secretKey, error) {
	path := filepath.Join(dir, k.Name+".key")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		b := make([]byte, algorithms[k.Algorithm].bytes)
		if _, err := rand.Read(b); err != nil {
			return secretKey{}, fmt.Errorf("make key %s: %w", k.Name, err)
		}
		s := secretKey{k.Name, k.Algorithm, base64.StdEncoding.EncodeToString(b)}
		return s, put(path, keysConf([]secretKey{s}), 0o600, 0, 0)
	case err != nil:
		return secretKey{}, fmt.Errorf("read key %s: %w", k.Name, err)
	}
	m := keyForm.FindStringSubmatch(string(text))
	if m == nil {
		return secretKey{}, fmt.Errorf("%s is no key as tsig-keygen(8) makes them; remove it, and another is made", path)
	}
	if _, err := base64.StdEncoding.DecodeString(m[2]); err != nil || m[1] != k.Algorithm {
		// Another algorithm in the house's file: another key.
		if err := os.Remove(path); err != nil {
			return secretKey{}, fmt.Errorf("make key %s anew: %w", k.Name, err)
		}
		return secret(dir, k)
	}
	return secretKey{k.Name, m[1], m[2]}, nil
}

var keyForm = regexp.MustCompile(`(?s)algorithm\s+([a-z0-9-]+)\s*;\s*secret\s+"([^"]*)"`)

// folder makes a directory that is uid's and gid's; 0 is whom weir runs as. It
// stands in one that is not named's.
func folder(path string, mode fs.FileMode, uid, gid uint32) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("make named's directory: %w", err)
	}
	var err error
	if uid != 0 || gid != 0 {
		err = os.Chown(path, int(uid), int(gid))
	}
	if err = errors.Join(err, os.Chmod(path, mode)); err != nil {
		return fmt.Errorf("give named its directory: %w", err)
	}
	return nil
}

// put writes a file so that a power cut at any instant leaves the old or the new.
func put(path, text string, mode fs.FileMode, uid, gid uint32) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(text)
	// By the open file: a name in a directory of named's could be made to mean another.
	if err == nil && (uid != 0 || gid != 0) {
		err = f.Chown(int(uid), int(gid))
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

// told is what was put into zones from the house's file, by zone.
type told map[string][]string

func readTold(dir string) (told, error) {
	b, err := os.ReadFile(filepath.Join(dir, toldFile))
	if errors.Is(err, fs.ErrNotExist) {
		return told{}, nil
	}
	t := told{}
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return told{}, fmt.Errorf("read what was put into zones: %w; records that the file has no more may stay in them", err)
	}
	return t, nil
}

func (t told) write(dir string) error {
	var b strings.Builder
	if err := json.NewEncoder(&b).Encode(t); err != nil {
		return fmt.Errorf("note what is put into zones: %w", err)
	}
	return put(filepath.Join(dir, toldFile), b.String(), 0o600, 0, 0)
}
