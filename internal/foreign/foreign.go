// Package foreign runs other people's daemons (BIND's named, chronyd): finds
// them, gives them their files, starts them with no more rights than they need,
// and ends them.
//
// A daemon that is to be killed with us must not change its user: that makes the
// kernel forget PR_SET_PDEATHSIG (prctl(2)). So it is started as its user, with
// the capabilities that it would have kept.
package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// places are where distributions put daemons.
var places = []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"}

// Installed says whether a daemon is in one of the places of the machine whose file
// system root is.
func Installed(root fs.FS, name string) bool {
	for _, dir := range places {
		if st, err := fs.Stat(root, strings.TrimPrefix(filepath.Join(dir, name), "/")); err == nil && st.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Program returns where a program is, among the places where distributions put
// daemons; "" if it is not installed.
func Program(name string) string {
	for _, dir := range places {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// User is the user that a daemon's package made for it: whom to run it as. 0, 0 is
// whom weir runs as: there is no such user, or no other can be had here.
func User(name string) (uid, gid uint32, err error) {
	if os.Geteuid() != 0 || !severalUsers() {
		return 0, 0, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, nil //nolint:nilerr // another distribution's package
	}
	id, err1 := strconv.ParseUint(u.Uid, 10, 32)
	group, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("user %s: %w", name, err)
	}
	return uint32(id), uint32(group), nil
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

// Confined says whether AppArmor has a profile of a daemon's in force that says
// nothing of dir. The .deb adds what is usual.
func Confined(root fs.FS, daemon, dir string) bool {
	b, err := fs.ReadFile(root, "sys/kernel/security/apparmor/profiles")
	if err != nil || !strings.Contains(string(b), daemon+" (enforce)") {
		return false
	}
	local, _ := fs.ReadFile(root, "etc/apparmor.d/local/usr.sbin."+daemon)
	return !strings.Contains(string(local), dir+"/**")
}

// MayBeConfined is Confined where nobody can see which profiles are in force, as in
// a rehearsal: one is there, AppArmor is on, and dir is not in it.
func MayBeConfined(root fs.FS, daemon, dir string) bool {
	on, err := fs.ReadFile(root, "sys/module/apparmor/parameters/enabled")
	if err != nil || !strings.HasPrefix(string(on), "Y") {
		return false
	}
	if _, err := fs.Stat(root, "etc/apparmor.d/usr.sbin."+daemon); err != nil {
		return false
	}
	if _, err := fs.Stat(root, "etc/apparmor.d/disable/usr.sbin."+daemon); err == nil {
		return false
	}
	local, _ := fs.ReadFile(root, "etc/apparmor.d/local/usr.sbin."+daemon)
	return !strings.Contains(string(local), dir+"/**")
}
