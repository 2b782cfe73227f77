package cluster

import "time"

// kept is how much copies are in all, counted as they come and go: a worker may have very many.
type kept struct{ copies, layers, sequences int }

// owner is a client and its copies.
type owner struct {
	copies    map[uint64]*part
	sequences map[uint64]int // how many copies each has here
	lease     time.Duration
	idle      int // ticks of the janitor since anything was heard
}

// owner returns a client, and makes it one of those that the worker knows. The lock is held.
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

// checkNamed makes sure that a request names no more copies than there may be.
func (w *Worker) checkNamed(copies []uint64) error {
	if len(copies) > w.config.Copies {
		return fail(ErrLimit, "%d copies are named, want at most %d", len(copies), w.config.Copies)
	}
	return nil
}

// keep adds a copy to a client's. The lock is held.
func (w *Worker) keep(o *owner, p *part) {
	o.copies[p.copy] = p
	if o.sequences[p.sequence]++; o.sequences[p.sequence] == 1 {
		w.kept.sequences++
	}
	w.kept.copies++
	w.kept.layers += p.shape.Layers
}

// leave takes a copy from a client's. The lock is held.
func (w *Worker) leave(o *owner, p *part) {
	delete(o.copies, p.copy)
	if o.sequences[p.sequence]--; o.sequences[p.sequence] == 0 {
		delete(o.sequences, p.sequence)
		w.kept.sequences--
	}
	w.kept.copies--
	w.kept.layers -= p.shape.Layers
}

// remove frees a copy, if it is there.
func (w *Worker) remove(client clientID, copy uint64) {
	w.mu.Lock()
	o := w.clients[client]
	if o == nil || o.copies[copy] == nil {
		w.mu.Unlock()
		return
	}
	p := o.copies[copy]
	w.leave(o, p)
	w.mu.Unlock()
	p.release()
}

// drop frees everything of a client.
func (w *Worker) drop(client clientID) {
	w.mu.Lock()
	o := w.clients[client]
	if o == nil {
		w.mu.Unlock()
		return
	}
	delete(w.clients, client)
	var parts []*part
	for _, p := range o.copies {
		w.leave(o, p)
		parts = append(parts, p)
	}
	w.mu.Unlock()
	for _, p := range parts {
		p.release()
	}
}
