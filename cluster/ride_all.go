package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// part returns part i, which is made if it is the next one.
func (s *Sequence) part(ctx context.Context, i int) (p *sequencePart, err error) {
	if err := s.grow.own(ctx); err != nil {
		return nil, err
	}
	defer s.grow.disown()
	locked(&s.mu, func() {
		if i < len(s.parts) {
			p = s.parts[i]
		}
	})
	if p != nil {
		return p, nil
	}
	p = &sequencePart{index: i, moving: make(chan struct{}, 1)}
	if err := s.place(ctx, p); err != nil {
		return nil, err
	}
	s.mu.Lock()
	released := s.released
	if !released {
		s.parts = append(s.parts, p)
	}
	s.mu.Unlock()
	if released {
		s.client.freeSoon(p.copies)
		return nil, s.ended()
	}
	return p, nil
}

// place makes copies of a new part, at least one.
func (s *Sequence) place(ctx context.Context, p *sequencePart) (last error) {
	first := time.Millisecond + time.Duration(s.id%1e6) // so that sequences ask apart
	for wait := first; ; wait = min(2*wait, 100*time.Millisecond) {
		hope := false
		for _, worker := range s.places(p.index) {
			if len(p.copies) == s.client.config.Copies {
				break
			}
			if x, err := s.create(ctx, p, worker); err == nil {
				p.copies = append(p.copies, x)
			} else {
				last, hope = err, hope || transient(err)
			}
		}
		switch {
		case len(p.copies) > 0:
			return nil
		case last != nil && !hope:
			return last
		case sleep(ctx, wait) != nil:
			return fail(ErrUnavailable, "no worker takes part %d of sequence %x: %v; the last error is: %v",
				p.index, s.id, ctx.Err(), last)
		}
	}
}

// create makes an empty copy of a part on a worker.
func (s *Sequence) create(ctx context.Context, p *sequencePart, worker string) (*partCopy, error) {
	c := s.client
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	x := c.newCopy(worker)
	r := createRequest{copy: x.id, sequence: s.id, part: uint32(p.index), epoch: p.epoch,
		tokens: s.tokens, lease: uint32(c.config.Lease.Milliseconds()), shape: s.shape}
	if err := c.tell(ctx, worker, r.encode(c.id), nothing{}); err != nil {
		c.forget(x)
		return nil, err
	}
	locked(&c.mu, func() { x.made = true })
	return x, nil
}

// outcome is the result of a request to a copy.
type outcome struct {
	copy  *partCopy
	err   error
	final bool // it is not tried again
}

// toAll sends each copy of a part its request, until the copy has applied it or is given up. If
// none applies it, that is an error, and all copies stay.
func (s *Sequence) toAll(ctx context.Context, r *ride) error {
	return s.toRest(ctx, r, map[*partCopy]outcome{})
}

// toRest is toAll after some copies have applied their request.
func (s *Sequence) toRest(ctx context.Context, r *ride, state map[*partCopy]outcome) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		copies := s.good(r.part)
		if len(copies) == 0 && s.recall(r.part) {
			continue
		}
		if len(copies) == 0 {
			return s.lostError(r.part, fail(errUnknown, "no copy is left"))
		}
		s.sendAll(ctx, copies, r, state)
		again, err := s.conclude(r, copies, state)
		if !again {
			return err
		}
		if sleep(ctx, wait) != nil {
			return err
		}
		clear(state)
	}
}

// sendAll sends a request to copies without a final outcome, and records outcomes as long as
// waiting is useful.
func (s *Sequence) sendAll(ctx context.Context, copies []*partCopy, r *ride,
	state map[*partCopy]outcome) {
	calls, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome, 64)
	waiting := false
	for _, x := range copies {
		if !state[x].final {
			waiting = true
			go s.client.insist(calls, x, r, outcomes)
		}
	}
	var patience <-chan time.Time
	for waiting {
		if patience == nil && slices.ContainsFunc(copies, func(x *partCopy) bool {
			return state[x].took() || state[x].final && errors.Is(state[x].err, attn.ErrCapacity)
		}) {
			patience = time.After(s.client.config.Patience)
		}
		select {
		case o := <-outcomes:
			if state[o.copy] = o; o.took() {
				r.taken(o.copy)
			}
		case <-patience:
			return
		case <-ctx.Done():
			return
		}
		waiting = s.mayAnswer(copies, state)
	}
}

