package cluster

import (
	"context"
	"errors"

	"github.com/seed-1415985d/attn"
)

// Append adds n tokens to a layer:
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// When it returns no error, each copy that is still counted on has the tokens, at least one of each
// part. A copy that did not take them while another one did is made again in the background. If it
// returns an error, the layer has the tokens that it had before.
func (s *Sequence) Append(ctx context.Context, layer int, k, v attn.Tensor) error {
	c := call{Sequence: s, layer: layer, appends: true, k: k, v: v}
	return c.take(ctx)
}

// Attend computes attention of queries over all tokens of a layer:
//
//	q   [1, H, L, HeadDim]     KVHeads divides H
//	dst [1, H, L, ValueDim]
//
// The bits are those of [attn.AttendSequences] over the same tokens on one machine. Options mean
// what they mean to [attn.Attend] with as many keys as the layer has tokens: BottomRight lets the
// last query see the last token, the other alignments take Offset. Mask, Bias and Blocks, of any
// size, travel to the workers with the queries. LSE is filled. KeyLens, QueryLens and Weights are
// [attn.ErrUnsupported], a Tree and Keys [attn.ErrOption].
//
// If it returns an error, it has written nothing. With tokens of which no copy is left that is a
// [*LostError].
func (s *Sequence) Attend(ctx context.Context, layer int, dst, q attn.Tensor,
	opt *attn.Options) error {
	c := call{Sequence: s, layer: layer}
	c.ask(dst, q, opt)
	return c.take(ctx)
}

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
	c := call{Sequence: s, layer: layer, appends: true, k: k, v: v}
	c.ask(dst, q, opt)
	return c.take(ctx)
}

// call is what is wanted of a layer: tokens appended, queries answered, or both.
type call struct {
	*Sequence
	layer int

	appends bool
	k, v    attn.Tensor // the tokens
	length  int         // of the layer before them
	loose   bool        // they travel as elements, which go wherever a page is free
	ride    *ride       // the last of them, if they go with the queries

	attends  bool
	dst, q   attn.Tensor
	opt      *attn.Options
	keys     int
	offset   int           // position of query 0
	sent     *attn.Options // with bounds of the window that can be added to positions
	rows     int           // of a step
	unit     int           // tokens that are asked for together at most, a part of them or all
	snapshot []callPart

	batched
}

// ask lets a call ask for something. What changes in the options is not the caller's.
func (c *call) ask(dst, q attn.Tensor, opt *attn.Options) {
	own := new(attn.Options)
	if opt != nil {
		*own = *opt
	}
	c.attends, c.dst, c.q, c.opt = true, dst, q, own
	c.offset, c.sent, c.unit = own.Offset, travelling(own), c.tokens
}

// take does what a call wants.
func (c *call) take(ctx context.Context) error {
	ctx, end := c.begin(ctx)
	defer end()
	if err := c.check(c.layer); err != nil {
		return err
	}
	if !c.appends {
		err := c.prepareQueries(ctx)
		if err == nil {
			c.mendSoon()
			err = c.run(ctx)
		}
		return c.orReleased(err)
	}
	if err := c.checkTokens(&c.k, &c.v); err != nil {
		return err
	}
	if err := c.layers[c.layer].own(ctx); err != nil {
		return c.orReleased(err)
	}
	if err := c.prepare(ctx); err != nil {
		c.layers[c.layer].disown()
		return c.orReleased(err)
	}
	return c.takeTokens(ctx)
}

// checkTokens makes sure that k and v are tokens: their shape here, the rest by package attn, which
// validates an update of a state without queries and computes nothing.
func (s *Sequence) checkTokens(k, v *attn.Tensor) error {
	h := &s.shape
	values := *v
	if h.ValuesInKeys {
		values = sameRow(h.KVHeads, k.L, h.ValueDim)
	}
	switch {
	case k.B != 1 || k.H != h.KVHeads || k.D != h.HeadDim:
		return fail(attn.ErrShape, "k is [%d %d … %d], want [1 %d … %d]", k.B, k.H, k.D, h.KVHeads,
			h.HeadDim)
	case h.ValuesInKeys && !none(v):
		return fail(attn.ErrShape, "v is [%d %d %d %d] and has %d elements, want the zero Tensor: "+
			"values are part of keys", v.B, v.H, v.L, v.D, len(v.Data))
	case h.ValuesInKeys:
	case v.B != 1 || v.H != h.KVHeads || v.L != k.L || v.D != h.ValueDim:
		return fail(attn.ErrShape, "v is [%d %d %d %d], want [1 %d %d %d]", v.B, v.H, v.L, v.D, h.KVHeads,
			k.L, h.ValueDim)
	}
	state, err := attn.NewState(attn.StateConfig{Batch: 1, Heads: h.KVHeads, ValueDim: h.ValueDim})
	if err != nil {
		return err
	}
	return state.Update(sameRow(h.KVHeads, 0, h.HeadDim), *k, values, nil)
}

// prepare mends the sequence, and makes sure that a layer, which the call owns, can take tokens,
// and that the rest is valid.
func (c *call) prepare(ctx context.Context) error {
	if err := c.mend(ctx); err != nil {
		return err
	}
	if c.length = c.Len(c.layer); c.k.L > maxLength-c.length {
		return fail(attn.ErrLength, "k.L is %d after %d tokens, want at most %d in all", c.k.L, c.length,
			maxLength)
	}
	if c.attends {
		return c.prepareQueries(ctx)
	}
	return nil
}

