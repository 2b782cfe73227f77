package cluster

import (
	"context"
	"sync"
	"time"
)

// pace keeps what goes over a network to a number of bytes a second on average. Something may go as
// soon as what went before it has had its time; so pieces of any size go, and nobody is asked for
// how much they will be.
type pace struct {
	rate int64 // bytes a second

	mu   sync.Mutex
	free time.Time // from then on the next may go
}

// wait is how long nothing more is to go.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.free.Sub(now))
}

// went notes that some bytes have gone.
func (p *pace) went(bytes int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
}

// sleep waits for a while, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
