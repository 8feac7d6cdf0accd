package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/durable"
)

// resolvConf is the machine's resolver file.
const resolvConf = "/etc/resolv.conf"

// resolvMark is the first line of a resolv.conf of ours.
const resolvMark = "# weir's resolver; `weir down` puts back what was here before\n"

// resolvText is the machine's own resolv.conf(5) while weir runs.
func resolvText(server netip.Addr, domain string) string {
	return resolvMark + "nameserver " + server.String() + "\nsearch " + domain + "\n"
}

// found is what stood at the resolver file's path before weir.
type found struct {
	Link string `json:"link,omitempty"` // a symbolic link's target
	Text string `json:"text,omitempty"` // a file's content
	None bool   `json:"none,omitempty"` // nothing was there
}

// resolver is the machine's resolv.conf: taken while weir runs, given back by
// `weir down`. It is often a symbolic link into another manager's runtime
// directory, which is then replaced and not written through: the manager
// may go on rewriting its own file.
type resolver struct {
	path string // /etc/resolv.conf
}

// look says what is there now, and whether it is ours already.
func (r resolver) look() (f found, ours bool, err error) {
	if target, err := os.Readlink(r.path); err == nil {
		return found{Link: target}, false, nil
	}
	text, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return found{None: true}, false, nil
	case err != nil:
		return found{}, false, fmt.Errorf("read the machine's resolver file: %w", err)
	}
	return found{Text: string(text)}, strings.HasPrefix(string(text), resolvMark), nil
}

// take writes text, and says first (to keep) what it is about to replace. It does
// nothing when text is there already; keep is not called when the file is ours. last is
// the text that was written before, "" if none was: mended says that somebody else had
// put something in its place.
func (r resolver) take(text, last string, keep func(found) error) (mended bool, err error) {
	f, ours, err := r.look()
	if err != nil {
		return false, err
	}
	if ours && f.Text == text {
		return false, nil
	}
	if !ours {
		if err := keep(f); err != nil {
			return false, fmt.Errorf("keep what %s was before: %w", r.path, err)
		}
	}
	return last != "" && f.Text != last, r.write(text)
}

// unknown is what takes the place of ours where nobody knows what stood there before.
var unknown = found{Text: "# weir was taken down, and what was here before it is not known. Name a resolver: nameserver ADDRESS\n"}

// give puts f back, unless somebody has replaced ours meanwhile.
func (r resolver) give(f found) error {
	_, ours, err := r.look()
	if err != nil || !ours {
		return err
	}
	switch {
	case f.None:
		err = os.Remove(r.path)
	case f.Link != "":
		tmp := r.path + ".weir"
		if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put %s back: %w", r.path, err)
		}
		if err = os.Symlink(f.Link, tmp); err == nil {
			err = os.Rename(tmp, r.path)
		}
	default:
		return r.write(f.Text)
	}
	if err != nil {
		return fmt.Errorf("put %s back: %w", r.path, err)
	}
	return nil
}

// write replaces the file by rename, so that no reader sees half of one. Where it
// is a mount point of its own (containers do that) the text goes into it.
func (r resolver) write(text string) error {
	err := durable.Machine.Put(r.path, []byte(text), durable.As{Mode: 0o644})
	if err == nil {
		return nil
	}
	if _, lerr := os.Readlink(r.path); lerr != nil { // never through a link into another's file
		if werr := os.WriteFile(r.path, []byte(text), 0o644); werr == nil {
			return nil
		}
	}
	return fmt.Errorf("the machine's resolver file: %w", err)
}

// takeNames makes weir's resolver the machine's own, once it answers, and again after
// each turn if somebody has put another in its place. Where that can't be done the
// machine keeps the names it has, which is said, stops nothing, and is tried again.
func (d *daemon) takeNames() {
	if d.asked || !d.ready || !d.answers() {
		return
	}
	d.asked = true
	if d.shares == nil {
		shares := sharesNames()
		if d.shares = &shares; shares {
			d.log.Info("the resolver file is left alone: it is that of programs outside this network namespace", "path", resolvConf)
		}
	}
	if *d.shares {
		return
	}
	text := resolvText(netip.MustParseAddr("127.0.0.1"), d.cfg.Gateway.Domain)
	mended, err := resolver{path: resolvConf}.take(text, d.names, func(f found) error { return keepFound(d.o.StateDir, f, d.names != "") })
	if mended && err == nil {
		d.log.Warn("put right", "what", resolvConf, "why", "changed by hand")
	}
	if err == nil {
		d.names = text
	}
	if (err == nil) != (d.unstored.names == nil) {
		d.log.Warn("the machine's own names", "by_weir", err == nil, "err", err)
		d.news = true
	}
	if d.unstored.names = err; err != nil {
		d.unstored.again = time.Now().Add(storeAgain)
	}
}

// keepFound stores what stood at the resolver file's path, to be given back. What
// somebody puts there while weir runs is mended, and is not what weir found.
func keepFound(stateDir string, f found, runs bool) error {
	path := filepath.Join(stateDir, resolvFile)
	var stored *found
	if durable.Kept(path, &stored) == nil && stored != nil && (runs || *stored == f) {
		return nil
	}
	return durable.Machine.Keep(path, f)
}

// namesNotes tells that somebody else's resolver file is there in the place of weir's.
func (d *daemon) namesNotes() []string {
	if d.names == "" {
		return nil
	}
	if f, _, err := (resolver{path: resolvConf}).look(); err != nil || f.Text == d.names {
		return nil
	}
	return []string{resolvConf + " was changed by hand: weir's will be put back"}
}

// giveNames puts the resolver file back that takeNames replaced, if it did.
func giveNames(stateDir string, log *slog.Logger) error {
	var f *found
	path := filepath.Join(stateDir, resolvFile)
	if err := durable.Machine.Recover(path, &f); err != nil {
		return err
	}
	if f == nil {
		// Ours may be there all the same, if the state directory is another one or was lost.
		if _, ours, err := (resolver{path: resolvConf}).look(); err != nil || !ours || sharesNames() {
			return err
		}
		log.Warn("what the resolver file was before weir is not known: it names no resolver now", "path", resolvConf)
		return resolver{path: resolvConf}.give(unknown)
	}
	if err := (resolver{path: resolvConf}).give(*f); err != nil {
		return err
	}
	return durable.Machine.Remove(path)
}

// sharesNames says whether the resolver file is that of programs which are not
// in this network: the network namespace is not the machine's first while the
// file system still is. Then it is not ours to write.
func sharesNames() bool {
	same := func(ns string) (bool, bool) {
		one, err1 := os.Readlink("/proc/1/ns/" + ns)
		own, err2 := os.Readlink("/proc/self/ns/" + ns)
		return one == own, err1 == nil && err2 == nil
	}
	net, ok1 := same("net")
	mnt, ok2 := same("mnt")
	return ok1 && ok2 && !net && mnt
}