// takeTokens appends, and attends if that is wanted, and gives the layer back then. Where no worker
// of a part has memory left, it makes room. After an error, copies are cut before anything else is
// appended.
func (c *call) takeTokens(ctx context.Context) error {
	defer c.follow()
	for {
		full, err := c.tryTokens(ctx)
		if err == nil {
			return nil
		}
		if full != nil && errors.Is(err, attn.ErrCapacity) {
			if c.loose = !c.loose; c.loose {
				continue // runs want pages side by side
			}
			if err = c.makeRoom(ctx, full, err); err == nil {
				continue
			}
		}
		locked(&c.mu, func() { c.broken = true })
		return c.orReleased(err)
	}
}

// tryTokens appends what copies have not yet, and attends. What copies are still to take is the
// ride then, with which change stays shared. With an error it returns the part that has it.
func (c *call) tryTokens(ctx context.Context) (at *sequencePart, err error) {
	begun := c.begun != nil
	if !begun {
		if err := c.shareMended(ctx); err != nil {
			return nil, err
		}
	}
	defer func() {
		if c.ride == nil {
			c.change.unshare()
		}
	}()
	if !begun {
		at, err = c.bring(ctx)
	}
	if err == nil && c.attends {
		if err = c.run(ctx); err != nil {
			c.endFollow(c.ride)
			at = c.full(c.ride, err)
		}
	}
	if err != nil {
		c.ride = nil
		return at, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lengths[c.layer] = c.length + c.k.L // which copies have, or follow to take
	c.taken[c.layer] = c.lengths[c.layer]
	return nil, nil
}

// shareMended begins to append, when nothing is to be cut. Where a copy is catching up it waits for
// a moment first.
func (s *Sequence) shareMended(ctx context.Context) error {
	s.mu.Lock()
	pause := s.pause
	s.mu.Unlock()
	if pause != nil {
		select {
		case <-pause.Done():
		case <-ctx.Done():
		}
	}
	for {
		if err := s.mend(ctx); err != nil {
			return err
		}
		if err := s.change.share(ctx); err != nil {
			return err
		}
		if !s.isBroken() {
			return nil
		}
		s.change.unshare()
	}
}

// bring appends what copies have not yet, but the last message rides with the queries if it can.
// With an error it returns the part that has it.
func (c *call) bring(ctx context.Context) (at *sequencePart, err error) {
	c.ride = nil
	last, err := c.lastMessage()
	if err == nil {
		at, err = c.appendUntil(ctx, last)
	}
	if err != nil || !c.attends {
		return at, err
	}
	if last < c.k.L {
		if c.ride, err = c.message(ctx, last); err != nil {
			return nil, err
		}
	}
	if err = c.lookAgain(); err != nil {
		return nil, err
	}
	if c.carries() {
		return nil, nil
	}
	c.ride = nil
	return c.appendUntil(ctx, c.k.L)
}

// lastMessage is the number of the token that the last message begins with, or the end if none is
// to ride.
func (c *call) lastMessage() (at int, err error) {
	for at, err = c.brought(); err == nil && at < c.k.L; {
		n := c.messageLength(at)
		if c.attends && at+n == c.k.L {
			break
		}
		at += n
	}
	return at, err
}

// carries reports whether a request takes the ride to where the end is: the end is asked, and once.
func (c *call) carries() bool {
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

// appendUntil appends those tokens that copies have not yet, up to number end. A message is of one
// part. With an error it returns the part that has it. The call shares change.
func (c *call) appendUntil(ctx context.Context, end int) (*sequencePart, error) {
	at, err := c.brought()
	for err == nil && at < end {
		var r *ride
		if r, err = c.message(ctx, at); err != nil {
			return nil, err
		}
		if err = c.toAll(ctx, r); err != nil {
			return r.part, err
		}
		at += int(r.request.tokens())
		locked(&c.mu, func() { c.taken[c.layer] = c.length + at })
	}
	return nil, err
}

// brought is how many of the tokens copies have.
func (c *call) brought() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.lengths[c.layer]; now != c.length {
		return 0, fail(attn.ErrLength, "layer %d has %d tokens, want %d: it was truncated meanwhile",
			c.layer, now, c.length)
	}
	return c.taken[c.layer] - c.length, nil
}

// message is tokens from number at on, and the part that they go to.
func (c *call) message(ctx context.Context, at int) (*ride, error) {
	p, err := c.part(ctx, (c.length+at)/c.tokens)
	if err != nil {
		return nil, err
	}
	return c.messageTo(p, at, c.messageLength(at))
}

// messageTo is n tokens from number at on, which go to a part.
func (c *call) messageTo(p *sequencePart, at, n int) (_ *ride, err error) {
	r := appendRequest{epoch: p.epoch, layer: uint32(c.layer), position: (c.length + at) % c.tokens}
	if r.pieces, err = c.pieces(at, n, r.position); err != nil {
		return nil, err
	}
	return &ride{part: p, request: r}, nil
}
