package gateway

import (
	"context"
	"errors"
	"time"

	"weir/internal/history"
	"weir/internal/state"
)

// storeAgain is how soon what could not be stored is tried again.
const storeAgain = 5 * time.Second

// unstored is what can't be stored at the moment. A full disk, or one that has
// become read-only, must not cost the house its network: it goes on in memory, says
// so, and writes all of it when there is room.
type unstored struct {
	err   error     // why, as it was told; nil: all is stored
	book  error     // why the book is not
	names error     // why the machine does not ask weir for names
	again time.Time // when it is tried again; zero: no need
}

// watchStore has the loop look when the store can't be written to, or can again,
// which it tries by itself.
func (d *daemon) watchStore(ctx context.Context) {
	d.store.Watch(func(error) { d.postSoon(ctx, d.storeAll) })
}

// keepBook has next known and stored.
func (d *daemon) keepBook(next history.Book) error {
	d.book = next
	d.armTrial()
	d.saveBook()
	err := d.unstored.book
	if err != nil {
		d.unstored.again = time.Now().Add(storeAgain)
	}
	return err
}

func (d *daemon) saveBook() {
	next := d.book
	d.unstored.book = d.folder().Save(d.saved, next, func(f state.Force) error { return d.store.Put(state.KeepForce(f)) })
	if d.unstored.book == nil {
		d.saved = next
	}
}

// storeAll tries to store what could not be, and tells when that has changed.
func (d *daemon) storeAll() {
	if d.unstored.book != nil {
		d.saveBook()
	}
	if d.unstored.names != nil {
		d.asked = false // takeNames tries again
	}
	before := d.unstored.err
	err := errors.Join(d.store.Err(), d.unstored.book, d.k.StoreFound())
	d.unstored.err, d.unstored.again = err, time.Time{}
	if err != nil || d.unstored.names != nil {
		d.unstored.again = time.Now().Add(storeAgain)
	}
	switch {
	case err != nil && before == nil:
		d.log.Error("not all can be stored at the moment: the house goes on, but what changes would not survive a power cut", "err", err, "again_in", storeAgain)
	case err == nil && before != nil:
		d.log.Info("all is stored again")
	}
	d.news = d.news || (err == nil) != (before == nil)
}
