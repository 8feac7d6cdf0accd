package worker

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"
)

// Order is a message of the parent, decoded, with the files that came with it,
// which are the receiver's to close.
type Order[T any] struct {
	Value T
	Files []*os.File
}

// Obey runs loop with what the parent sends, for services that take it in their
// own time, among other things. It returns when either ends, and closes the
// connection.
func Obey[T any](ctx context.Context, parent *Conn, loop func(context.Context, <-chan Order[T]) error) error {
	orders := make(chan Order[T])
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			var o Order[T]
			var err error
			if o.Files, err = parent.Recv(&o.Value); err != nil {
				return err
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				Message{Files: o.Files}.Close()
				return ctx.Err()
			}
		}
	})
	var why error
	g.Go(func() error {
		defer parent.Close() // Recv returns, with an error that says nothing
		why = loop(ctx, orders)
		return why
	})
	if err := g.Wait(); why == nil || errors.Is(why, context.Canceled) {
		return err
	}
	return why
}
