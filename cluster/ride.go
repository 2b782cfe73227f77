package cluster

import (
	"context"
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
	took   map[*partCopy]outcome // what is known
	flying int                   // requests with the tokens whose outcome is not
	landed chan struct{}         // has an element when none is flying any more
}

func newRide(p *sequencePart, r appendRequest) *ride {
	return &ride{part: p, request: r, took: map[*partCopy]outcome{}, landed: make(chan struct{}, 1)}
}

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
	for x, o := range r.took {
		known[x] = o
	}
	return known
}

// missing are the copies that have not taken the message, as far as is known.
func (s *Sequence) missing(r *ride) []*partCopy {
	known := r.outcomes()
	return slices.DeleteFunc(s.good(r.part), func(x *partCopy) bool { return known[x].took() })
}

// took reports whether a copy has taken a request.
func (o outcome) took() bool { return o.final && o.err == nil }

// fly lets the message go with a request, to a copy.
func (r *ride) fly(x *partCopy) *partCopy {
	if x != nil {
		r.mu.Lock()
		r.flying++
		r.mu.Unlock()
	}
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
	defer r.mu.Unlock()
	if x := a.ride; !r.took[x].took() {
		r.took[x] = outcome{x, o.err, o.err == nil || errors.Is(o.err, attn.ErrCapacity)}
	}
	if r.flying--; r.flying == 0 {
		select {
		case r.landed <- struct{}{}:
		default:
		}
	}
}

// wait waits until no message is flying.
func (r *ride) wait(ctx context.Context) {
	for {
		r.mu.Lock()
		flying := r.flying
		r.mu.Unlock()
		if flying == 0 {
			return
		}
		select {
		case <-r.landed:
		case <-ctx.Done():
			return
		}
	}
}

// rideOn is the copy on a worker that is to take the tokens of a step with what is asked there, nil
// if there is none.
func (g *gather) rideOn(worker string) *partCopy {
	if g.ride == nil {
		return nil
	}
	for _, x := range g.call.missing(g.ride) {
		if x.worker == worker {
			return g.ride.fly(x)
		}
	}
	return nil
}

// rest are the copies that tokens do not ride to with some requests.
func (g *gather) rest(requests []*answer) (rest []*answer) {
	if g.ride == nil {
		return nil
	}
	for _, x := range g.call.missing(g.ride) {
		if !slices.ContainsFunc(requests, func(a *answer) bool { return a.ride == x }) {
			rest = append(rest, &answer{worker: x.worker, ride: g.ride.fly(x)})
		}
	}
	return rest
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
