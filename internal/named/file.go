package named

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/durable"
	"weir/internal/foreign"
)

// written is what write made.
type written struct {
	changed bool // of named.conf or the keys: named is to be told
	keys    map[string]secretKey
	zones   []*zone
	damage  []string // what of the files could not be believed
	notes   []string // keys that nobody can use: their files are no good
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
		if err := foreign.Passage(c.Dir, "named", daemonUser); err != nil {
			return written{}, err
		}
	}
	if err := foreign.Folder(c.Dir, 0o750, 0, p.GID); err != nil {
		return written{}, err
	}
	if err := foreign.Folder(work, 0o750, p.UID, p.GID); err != nil {
		return written{}, err
	}
	m := managedDir.FindStringSubmatch(text)
	if err := foreign.Folder(m[1], 0o750, p.UID, p.GID); err != nil {
		return written{}, err
	}
	keys := []secretKey{}
	for _, k := range append([]Key{{Name: ownKey, Algorithm: "hmac-sha256"}}, c.Keys...) {
		if k.Secret != "" {
			s, err := givenSecret(k)
			if err != nil { // the house has its names without it
				w.notes = append(w.notes, err.Error())
				continue
			}
			keys = append(keys, s)
			w.keys[k.Name] = s
			continue
		}
		s, damage, err := secret(c.Dir, k)
		if err != nil {
			return written{}, err
		}
		if damage != "" {
			w.damage = append(w.damage, damage)
		}
		keys = append(keys, s)
		w.keys[k.Name] = s
	}
	files := []ownFile{
		{filepath.Join(c.Dir, emptyFile), emptyZone, false},
		{filepath.Join(c.Dir, localhostFile), localhostZone, false},
		{filepath.Join(c.Dir, keysFile), keysConf(keys), true},
		{filepath.Join(c.Dir, confFile), text, true},
	}
	for _, z := range policyZones(c) {
		path := filepath.Join(c.Dir, z.file)
		old, _ := os.ReadFile(path)
		files = append(files, ownFile{path, z.text(string(old), uint32(now.Unix())), true})
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
		if err := durable.Machine.Put(f.path, []byte(f.text), durable.As{Mode: 0o640, GID: p.GID}); err != nil {
			return written{}, err
		}
		w.changed = w.changed || f.told
	}
	return w, nil
}

// ownFile is a file that is written again when it is to say something else.
type ownFile struct {
	path, text string
	told       bool // named is to be told
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
	return durable.Machine.Put(path, []byte(text), durable.As{Mode: 0o640, UID: c.Program.UID, GID: c.Program.GID})
}

// secret is a key with its secret, which is made once and kept in a file that
// others can take it from, in the form that nsupdate -k takes. damage, if any, says
// that what was there can't be believed: it is kept aside, and the key is another.
func secret(dir string, k Key) (s secretKey, damage string, err error) {
	path := filepath.Join(dir, k.Name+".key")
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s, err = newSecret(path, k)
		return s, "", err
	case err != nil && !errors.Is(err, unix.EIO):
		return s, "", fmt.Errorf("read key %s: %w", k.Name, err)
	}
	s, ok := readSecret(string(text))
	if err != nil || !ok {
		bad, aerr := durable.Machine.Aside(path)
		if aerr != nil {
			return s, "", aerr
		}
		damage = fmt.Sprintf("the key in %s is damaged, and kept as %s; another is made: whoever uses it needs the new one", path, bad)
	}
	if damage != "" || s.Algorithm != k.Algorithm { // another algorithm in the house's file: another key
		s, err = newSecret(path, k)
		return s, damage, err
	}
	s.Name = k.Name
	return s, "", nil
}

