package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn/models/lm"
)

// clients are clients that send a request after each answer, and what they measure.
type clients struct {
	*benchFlags
	count   int // of clients
	answers int
	lasted  time.Duration

	mu     sync.Mutex
	asking int       // answers that have begun and not ended
	ended  []float64 // the times at which answers ended, in seconds
	asked  []asked
	err    error
}

// asked is a request for an answer.
type asked struct {
	at, first float64 // when it was sent, and how long its first token took
	before    int     // answers that had ended before,
	queue     int     // and how many more had to end before it got a place
}

// last measures clients for a time, in turns with as many clients as a step has places.
func (o *benchFlags) last(ctx context.Context, out io.Writer, m *lm.Model) error {
	const turns = 4
	few := &clients{benchFlags: o, count: min(o.clients, o.Sequences)}
	many := &clients{benchFlags: o, count: o.clients}
	var alone, waited, explained []float64
	for turn := range 2 * turns {
		c := []*clients{few, many}[turn%2]
		if err := c.ask(ctx, m, o.lasting/turns); err != nil {
			return err
		}
		if c == few {
			alone = append(alone, c.firsts()...)
			continue
		}
		own := quantile(alone, 0.5) // the time of a prompt in a batch without a queue
		waited = append(waited, c.firsts()...)
		for _, a := range c.asked {
			if end := a.before + a.queue; end <= len(c.ended) {
				until := 0.0
				if a.queue > 0 {
					until = max(0, c.ended[end-1]-a.at)
				}
				explained = append(explained, until+own)
			}
		}
	}
	fmt.Fprintf(out, "%d clients, a prompt and an answer at a time for %v: %.1f tokens/s of answers, "+
		"%.3f of what %d get\n", many.count, many.lasted.Round(time.Second),
		many.rate()*float64(o.decoded), many.rate()/few.rate(), few.count)
	fmt.Fprintf(out, "  first tokens after %.3f s (median) and %.3f s (99 %%); the queue and prompts "+
		"explain %.3f and %.3f s\n", quantile(waited, 0.5), quantile(waited, 0.99),
		quantile(explained, 0.5), quantile(explained, 0.99))
	return nil
}

// rate returns answers a second.
func (c *clients) rate() float64 { return float64(c.answers) / c.lasted.Seconds() }

// firsts returns the times to first tokens.
func (c *clients) firsts() (all []float64) {
	for _, a := range c.asked {
		all = append(all, a.first)
	}
	return all
}

// ask lets clients send requests for some time. Answers that begin before its end are completed.
func (c *clients) ask(ctx context.Context, m *lm.Model, lasting time.Duration) error {
	start := time.Now()
	c.ended, c.asked = nil, nil
	var wait sync.WaitGroup
	for range c.count {
		wait.Go(func() {
			for time.Since(start) < lasting && c.one(ctx, m, start) {
			}
		})
	}
	wait.Wait()
	c.lasted += time.Since(start)
	return c.err
}

// one is one request and its answer. It reports whether there was no error.
func (c *clients) one(ctx context.Context, m *lm.Model, start time.Time) bool {
	c.mu.Lock()
	a := asked{at: time.Since(start).Seconds(), before: len(c.ended),
		queue: max(0, c.asking+1-c.Sequences)}
	c.asking++
	number := 2 * c.answers // so that no two requests have the same prompt
	if c.count == c.clients {
		number++
	}
	c.answers++
	c.mu.Unlock()
	first, _, err := c.benchFlags.one(ctx, m, number)
	a.first = first
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking--
	c.ended, c.asked = append(c.ended, time.Since(start).Seconds()), append(c.asked, a)
	if err != nil {
		c.err = err
	}
	return err == nil
}

// quantile returns the number below which a share of x is.
func quantile(x []float64, share float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(share*float64(len(x))))]
}
