package cluster

import (
	"errors"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// ride is a message's tokens on their way to the copies of a part.
type ride struct {
	part    *sequencePart
	request appendRequest

	mu     sync.Mutex
	known  []outcome // of copies
	flying int       // requests with the tokens whose outcome is not known
	landed func()    // to be called when none is flying any more
}

func newRide(p *sequencePart, r appendRequest) *ride { return &ride{part: p, request: r} }

// length is how many tokens a copy has at least that has taken the message.
func (r *ride) length() int { return r.request.position + int(r.request.tokens()) }

// size is about how many bytes the message has.
func (r *ride) size() int {
	if r == nil {
		return 0
	}
	return r.request.size()
}

// to is the message for a copy.
func (r *ride) to(copy uint64) appendRequest {
	x := r.request
	x.copy = copy
	return x
}

// encode is the message for any copy, as a request of its own.
func (r *ride) encode(client clientID) func(copy uint64) []byte {
	return func(copy uint64) []byte {
		x := r.to(copy)
		return x.encode(client)
	}
}

// outcomes is what is known of copies.
func (r *ride) outcomes() map[*partCopy]outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[*partCopy]outcome{}
	for _, o := range r.known {
		known[o.copy] = o
	}
	return known
}

// outcome is what is known of a copy, to be changed. The lock is held.
func (r *ride) outcome(x *partCopy) *outcome {
	for i := range r.known {
		if r.known[i].copy == x {
			return &r.known[i]
		}
	}
	r.known = append(r.known, outcome{copy: x})
	return &r.known[len(r.known)-1]
}

// missing are the copies that have not taken the message, as far as is known.
func (s *Sequence) missing(r *ride) []*partCopy {
	good := s.good(r.part)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(good, func(x *partCopy) bool { return r.outcome(x).took() })
}

// took reports whether a copy has taken a request.
func (o outcome) took() bool { return o.final && o.err == nil }

// fly lets the message go with a request, to a copy.
func (r *ride) fly(x *partCopy) *partCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying++
	return x
}

// land notes what became of the message that went with a request.
func (r *ride) land(a *answer) {
	if r == nil || a.ride == nil {
		return
	}
	o := &a.outcome
	switch {
	case a.err != nil:
		o.err = a.err
	case o.err == nil && o.length < r.length():
		o.err = fail(ErrProtocol, "worker %s has %d tokens, want at least %d", a.worker, o.length,
			r.length())
	}
	r.mu.Lock()
	if known := r.outcome(a.ride); !known.took() {
		known.err, known.final = o.err, o.err == nil || errors.Is(o.err, attn.ErrCapacity)
	}
	var landed func()
	if r.flying--; r.flying == 0 {
		landed, r.landed = r.landed, nil
	}
	r.mu.Unlock()
	if landed != nil {
		landed()
	}
}

// whenLanded calls f when no message is flying any more.
func (r *ride) whenLanded(f func()) {
	r.mu.Lock()
	flies := r.flying > 0
	if flies {
		r.landed = f
	}
	r.mu.Unlock()
	if !flies {
		f()
	}
}

// full is that a copy of the end has no room, where the others have had time to say otherwise.
func (g *gather) full() error {
	if g.ride == nil {
		return nil
	}
	p := &g.parts[len(g.parts)-1]
	if !p.done && errors.Is(p.refusal, attn.ErrCapacity) {
		return p.refusal
	}
	return nil
}
