package cluster

import (
	"context"
	"sync"
	"time"
)

// pace limits network traffic to a number of bytes a second on average. The next piece may be sent
// when the time of the pieces before it is over, so pieces may have any size, and their size need
// not be known before.
type pace struct {
	rate int64 // bytes a second

	mu   sync.Mutex
	free time.Time // when the next piece may be sent
}

// wait returns the time until the next piece may be sent.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.free.Sub(now))
}

// went notes that some bytes were sent.
func (p *pace) went(bytes int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
}

// sleep waits for d, or returns the error of a context that ends before.
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
