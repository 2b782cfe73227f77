package cluster

import (
	"context"
	"time"

	"github.com/seed-1415985d/attn"
)

// Drain lets a worker leave without loss: it accepts no new copies and announces that it is
// leaving, so that clients make its copies elsewhere, and it answers calls meanwhile. Drain returns
// nil when the worker keeps no copies, an error that wraps [ErrUnavailable] and says how many are
// left when ctx ends, and one that wraps [attn.ErrClosed] if the worker is closed first. Call Close
// afterwards: a worker that leaves cannot stay.
//
// If no other worker can keep a copy, clients give it up if another copy stays.
func (w *Worker) Drain(ctx context.Context) error {
	locked(&w.mu, func() { w.leaving = true })
	tick := time.NewTicker(min(w.config.Announce, 50*time.Millisecond))
	defer tick.Stop()
	for {
		w.mu.Lock()
		copies, closed := w.kept.copies, w.closed
		w.mu.Unlock()
		switch {
		case closed: // copies that are not here any more were freed, and not handed on
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
