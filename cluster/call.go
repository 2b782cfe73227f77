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
// When it returns no error, every usable copy has the tokens, at least one for each part. A copy
// that did not receive them while another one did is made again in the background. If it returns an
// error, the layer has the same tokens as before.
func (s *Sequence) Append(ctx context.Context, layer int, k, v attn.Tensor) error {
	c := call{Sequence: s, layer: layer, appends: true, k: k, v: v}
	return c.runCall(ctx)
}

// Attend computes attention of queries over all tokens of a layer:
//
//	q   [1, H, L, HeadDim]     KVHeads divides H
//	dst [1, H, L, ValueDim]
//
// The result has the same bits as [attn.AttendSequences] over the same tokens on one machine.
// Options are as in [attn.Attend] with as many keys as the layer has tokens: with BottomRight the
// last query sees the last token, the other alignments use Offset. Mask, Bias and Blocks, of any
// size, are sent to the workers with the queries. LSE is filled. KeyLens, QueryLens and Weights are
// [attn.ErrUnsupported], a Tree and Keys [attn.ErrOption].
//
// If it returns an error, it has written nothing. The error is a [*LostError] if no copy of some
// tokens is left.
func (s *Sequence) Attend(ctx context.Context, layer int, dst, q attn.Tensor,
	opt *attn.Options) error {
	c := call{Sequence: s, layer: layer}
	c.ask(dst, q, opt)
	return c.runCall(ctx)
}

// Step is Append of k and v and then Attend of q, in one round trip: the tokens travel with the
// queries, and the worker that holds the end of the sequence appends them before it attends.
//
// Step returns when one copy of the end has the tokens, and the tokens of other layers' steps that
// not all copies have yet. The other copies receive them in the background: with a request that
// their worker gets anyway, or after it. Until all have them, or are given up and made again, the
// client keeps the tokens and resends them, and the next call that changes or reads the layer
// waits. So no call is answered by a copy without them, and if a worker dies meanwhile no more is
// lost than after an Append. If the client dies meanwhile, workers free all its tokens as usual.
//
// If it returns an error, it has written nothing, and the layer has the same tokens as before.
func (s *Sequence) Step(ctx context.Context, layer int, dst, q, k, v attn.Tensor,
	opt *attn.Options) error {
	c := call{Sequence: s, layer: layer, appends: true, k: k, v: v}
	c.ask(dst, q, opt)
	return c.runCall(ctx)
}

// call is a call on a layer: it appends tokens, answers queries, or both.
type call struct {
	*Sequence
	layer int

	appends bool
	k, v    attn.Tensor // tokens to append
	length  int         // tokens of the layer before them
	loose   bool        // tokens are sent as elements, which fit wherever a page is free
	ride    *ride       // the last message, if it goes with the queries

	attends  bool
	dst, q   attn.Tensor
	opt      *attn.Options
	keys     int
	offset   int           // position of query 0
	sent     *attn.Options // with window bounds that can be added to positions
	rows     int           // of a step
	unit     int           // most tokens that are asked for together, a part or all of it
	snapshot []callPart

	batched
}

// ask sets the queries of a call. It copies the options before it changes them.
func (c *call) ask(dst, q attn.Tensor, opt *attn.Options) {
	own := new(attn.Options)
	if opt != nil {
		*own = *opt
	}
	c.attends, c.dst, c.q, c.opt = true, dst, q, own
	c.offset, c.sent, c.unit = own.Offset, travelling(own), c.tokens
}

// runCall runs a call.
func (c *call) runCall(ctx context.Context) error {
	ctx, end := c.beginCall(ctx)
	defer end()
	if err := c.check(c.layer); err != nil {
		return err
	}
	if !c.appends {
		err := c.prepareQueries(ctx)
		if err == nil {
			c.mendSoon()
			err = c.computeRows(ctx)
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

// checkTokens verifies that k and v are tokens: their shape here, the rest by package attn, which
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

// prepare mends the sequence, and verifies that the layer, which the call owns, can receive tokens,
// and that the queries are valid.
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

// takeTokens appends, attends if there are queries, and then releases the layer. If no worker of a
// part has memory left, it makes room. After an error, copies are cut before anything else is
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
				continue // runs need adjacent pages
			}
			if err = c.makeRoom(ctx, full, err); err == nil {
				continue
			}
		}
		locked(&c.mu, func() { c.broken = true })
		return c.orReleased(err)
	}
}

// tryTokens appends the tokens that copies do not have yet, and attends. Afterwards the ride holds
// the tokens that some copies still lack; until they have them, change stays shared. With an error
// it returns the part that caused it.
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
		if err = c.computeRows(ctx); err != nil {
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
	c.lengths[c.layer] = c.length + c.k.L // copies have them, or receive them in the background
	c.taken[c.layer] = c.lengths[c.layer]
	return nil, nil
}

// shareMended shares change when nothing has to be cut. If a copy is catching up, it first waits
// for a moment.
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

// bring appends the tokens that copies do not have yet, except the last message if it can ride with
// the queries. With an error it returns the part that caused it.
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

// lastMessage returns the number of the first token of the message that rides, or the end if none
// does.
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

// carries reports whether a request can carry the ride: the end is asked, and only once.
func (c *call) carries() bool {
	return c.ride != nil && c.q.H > 0 && c.q.L > 0 && c.rows >= c.q.L &&
		c.visible(len(c.snapshot)-1, 0, c.q.L)
}

// full returns the part that has no room, if that is the error, and marks its copies as full.
func (s *Sequence) full(r *ride, err error) *sequencePart {
	if r == nil || !errors.Is(err, attn.ErrCapacity) {
		return nil
	}
	s.client.noteFull(s.missing(r))
	return r.part
}

// appendUntil appends the tokens that copies do not have yet, up to number end. A message has
// tokens of one part. With an error it returns the part that caused it. The call shares change.
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

// brought returns how many of the tokens copies have.
func (c *call) brought() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.lengths[c.layer]; now != c.length {
		return 0, fail(attn.ErrLength, "layer %d has %d tokens, want %d: it was truncated meanwhile",
			c.layer, now, c.length)
	}
	return c.taken[c.layer] - c.length, nil
}

// message returns the message of tokens from number at on, for their part.
func (c *call) message(ctx context.Context, at int) (*ride, error) {
	p, err := c.part(ctx, (c.length+at)/c.tokens)
	if err != nil {
		return nil, err
	}
	return c.messageTo(p, at, c.messageLength(at))
}

// messageTo returns the message of n tokens from number at on, for part p.
func (c *call) messageTo(p *sequencePart, at, n int) (_ *ride, err error) {
	r := appendRequest{epoch: p.epoch, layer: uint32(c.layer), position: (c.length + at) % c.tokens}
	if r.pieces, err = c.pieces(at, n, r.position); err != nil {
		return nil, err
	}
	return &ride{part: p, request: r}, nil
}
