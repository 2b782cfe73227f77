package cluster

import (
	"context"
	"slices"
	"sync"
	"time"
)

// follow ends a call that appends: it gives the layer back to others when all copies that are still
// counted on have what rides, and change, which is shared until then.
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
	r.whenLanded(func() { // nothing is sent again that flies
		late.Stop()
		once()
	})
}

// followAll sends what rides to the copies that have not taken it. Who does not take it is given up
// and made again, as after an append.
func (s *Sequence) followAll(r *ride) {
	ctx, end := s.begin(context.Background())
	defer end()
	if s.toRest(ctx, r, r.outcomes()) != nil {
		s.setBackWithout(r) // if no copy is left, the next call says so
	}
}

// beginFollow lets copies follow to take what a step has brought to one. If that has not all that
// copies follow to take in other layers, no copy may have all: then all take this first, as after
// an append.
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

// tryFollow lets copies follow to take what rides, if one has it with all that they follow to take
// in other layers, or in any case, and reports whether they do.
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

// endFollow ends that copies follow to take what rides, if they do.
func (s *Sequence) endFollow(r *ride) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r != nil && s.follows[r.request.layer] == r {
		close(r.followed)
		s.follows[r.request.layer] = nil
	}
}

// followsBeside reports whether something is so of what copies of a part follow to take in other
// layers. The lock is held.
func (s *Sequence) followsBeside(r *ride, so func(f *ride) bool) bool {
	return slices.ContainsFunc(s.follows, func(f *ride) bool {
		return f != nil && f != r && f.part == r.part && so(f)
	})
}

// standIn reports whether nothing that steps have brought to other layers is lost with some copies,
// in the place of which there are others: for each there is one that is counted on and has all that
// it has. Locks of the sequence and of the client are held.
func (s *Sequence) standIn(r *ride, substitutes, copies []*partCopy) bool {
	return r == nil || !slices.ContainsFunc(copies, func(x *partCopy) bool {
		return x.counts() && !slices.ContainsFunc(substitutes, func(y *partCopy) bool {
			return y.counts() && !s.followsBeside(r, func(f *ride) bool { return f.isIn(x) && !f.isIn(y) })
		})
	})
}

// setBackWithout counts no more on copies that do not take what rides, if others have it.
func (s *Sequence) setBackWithout(r *ride) {
	defer s.lockAll()()
	for _, x := range r.part.copies {
		if x.counts() && !r.isIn(x) && s.standIn(r, r.holders(), []*partCopy{x}) {
			s.client.setBack(x)
		}
	}
}

// lockSettled locks the sequence when no copies follow in a layer: all have its tokens.
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
