package cluster

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// ride is a change that is being sent to the copies of a part: a message's tokens, or a cut.
type ride struct {
	part    *sequencePart
	request appendRequest
	cut     truncateRequest // a cut if its epoch is not 0

	mu     sync.Mutex
	known  []outcome // outcomes of copies
	flying int       // requests with the tokens whose outcome is unknown
	landed func()    // is called when no request is flying any more

	followed chan struct{} // of a step: closed when no copies follow any more
}

// length returns the least number of tokens of a copy that has the message.
func (r *ride) length() int { return r.request.position + int(r.request.tokens()) }

// size returns the bytes of the tokens.
func (r *ride) size() int {
	if r == nil {
		return 0
	}
	return sizeOf(&r.request)
}

// to returns the request with the tokens for a copy.
func (r *ride) to(copy uint64) appendRequest {
	x := r.request
	x.copy = copy
	return x
}

// step returns the request for a copy with nothing but the change.
func (r *ride) step(copy uint64) *stepRequest {
	if r.cut.epoch > 0 {
		return &stepRequest{cuts: []truncateRequest{r.cut.to(copy)}}
	}
	return &stepRequest{appends: []appendRequest{r.to(copy)}}
}

// refusal returns why a worker has not applied the change, nil if it has.
func (r *ride) refusal(worker string, x *changeReply) error {
	if x.err == nil && x.length < r.length() {
		return fail(ErrProtocol, "worker %s has %d tokens, want at least %d", worker, x.length,
			r.length())
	}
	return x.err
}

// outcomes returns the known outcomes of copies.
func (r *ride) outcomes() map[*partCopy]outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[*partCopy]outcome{}
	for _, o := range r.known {
		known[o.copy] = o
	}
	return known
}

// note records the outcome of a copy, unless it already has the message. The lock is held.
func (r *ride) note(o outcome) {
	i := slices.IndexFunc(r.known, func(x outcome) bool { return x.copy == o.copy })
	if i < 0 {
		r.known = append(r.known, o)
	} else if !r.known[i].took() {
		r.known[i] = o
	}
}

// has reports whether a copy is known to have the message. The lock is held.
func (r *ride) has(x *partCopy) bool {
	return slices.ContainsFunc(r.known, func(o outcome) bool { return o.copy == x && o.took() })
}

// missing returns the copies that are not known to have the message.
func (s *Sequence) missing(r *ride) []*partCopy {
	good := s.good(r.part)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(good, r.has)
}

// taken records that a copy has the message.
func (r *ride) taken(x *partCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(outcome{copy: x, final: true})
}

// holders returns the copies that have the message.
func (r *ride) holders() (all []*partCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.known {
		if o.took() {
			all = append(all, o.copy)
		}
	}
	return all
}

// isIn reports whether a copy is known to have the message.
func (r *ride) isIn(x *partCopy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has(x)
}

// took reports whether a copy has applied a request.
func (o outcome) took() bool { return o.final && o.err == nil }

// fly records that the message is sent with a request, to a copy.
func (r *ride) fly(x *partCopy) *partCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying++
	return x
}

// land records the outcome of the message that was sent with a request.
func (r *ride) land(a *answer) {
	if r == nil || a.ride == nil {
		return
	}
	o := &a.outcome
	o.err = cmp.Or(a.err, r.refusal(a.worker, o))
	r.mu.Lock()
	r.note(outcome{a.ride, o.err, o.err == nil || errors.Is(o.err, attn.ErrCapacity)})
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

// full returns the error that a copy of the end has no room, if no other copy has had the message
// within the patience.
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
