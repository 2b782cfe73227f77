package cluster

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// ride is what is on its way to the copies of a part: a message's tokens, or a cut.
type ride struct {
	part    *sequencePart
	request appendRequest
	cut     truncateRequest // if its epoch is not 0

	mu     sync.Mutex
	known  []outcome // of copies
	flying int       // requests with the tokens whose outcome is not known
	landed func()    // to be called when none is flying any more

	followed chan struct{} // of a step's: closed when copies follow no more
}

// length is how many tokens a copy has at least that has taken the message.
func (r *ride) length() int { return r.request.position + int(r.request.tokens()) }

// size is how many bytes the tokens have.
func (r *ride) size() int {
	if r == nil {
		return 0
	}
	return sizeOf(&r.request)
}

// to is the tokens for a copy.
func (r *ride) to(copy uint64) appendRequest {
	x := r.request
	x.copy = copy
	return x
}

// step is what a copy is asked for that is to take it, and nothing else.
func (r *ride) step(copy uint64) *stepRequest {
	if r.cut.epoch > 0 {
		return &stepRequest{cuts: []truncateRequest{r.cut.to(copy)}}
	}
	return &stepRequest{appends: []appendRequest{r.to(copy)}}
}

// refusal is why a worker has not taken it, nil if it has.
func (r *ride) refusal(worker string, x *changeReply) error {
	if x.err == nil && x.length < r.length() {
		return fail(ErrProtocol, "worker %s has %d tokens, want at least %d", worker, x.length,
			r.length())
	}
	return x.err
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

// note notes what became of a copy, unless that has taken the message. The lock is held.
func (r *ride) note(o outcome) {
	i := slices.IndexFunc(r.known, func(x outcome) bool { return x.copy == o.copy })
	if i < 0 {
		r.known = append(r.known, o)
	} else if !r.known[i].took() {
		r.known[i] = o
	}
}

// has reports whether a copy has taken the message, as far as is known. The lock is held.
func (r *ride) has(x *partCopy) bool {
	return slices.ContainsFunc(r.known, func(o outcome) bool { return o.copy == x && o.took() })
}

// missing are the copies that have not taken the message, as far as is known.
func (s *Sequence) missing(r *ride) []*partCopy {
	good := s.good(r.part)
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(good, r.has)
}

// taken notes that a copy has taken the message.
func (r *ride) taken(x *partCopy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(outcome{copy: x, final: true})
}

// holders are the copies that have taken the message.
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

// isIn reports whether a copy has taken the message, as far as is known.
func (r *ride) isIn(x *partCopy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.has(x)
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
