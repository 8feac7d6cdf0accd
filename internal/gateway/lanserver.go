package gateway

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"sync"

	"weir/internal/state"
	"weir/internal/worker"
)

// lanServer is a server of leases on all LANs, of either family: a child that is told
// what it gives on each, an L, and passed each LAN's sockets. Those of a link that was
// made anew replace the old ones.
type lanServer[L any] struct {
	*service
	of lanKind[L]

	mu    sync.Mutex
	want  []L
	links map[string]link

	have map[string]link // where its sockets are
	told []L
}

// lanKind is what makes the servers of one family differ from the other's.
type lanKind[L any] struct {
	worker worker.Kind
	name   func(L) string                                           // of the LAN
	open   func(*L) ([]*os.File, error)                             // opens its sockets, and notes in L that they come
	quiet  func(*L)                                                 // takes that note back
	order  func([]L) any                                            // the message
	setup  func(*worker.Conn, []state.Lease, []L, []*os.File) error // of a fresh child
	take   func(*worker.Child, worker.Message) (func(), error)
}

// serveLANs tells a server what to give; nil is one that was not started yet.
func serveLANs[L any](ctx context.Context, d *daemon, s *lanServer[L], kind lanKind[L], want []L) *lanServer[L] {
	first := s == nil
	if first {
		if len(want) == 0 {
			return nil
		}
		s = &lanServer[L]{of: kind}
	}
	s.mu.Lock()
	s.want, s.links = want, d.world.lans
	s.mu.Unlock()
	if !first {
		s.wake()
		return s
	}
	s.service = d.serve(ctx, duty{
		kind: kind.worker, take: kind.take,
		prepare: func(_ context.Context, fresh bool) (told, error) { return s.prepare(fresh, d.store) },
	})
	return s
}

func (s *lanServer[L]) prepare(fresh bool, store *state.Store) (told, error) {
	s.mu.Lock()
	want, links := s.want, s.links
	s.mu.Unlock()
	if fresh {
		s.have = map[string]link{}
	}
	var t told
	var lans []L
	var trouble error
	have := map[string]link{}
	for _, l := range want {
		name := s.of.name(l)
		if s.have[name] != links[name] {
			files, err := s.of.open(&l)
			if err != nil {
				trouble = errors.Join(trouble, err)
				continue
			}
			t.files = append(t.files, files...)
		}
		have[name] = links[name]
		lans = append(lans, l)
	}
	quiet := slices.Clone(lans)
	for i := range quiet {
		s.of.quiet(&quiet[i])
	}
	if !fresh && len(t.files) == 0 && reflect.DeepEqual(quiet, s.told) {
		return told{}, trouble
	}
	s.have, s.told = have, quiet
	if fresh {
		leases := store.Kept().Leases
		t.setup = func(c *worker.Conn, files []*os.File) error { return s.of.setup(c, leases, lans, files) }
	}
	t.msg = s.of.order(lans)
	return t, trouble
}
