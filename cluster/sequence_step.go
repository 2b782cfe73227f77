package cluster

import (
	"context"
	"errors"

	"github.com/seed-1415985d/attn"
)

// Step is Append of k and v and then Attend of q, in one round trip: the tokens travel with the
// queries, and the worker that holds the end of the sequence appends them before it attends.
//
// Step returns when one copy of the end has the tokens, and also those of other layers' steps that
// not all copies have yet. The others follow: those of workers that are asked for something in any
// case with the same request, those of the rest after it. Until all have them, or are given up and
// made again, the client keeps the tokens and sends them again, and the next call that changes or
// reads the layer waits. So no call is answered by a copy without them, and what is lost if a
// worker dies in between is what would be lost after an Append. Workers keep nothing of a client
// that dies in between, whatever they have taken.
//
// If it returns an error, it has written nothing, and the layer has the tokens that it had before.
func (s *Sequence) Step(ctx context.Context, layer int, dst, q, k, v attn.Tensor,
	opt *attn.Options) error {
	ctx, end := s.begin(ctx)
	defer end()
	if err := s.check(layer); err != nil {
		return err
	}
	if err := s.checkTokens(&k, &v); err != nil {
		return err
	}
	if err := s.layers[layer].own(ctx); err != nil {
		return s.orReleased(err)
	}
	t := &tokens{layer: layer, k: k, v: v}
	c, err := s.prepareStep(ctx, t, dst, q, opt)
	if err != nil {
		s.layers[layer].disown()
		return err
	}
	return s.takeStep(ctx, t, c)
}

// prepareStep makes sure that a layer can take tokens, and validates the rest of a step.
func (s *Sequence) prepareStep(ctx context.Context, t *tokens, dst, q attn.Tensor,
	opt *attn.Options) (*attendCall, error) {
	if err := s.prepare(ctx, t); err != nil {
		return nil, s.orReleased(err)
	}
	return s.newCall(ctx, t.layer, dst, q, opt, t.k.L)
}

// takeStep takes a step, and gives the layer back then.
func (s *Sequence) takeStep(ctx context.Context, t *tokens, c *attendCall) error {
	var r *ride
	defer func() { s.follow(t.layer, r) }()
	return s.orReleased(s.whereRoom(ctx, t, func() (part *sequencePart, err error) {
		r, part, err = s.stepSome(ctx, t, c)
		return part, err
	}))
}

// stepSome appends what copies have not yet, and attends. What copies are still to take is the
// ride, with which change stays shared. With an error it returns the part that has it.
func (s *Sequence) stepSome(ctx context.Context, t *tokens, c *attendCall) (r *ride,
	part *sequencePart, err error) {
	if c.begun == nil {
		if err := s.shareMended(ctx); err != nil {
			return nil, nil, err
		}
	}
	defer func() {
		if r == nil {
			s.change.unshare()
		}
	}()
	if c.begun == nil {
		if part, err = s.bring(ctx, t, c); err != nil {
			return nil, part, err
		}
	}
	if err = c.run(ctx); err != nil {
		s.endFollow(c.ride)
		return nil, s.full(c.ride, err), err
	}
	s.appended(t)
	return c.ride, nil, nil
}

// bring lets the last message of some tokens ride with a call, if it can. Copies have the others
// then, or all. With an error it returns the part that has it.
func (s *Sequence) bring(ctx context.Context, t *tokens, c *attendCall) (part *sequencePart,
	err error) {
	last, err := s.lastMessage(t)
	if err == nil {
		part, err = s.appendUntil(ctx, t, last)
	}
	if c.ride = nil; err == nil && last < t.k.L {
		c.ride, err = s.message(ctx, t, last)
	}
	if err != nil {
		return part, err
	}
	if err = c.lookAgain(); err != nil {
		return nil, err
	}
	if !c.carries() {
		c.ride = nil
		return s.appendUntil(ctx, t, t.k.L)
	}
	return nil, nil
}

// lastMessage is the number of the token that the last message of some begins with.
func (s *Sequence) lastMessage(t *tokens) (at int, err error) {
	for at, err = s.begun(t); err == nil && at < t.k.L; {
		n := s.messageLength(t, at)
		if at+n == t.k.L {
			break
		}
		at += n
	}
	return at, err
}

// carries reports whether a request takes the ride to where the end is: the end is asked, and once.
func (c *attendCall) carries() bool {
	return c.ride != nil && c.q.H > 0 && c.q.L > 0 && c.rows >= c.q.L &&
		c.visible(len(c.snapshot)-1, 0, c.q.L)
}

// full is the part that has no room, if that is the error, with a note of its copies.
func (s *Sequence) full(r *ride, err error) *sequencePart {
	if r == nil || !errors.Is(err, attn.ErrCapacity) {
		return nil
	}
	s.client.noteFull(s.missing(r))
	return r.part
}
