package serve

import (
	"context"
	"sync"
	"time"
)

// gate bounds how many answers are computed and how many wait.
type gate struct {
	places, queue int
	turns         chan struct{} // holds one for each place in use
	mu            sync.Mutex
	inside        int           // answers that are computed or wait
	took          time.Duration // recent time of an answer
}

func newGate(places, queue int) *gate {
	return &gate{places: places, queue: queue, turns: make(chan struct{}, places)}
}

func (g *gate) most() int { return g.places + g.queue }

// enter admits all of some answers, or none.
func (g *gate) enter(answers int) error {
	g.mu.Lock()
	fits := g.inside+answers <= g.most()
	if fits {
		g.inside += answers
	}
	g.mu.Unlock()
	switch {
	case fits:
		return nil
	case answers > g.most():
		return invalid("", "the request is for %d answers, want at most %d at a time", answers, g.most())
	}
	return busy(g, "%d answers are computed and wait already, want at most %d", g.now(), g.most())
}

// leave lets answers out. took is their time, 0 for answers that were not computed.
func (g *gate) leave(answers int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside -= answers
	if took > 0 {
		g.took += (took - g.took) / 8
	}
}

// now returns the number of answers.
func (g *gate) now() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

// after returns in how many seconds there may be room.
func (g *gate) after() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	rounds := time.Duration(1 + g.inside/max(1, g.places))
	return int(min(60, max(1, (rounds*g.took).Seconds())))
}

// wait waits for a place, which done frees.
func (g *gate) wait(ctx context.Context) (done func(), err error) {
	select {
	case g.turns <- struct{}{}:
		return func() { <-g.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
