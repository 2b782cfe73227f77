package cluster

import (
	"context"
	"sync"
	"time"
)

// follow ends a step: it gives the layer back to others when all copies that are still counted on
// have what rides, and change, which is shared until then.
func (s *Sequence) follow(layer int, r *ride) {
	if r == nil {
		s.layers[layer].disown()
		return
	}
	end := func() {
		s.mu.Lock()
		close(s.follows[layer])
		s.follows[layer] = nil
		s.mu.Unlock()
		s.change.unshare()
		s.layers[layer].disown()
	}
	rest := func() {
		if len(s.missing(r)) == 0 || !s.client.background(func() {
			defer end()
			s.followAll(r)
		}) {
			end()
		}
	}
	if len(s.missing(r)) == 0 {
		end()
		return
	}
	once := sync.OnceFunc(rest)
	late := time.AfterFunc(s.client.config.Patience, once)
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
	// An error is that no copy is left, or that the sequence is released: the next call says so.
	_ = s.toRest(ctx, r.part, r.encode(s.client.id), r.length(), r.outcomes())
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
		case <-follow:
		case <-ctx.Done():
			return fail(ErrUnavailable, "waiting for copies of layer %d: %v", layer, ctx.Err())
		}
	}
}