func newSecret(path string, k Key) (secretKey, error) {
	b := make([]byte, algorithms[k.Algorithm].bytes)
	if _, err := rand.Read(b); err != nil {
		return secretKey{}, fmt.Errorf("make key %s: %w", k.Name, err)
	}
	s := secretKey{k.Name, k.Algorithm, base64.StdEncoding.EncodeToString(b)}
	text := keysConf([]secretKey{s})
	return s, durable.Machine.Put(path, []byte(sealed(text)), durable.Private)
}

// seal leads the line, a comment to nsupdate, by which a key's file is known to be as it was written.
const seal = "# sha256 "

func sealed(text string) string {
	return fmt.Sprintf("%s%x\n%s", seal, sha256.Sum256([]byte(text)), text)
}

// readSecret reads a key's file: one of ours, or one of tsig-keygen(8), which has no seal. ok is false if it is damaged.
func readSecret(text string) (s secretKey, ok bool) {
	if strings.HasPrefix(text, seal) {
		_, rest, _ := strings.Cut(text, "\n")
		if text != sealed(rest) {
			return s, false
		}
	}
	m := keyForm.FindStringSubmatch(text)
	if m == nil {
		return s, false
	}
	_, err := base64.StdEncoding.DecodeString(m[3])
	return secretKey{m[1], m[2], m[3]}, err == nil
}

// givenSecret reads a key from the file that the house's file names: in the form of
// tsig-keygen(8), or the bare secret in base64. Nothing of it is in the error.
func givenSecret(k Key) (secretKey, error) {
	wrong := func(format string, args ...any) (secretKey, error) {
		return secretKey{}, fmt.Errorf("key %s can't be used, for its secret_file %s %w", k.Name, k.Secret, fmt.Errorf(format, args...))
	}
	f, err := os.OpenFile(k.Secret, os.O_RDONLY|unix.O_NONBLOCK, 0) // which does not wait for a pipe
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return wrong("can't be read: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return wrong("can't be read: %w", err)
	case !fi.Mode().IsRegular():
		return wrong("is no file")
	case fi.Mode().Perm()&0o077 != 0:
		return wrong("is others' to read (mode %04o): chmod 600", fi.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return wrong("can't be read: %w", err)
	}
	if bare := strings.TrimSpace(string(text)); !strings.Contains(bare, "{") {
		bare = strings.Join(strings.Fields(bare), "") // a long one may be broken into lines
		if b, err := base64.StdEncoding.DecodeString(bare); err != nil || len(b) == 0 {
			return wrong("has neither a key of tsig-keygen nor a secret in base64")
		}
		return secretKey{k.Name, k.Algorithm, bare}, nil
	}
	s, ok := readSecret(string(text))
	switch name := strings.ToLower(strings.TrimSuffix(s.Name, ".")); {
	case !ok || s.Secret == "":
		return wrong("has neither a key of tsig-keygen nor a secret in base64")
	case name != k.Name:
		return wrong("has a key called %q: who uses it says that name, so let the block have it", name)
	case !strings.EqualFold(s.Algorithm, k.Algorithm):
		return wrong("has a key of %s: say algorithm = %q", s.Algorithm, s.Algorithm)
	}
	return secretKey{k.Name, k.Algorithm, s.Secret}, nil
}

var keyForm = regexp.MustCompile(`^(?:\s*(?:#|//)[^\n]*\n)*\s*key\s+"?([^\s"{]+)"?\s*\{\s*algorithm\s+"?([A-Za-z0-9-]+)"?\s*;\s*secret\s+"([^"]*)"\s*;\s*\}\s*;\s*$`)

// told is what was put into zones from the house's file, by zone.
type told map[string][]string

func readTold(dir string) (told, error) {
	t, path := told{}, filepath.Join(dir, toldFile)
	if err := durable.Machine.Recover(path, &t); err != nil {
		return told{}, fmt.Errorf("read what was put into zones: %w; records that the file has no more may stay in them", err)
	}
	return t, nil
}

func (t told) write(dir string) error {
	return durable.Machine.Keep(filepath.Join(dir, toldFile), t)
}
