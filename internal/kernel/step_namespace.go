package kernel

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"weir/internal/netns"
	"weir/internal/plan"
)

// notGone forgives that what is to be removed is not there.
func notGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// notThere forgives that what is to be put back is there.
func notThere(err error) error {
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (k *Kernel) createNamespace(name string) (effect, error) {
	create := func() error {
		return k.opt.writes.do("create namespace", func() error { return netns.Create(name) })
	}
	remove := func() error {
		return k.opt.writes.do("delete namespace", func() error { return netns.Delete(name) })
	}
	if err := create(); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return effect{}, err
		}
		// A file that no namespace is mounted on is what a crash left.
		if _, idErr := netns.Identify(name); !errors.Is(idErr, fs.ErrNotExist) {
			return effect{}, err
		}
		if err := remove(); err != nil {
			return effect{}, err
		}
		if err := create(); err != nil {
			return effect{}, err
		}
	}
	undo := func() error {
		k.leave(name)
		return remove()
	}
	s, err := k.space(name)
	if err == nil {
		up := true
		err = s.setLink("lo", plan.LinkAttrs{Up: &up})
	}
	if err != nil {
		return effect{}, errors.Join(err, undo())
	}
	return undoable(undo), nil
}

// deleteNamespace takes the name away and holds the namespace until the turn
// is over, so that undoing brings back the same one, whole.
func (k *Kernel) deleteNamespace(name string) (effect, error) {
	held, err := os.Open(netns.Path(name))
	if err != nil {
		return effect{}, err
	}
	if err := k.opt.writes.do("delete namespace", func() error { return netns.Delete(name) }); err != nil {
		held.Close()
		return effect{}, err
	}
	return effect{
		undo: func() error {
			return k.opt.writes.do("attach namespace", func() error { return netns.Attach(name, held) })
		},
		keep: func() {
			held.Close()
			_, _ = k.space(name) // closes our sockets if it is gone
			if k.opt.RuntimeDir != "" {
				if _, ok := k.spaces[name]; !ok {
					_ = os.Remove(k.opt.RuntimeDir + "/" + tableRecordName(&space{name: name}))
				}
			}
		},
	}, nil
}