// mayAnswer reports whether to wait for further outcomes: if a copy has applied the request, until
// the others have, too, or cannot; if none has, until each has refused, or its worker is dead.
func (s *Sequence) mayAnswer(copies []*partCopy, state map[*partCopy]outcome) bool {
	taken := slices.ContainsFunc(copies, func(x *partCopy) bool { return state[x].took() })
	return slices.ContainsFunc(copies, func(x *partCopy) bool {
		switch o := state[x]; {
		case o.final:
			return false
		case taken:
			return !errors.Is(o.err, errNobody)
		default:
			return o.err == nil || s.client.member(x.worker).health != dead
		}
	})
}

// conclude gives up the copies that have refused a request that others applied, and puts copies
// without an answer in reserve. The request must be sent again if all copies that applied it are
// lost or lack tokens that others have, or if the reserve has to be asked.
func (s *Sequence) conclude(r *ride, copies []*partCopy,
	state map[*partCopy]outcome) (again bool, err error) {
	c, p := s.client, r.part
	var took, refusing, late []*partCopy
	lost, full := 0, false
	for _, x := range copies {
		o := state[x]
		switch {
		case o.took():
			took = append(took, x)
			continue
		case o.final:
			refusing = append(refusing, x)
		default:
			late = append(late, x)
		}
		gone := o.final && (errors.Is(o.err, errUnknown) || errors.Is(o.err, errStale))
		if gone {
			c.lose(x)
		}
		if gone || c.member(x.worker).health == dead {
			lost++
		}
		if o.err == nil {
			o.err = fail(ErrUnavailable, "worker %s has not answered", x.worker)
		}
		if now := errors.Is(o.err, attn.ErrCapacity); now || !full {
			full, err = now, o.err
		}
	}
	switch {
	case s.rely(r, took, refusing, late):
		if len(took) < len(copies) {
			s.sweep(p)
		}
		return false, nil
	case len(took) > 0:
		return true, fail(ErrUnavailable, "the copies that took a request are gone, or lack "+
			"what others have: %v", err)
	case lost == len(copies) && s.recall(p):
		return true, fail(ErrUnavailable, "a copy that was late has to be asked: %v", err)
	case lost == len(copies):
		return false, s.lostError(p, err)
	}
	if full {
		c.noteFull(append(refusing, late...))
	} else if errors.Is(err, errUnknown) || errors.Is(err, errStale) {
		err = fail(ErrUnavailable, "some copies are lost, others do not answer: %v", err)
	}
	return false, err
}

// rely gives up some copies, and puts late ones in reserve, if a usable copy in on has the message,
// and reports whether there is one. Layers are appended to at the same time, so a layer must not
// give up the copies that another one relies on, nor prefer a copy whose worker does not answer to
// one whose worker does.
func (s *Sequence) rely(r *ride, on, giveUp, late []*partCopy) bool {
	c := s.client
	defer s.lockAll()()
	best := c.bestOf(on)
	if best == healths || !best.answers() && best > min(c.bestOf(giveUp), c.bestOf(late)) ||
		!s.standIn(r, on, giveUp) || !s.standIn(r, on, late) {
		return false
	}
	for _, x := range on {
		x.full = false
	}
	for _, x := range giveUp {
		x.lost = true
		wake(c.kick)
	}
	for _, x := range late {
		c.setBack(x)
	}
	return true
}

// insist sends a request to a copy until the worker applies or refuses it.
func (c *Client) insist(ctx context.Context, x *partCopy, r *ride, outcomes chan<- outcome) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		attempt, cancel := context.WithTimeout(ctx, 4*c.config.Patience)
		reply, err := c.step(attempt, x.worker, r.step(x.id))
		cancel()
		if err == nil {
			err = r.refusal(x.worker, &reply.changes[0])
		}
		if errors.Is(err, ErrProtocol) {
			c.suspect(x.worker)
		}
		final := err == nil || !transient(err) && !c.catchesUp(x, err)
		select {
		case outcomes <- outcome{x, err, final}:
		case <-ctx.Done():
			return
		}
		if final || sleep(ctx, wait) != nil {
			return
		}
	}
}

// lostError returns the error for a lost part.
func (s *Sequence) lostError(p *sequencePart, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest, from := slices.Max(s.lengths), p.index*s.tokens
	if longest <= from { // nothing was appended, so nothing is lost
		return fail(ErrUnavailable, "a part that tokens were to begin has no copy left: %v", cause)
	}
	return &LostError{Sequence: s.id, From: from, To: min(longest, from+s.tokens),
		Cause: cause}
}
