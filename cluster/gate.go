package cluster

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// The order of locks: the holder of a lock acquires only locks that come after it.
//
//	client     Sequence.layers: gates; sequencePart.moving: a channel; Sequence.mended,
//	           Sequence.change and Sequence.grow: gates; Client.levelling;
//	           Sequence.mu, Client.mu, ride.mu
//	worker     part.copying, Worker.copying, Worker.threads: channels;
//	           Worker.mu, part.mu, partLayer.mu, group.mu, arena.mu, flight.mu, pace.mu
//	transport  natsServer.mu, natsName.mu, NATS.mu, natsLink.gate, natsLink.mu, natsWire.mu
//
// Gates and channels are held during requests, so waiting for one needs a context. But
// Worker.threads is held only while something is computed, which ends by itself, and nobody waits
// for Worker.copying and Client.levelling. Mutexes are held while something is noted or computed,
// and never across a request. In the simulation, a call that runs out of ample time although
// nothing fails is an error, which verifies the order.

// gate is a lock that several share or one owns. Waiting for it ends with a context, because its
// holder may wait for a worker.
type gate struct{ places *semaphore.Weighted }

// places is the number of holders that may share a gate.
const places = 1 << 30

func newGate() gate { return gate{semaphore.NewWeighted(places)} }

func (g gate) share(ctx context.Context) error { return g.acquirePlaces(ctx, 1) }
func (g gate) own(ctx context.Context) error   { return g.acquirePlaces(ctx, places) }
func (g gate) tryOwn() bool                    { return g.places.TryAcquire(places) }
func (g gate) tryShare() bool                  { return g.places.TryAcquire(1) }
func (g gate) unshare()                        { g.places.Release(1) }
func (g gate) disown()                         { g.places.Release(places) }

func (g gate) acquirePlaces(ctx context.Context, n int64) error {
	if err := g.places.Acquire(ctx, n); err != nil {
		return fail(ErrUnavailable, "waiting for other calls of the sequence: %v", err)
	}
	return nil
}

// locked runs f, which is short, with a mutex.
func locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

// lockAll locks a sequence and its client, which the sequence's copies belong to.
func (s *Sequence) lockAll() (unlock func()) {
	s.mu.Lock()
	s.client.mu.Lock()
	return func() {
		s.client.mu.Unlock()
		s.mu.Unlock()
	}
}
