package cluster

import (
	"maps"
	"slices"
	"time"
)

// kept holds totals over all copies, updated incrementally because a worker may have very many.
type kept struct{ copies, layers, sequences int }

// owner is a client and its copies.
type owner struct {
	copies    map[uint64]*part
	sequences map[uint64]int // number of copies of each sequence here
	lease     time.Duration
	idle      int // ticks of the janitor since the client was last heard of
}

// owner returns a client, which it registers if it is new. The lock is held.
func (w *Worker) owner(client clientID, lease uint32) *owner {
	o := w.clients[client]
	if o == nil {
		o = &owner{copies: map[uint64]*part{}, sequences: map[uint64]int{}}
		w.clients[client] = o
	}
	o.idle = 0
	o.lease = min(time.Duration(lease)*time.Millisecond, w.config.Lease)
	return o
}

// has reports whether a client has a copy of a sequence here.
func (o *owner) has(sequence uint64) bool { return o != nil && o.sequences[sequence] > 0 }

// checkNamed verifies that a request names no more copies than a worker may have.
func (w *Worker) checkNamed(copies []uint64) error {
	if len(copies) > w.config.Copies {
		return fail(ErrLimit, "%d copies are named, want at most %d", len(copies), w.config.Copies)
	}
	return nil
}

// addCopy adds a copy to a client's. The lock is held.
func (w *Worker) addCopy(o *owner, p *part) {
	o.copies[p.copy] = p
	if o.sequences[p.sequence]++; o.sequences[p.sequence] == 1 {
		w.kept.sequences++
	}
	w.kept.copies++
	w.kept.layers += p.shape.Layers
}

// removeCopies removes copies from a client's, as far as they exist. The lock is held.
func (w *Worker) removeCopies(o *owner, copies []uint64) (parts []*part) {
	for _, copy := range copies {
		p := o.copies[copy]
		if p == nil {
			continue
		}
		parts = append(parts, p)
		delete(o.copies, copy)
		if o.sequences[p.sequence]--; o.sequences[p.sequence] == 0 {
			delete(o.sequences, p.sequence)
			w.kept.sequences--
		}
		w.kept.copies--
		w.kept.layers -= p.shape.Layers
	}
	return parts
}

// remove frees copies of a client, as far as they exist.
func (w *Worker) remove(client clientID, copies []uint64) {
	w.removeOf(client, func(*owner) []uint64 { return copies })
}

// drop frees everything of a client.
func (w *Worker) drop(client clientID) {
	w.removeOf(client, func(o *owner) []uint64 {
		delete(w.clients, client)
		return slices.Collect(maps.Keys(o.copies))
	})
}

// removeOf frees some copies of a client, if the client and copies exist.
func (w *Worker) removeOf(client clientID, which func(o *owner) []uint64) {
	var parts []*part
	locked(&w.mu, func() {
		if o := w.clients[client]; o != nil {
			parts = w.removeCopies(o, which(o))
		}
	})
	for _, p := range parts {
		p.release()
	}
}
