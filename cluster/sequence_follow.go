package cluster

import (
	"context"
	"slices"
	"sync"
	"time"
)

// follow ends a call that appends: it releases the layer, and change, which is shared until then,
// when all usable copies have the message that rides.
func (c *call) follow() {
	r := c.ride
	if r == nil {
		c.layers[c.layer].disown()
		return
	}
	end := func() {
		c.endFollow(r)
		c.change.unshare()
		c.layers[c.layer].disown()
	}
	if len(c.missing(r)) == 0 {
		end()
		return
	}
	once := sync.OnceFunc(func() {
		if len(c.missing(r)) == 0 || !c.client.background(func() {
			defer end()
			c.followAll(r)
		}) {
			end()
		}
	})
	late := time.AfterFunc(c.client.config.Patience, once)
	r.whenLanded(func() { // nothing is sent again while it is flying
		late.Stop()
		once()
	})
}

// followAll sends the message that rides to the copies without it. A copy that does not apply it is
// given up and made again, as after an append.
func (s *Sequence) followAll(r *ride) {
	ctx, end := s.beginCall(context.Background())
	defer end()
	if s.toRest(ctx, r, r.outcomes()) != nil {
		s.setBackWithout(r) // if no copy is left, the next call returns the error
	}
}

// beginFollow lets copies follow, that is, receive in the background the tokens that a step has
// brought to one copy. If that copy lacks tokens of other layers that copies still follow, perhaps
// no copy has all: then all copies receive these tokens first, as after an append.
func (c *call) beginFollow(ctx context.Context) error {
	r := c.ride
	if r == nil || c.tryFollow(r, false) {
		return nil
	}
	if err := c.toRest(ctx, r, r.outcomes()); err != nil {
		return err
	}
	c.tryFollow(r, true)
	return nil
}

// tryFollow lets copies follow a ride, if one copy has it and all other layers' rides that copies
// follow, or in any case, and reports whether they do.
func (s *Sequence) tryFollow(r *ride, inAnyCase bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.follows[r.request.layer]
	if *at == r {
		return true
	}
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if !inAnyCase && !slices.ContainsFunc(r.part.copies, func(x *partCopy) bool {
		return x.counts() && r.isIn(x) && !s.followsBeside(r, func(f *ride) bool { return !f.isIn(x) })
	}) {
		return false
	}
	r.followed, *at = make(chan struct{}), r
	return true
}

// endFollow ends following a ride, if copies follow it.
func (s *Sequence) endFollow(r *ride) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r != nil && s.follows[r.request.layer] == r {
		close(r.followed)
		s.follows[r.request.layer] = nil
	}
}

// followsBeside reports whether so is true of a ride in another layer that copies of the part
// follow. The lock is held.
func (s *Sequence) followsBeside(r *ride, so func(f *ride) bool) bool {
	return slices.ContainsFunc(s.follows, func(f *ride) bool {
		return f != nil && f != r && f.part == r.part && so(f)
	})
}

// standIn reports whether copies can be replaced by substitutes without losing tokens that steps
// have brought to other layers: for each ride there must be a usable substitute that has it. The
// locks of the sequence and of the client are held.
func (s *Sequence) standIn(r *ride, substitutes, copies []*partCopy) bool {
	return r == nil || !slices.ContainsFunc(copies, func(x *partCopy) bool {
		return x.counts() && !slices.ContainsFunc(substitutes, func(y *partCopy) bool {
			return y.counts() && !s.followsBeside(r, func(f *ride) bool { return f.isIn(x) && !f.isIn(y) })
		})
	})
}

// setBackWithout puts copies without the ride in reserve, if others have it.
func (s *Sequence) setBackWithout(r *ride) {
	defer s.lockAll()()
	for _, x := range r.part.copies {
		if x.counts() && !r.isIn(x) && s.standIn(r, r.holders(), []*partCopy{x}) {
			s.client.setBack(x)
		}
	}
}

// lockSettled locks the sequence once no copies follow in a layer, so that all have its tokens.
func (s *Sequence) lockSettled(ctx context.Context, layer int) error {
	for {
		s.mu.Lock()
		follow := s.follows[layer]
		if follow == nil {
			return nil
		}
		s.mu.Unlock()
		select {
		case <-follow.followed:
		case <-ctx.Done():
			return fail(ErrUnavailable, "waiting for copies of layer %d: %v", layer, ctx.Err())
		}
	}
}
