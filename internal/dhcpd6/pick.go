package dhcpd6

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

const (
	maxLeases = 1 << 16 // of a LAN, those that ended included
	maxParts  = 1 << 10 // of a LAN, in force

	nearTries = 64                     // how far from its own place a client's is looked for
	maxSpare  = 256                    // what a look finds at most
	lookEvery = 500 * time.Millisecond // a look goes through all leases
)

// pool is a range of numbers that are leased: ids, perhaps in one network only, or
// parts.
type pool struct {
	from, to uint64
	only     netip.Prefix // invalid: in each
}

// store is what there is to lease of a kind.
type store struct {
	pools  []pool
	spare  []thing
	looked time.Time
}

// size is how many there are; what is beyond 2^62 does not matter.
func (st *store) size() uint64 {
	n := uint64(0)
	for _, p := range st.pools {
		n += min(p.to-p.from, 1<<60) + 1
		n = min(n, 1<<62)
	}
	return n
}

func (st *store) nth(i uint64, pd bool) thing {
	for _, p := range st.pools {
		if size := min(p.to-p.from, 1<<60) + 1; i >= size {
			i -= size
			continue
		}
		if pd {
			return thing{part: uint32(p.from + i)}
		}
		return thing{id: p.from + i}
	}
	return thing{}
}

// pick takes what nobody ever had, of addresses near a place that is always the same
// for the client, of parts the lowest, which most prefixes have; else what a look finds.
func (st *store) pick(now time.Time, s *scope, c client) (thing, bool) {
	size := st.size()
	if size == 0 {
		return thing{}, false
	}
	h := fnv.New64a()
	h.Write([]byte(c.key()))
	start := h.Sum64() % size
	if c.pd {
		start = 0
	}
	for i := range min(nearTries, size) {
		t := st.nth((start+i)%size, c.pd)
		if s.bindings[t] == nil && s.room(c.pd) && s.offered(t) && s.free(now, t, c) {
			return t, true
		}
	}
	for {
		for len(st.spare) > 0 {
			t := st.spare[0]
			if s.offered(t) && s.free(now, t, c) && !s.bindings[t].active(now) && (s.bindings[t] != nil || s.room(c.pd)) {
				return t, true // it stays the next to be had until somebody has it
			}
			st.spare = st.spare[1:]
		}
		if now.Sub(st.looked) < lookEvery {
			return thing{}, false
		}
		st.looked = now
		if st.spare = s.look(now, st, start, c.pd); len(st.spare) == 0 {
			return thing{}, false
		}
	}
}

// look finds what can be had: first what nobody ever had, then that whose lease
// ended, the longest ago first.
func (s *scope) look(now time.Time, st *store, start uint64, pd bool) []thing {
	var fresh, ended []thing
	size := st.size()
	for i := range min(size, uint64(len(s.bindings)+len(s.taken)+len(s.reserved)+1+maxSpare)) {
		t := st.nth((start+i)%size, pd)
		if s.bindings[t] == nil && s.offered(t) && s.free(now, t, client{}) {
			if fresh = append(fresh, t); len(fresh) == maxSpare {
				break
			}
		}
	}
	for t, b := range s.bindings {
		if (t.part > 0) == pd && !b.active(now) && s.offered(t) && s.free(now, t, client{}) {
			ended = append(ended, t)
		}
	}
	slices.SortFunc(ended, func(a, b thing) int { return s.bindings[a].until.Compare(s.bindings[b].until) })
	if !s.room(pd) {
		fresh = nil
	}
	found := append(fresh, ended...)
	return slices.Clone(found[:min(len(found), maxSpare)])
}
