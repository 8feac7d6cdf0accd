package foreign

import (
	"io/fs"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
)

// Running is a process of the machine.
type Running struct {
	PID  int
	Args []string // at least one
}

// Here are the programs in this process's own network namespace, root being the
// machine's root. What can't be read is left out.
func Here(root fs.FS) iter.Seq[Running] {
	return func(yield func(Running) bool) {
		here, err := fs.ReadLink(root, "proc/self/ns/net")
		if err != nil {
			return
		}
		procs, _ := fs.Glob(root, "proc/[0-9]*/cmdline")
		for _, path := range procs {
			b, err := fs.ReadFile(root, path)
			if err != nil {
				continue
			}
			dir := filepath.Dir(path)
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				continue
			}
			ns, err := fs.ReadLink(root, filepath.Join(dir, "ns/net"))
			if err != nil || ns != here {
				continue
			}
			if !yield(Running{PID: pid, Args: strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")}) {
				return
			}
		}
	}
}
