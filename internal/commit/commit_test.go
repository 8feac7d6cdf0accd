package commit

import (
	"net/netip"
	"testing"

	"weir/internal/state"
)

func leases(from, n int) []state.Lease {
	var out []state.Lease
	for i := from; i < from+n; i++ {
		out = append(out, state.Lease{LAN: "home", Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})})
	}
	return out
}

// TestReplyWaits: a reply comes out when its own batch is on disk, with the last of
// its leases, and not with another's.
func TestReplyWaits(t *testing.T) {
	q := New[string]()
	if id, l := q.Next(); id != 0 || l != nil {
		t.Errorf("nothing to do, and %d %v", id, l)
	}
	first, second := "first", "second"
	q.Add(leases(0, 2), &first)
	a, got := q.Next()
	if len(got) != 2 || a == 0 {
		t.Fatalf("batch %d: %v", a, got)
	}
	q.Add(leases(2, 1), &second)
	b, _ := q.Next()
	if e := New[string]().Done(Kept{ID: a}); e != nil {
		t.Errorf("another server took %v", e)
	}
	if e := q.Done(Kept{ID: a + 100}); e != nil {
		t.Errorf("a batch that is none's: %v", e)
	}
	if e := q.Done(Kept{ID: b}); len(e) != 1 || e[0].Reply != &second {
		t.Errorf("the second batch: %v", e)
	}
	if e := q.Done(Kept{ID: a}); len(e) != 2 || e[0].Reply != nil || e[1].Reply != &first || e[1].Lease != leases(1, 1)[0] {
		t.Errorf("the first batch: %v", e)
	}
	if e := q.Done(Kept{ID: a}); e != nil {
		t.Errorf("told twice, it leaves twice: %v", e)
	}
}

// TestNoServerHasAnothersBatches: a worker that is begun anew takes no word for its
// own that was meant for the one before.
func TestNoServerHasAnothersBatches(t *testing.T) {
	ids := map[uint64]bool{}
	for range 100 {
		q := New[string]()
		q.Add(leases(0, 1), nil)
		id, _ := q.Next()
		if ids[id] {
			t.Fatalf("batch %d is two servers'", id)
		}
		ids[id] = true
	}
}

// TestBounds: what waits is bounded, replies first; the parent has so many batches
// at a time, of so many leases.
func TestBounds(t *testing.T) {
	q := New[int]()
	for i := range MaxWaiting + 10 {
		q.Add(leases(i, 1), &i)
	}
	if q.replies != MaxWaiting || len(q.waiting) != MaxWaiting+10 {
		t.Errorf("%d replies of %d wait", q.replies, len(q.waiting))
	}
	for range 16 * MaxWaiting {
		q.Add(leases(0, 1), nil)
	}
	if len(q.waiting) != maxEnds {
		t.Errorf("%d wait, of %d at most", len(q.waiting), maxEnds)
	}
	ids := []uint64{}
	for id, l := q.Next(); l != nil; id, l = q.Next() {
		ids = append(ids, id)
		if len(l) > MaxLeases {
			t.Errorf("a batch of %d", len(l))
		}
	}
	if len(ids) != maxBatches {
		t.Errorf("%d batches under way, not %d", len(ids), maxBatches)
	}
	q.Done(Kept{ID: ids[0]})
	if _, l := q.Next(); l == nil {
		t.Error("one is done, and the next does not go")
	}
	for range 20 {
		for id := range q.batches {
			q.Done(Kept{ID: id})
		}
		for _, l := q.Next(); l != nil; _, l = q.Next() {
		}
	}
	if q.replies != 0 || len(q.waiting) != 0 {
		t.Errorf("all is done, and %d replies of %d wait", q.replies, len(q.waiting))
	}
}
