package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Passage lets the user of a daemon pass through to dir. The directory around it,
// which is weir's, stays shut for looking; what is above that is the owner's to open.
func Passage(dir, daemon, user string) error {
	for up, own := filepath.Dir(dir), true; ; up, own = filepath.Dir(up), false {
		st, err := os.Stat(up)
		switch {
		case err != nil:
			return fmt.Errorf("let %s reach its files: %w", daemon, err)
		case st.Mode()&0o001 == 0 && !own:
			return fmt.Errorf("%[1]s runs as user %[2]s and can't pass through %[3]s to its files: chmod o+x %[3]s, or keep the state elsewhere (--state-dir)", daemon, user, up)
		case st.Mode()&0o001 == 0:
			if err := os.Chmod(up, st.Mode().Perm()|0o011); err != nil {
				return fmt.Errorf("let %s reach its files: %w", daemon, err)
			}
		}
		if up == "/" {
			return nil
		}
	}
}

// Folder makes a directory that is uid's and gid's; 0 is whom weir runs as. It
// stands in one that is not the daemon's.
func Folder(path string, mode fs.FileMode, uid, gid uint32) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("make a daemon's directory: %w", err)
	}
	var err error
	if uid != 0 || gid != 0 {
		err = os.Chown(path, int(uid), int(gid))
	}
	if err = errors.Join(err, os.Chmod(path, mode)); err != nil {
		return fmt.Errorf("give a daemon its directory: %w", err)
	}
	return nil
}
