package cluster

import (
	"context"
	"time"

	"github.com/seed-1415985d/attn"
)

// Drain lets a worker leave without loss: it takes no new copies and announces that it is leaving,
// so clients make those that it has elsewhere, and it answers calls meanwhile. Drain returns when
// the worker keeps none, or with an error that wraps [ErrUnavailable] and says how many there are
// when ctx ends, or with one that wraps [attn.ErrClosed] if the worker is closed first. Either way
// Close is next: a worker that leaves cannot stay.
//
// Where there is no other worker to have a copy, clients give it up if another copy stays.
func (w *Worker) Drain(ctx context.Context) error {
	locked(&w.mu, func() { w.leaving = true })
	tick := time.NewTicker(min(w.config.Announce, 50*time.Millisecond))
	defer tick.Stop()
	for {
		w.mu.Lock()
		copies, closed := w.kept.copies, w.closed
		w.mu.Unlock()
		switch {
		case closed: // what is not here any more was freed, and not handed on
			return fail(attn.ErrClosed, "the worker was closed")
		case copies == 0:
			return nil
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
		case <-ctx.Done():
			return fail(ErrUnavailable, "%d copies are still here: %v", copies, ctx.Err())
		}
	}
}
