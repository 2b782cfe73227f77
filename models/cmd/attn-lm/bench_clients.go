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

// clients are what some clients get that ask again and again.
type clients struct {
	*benchFlags
	count   int // of clients
	answers int
	lasted  time.Duration

	mu     sync.Mutex
	asking int       // answers that have begun and not ended
	ended  []float64 // when answers did, in seconds
	asked  []asked
	err    error
}

// asked is an answer.
type asked struct {
	at, first float64 // when it was asked for, and how long its first token took
	before    int     // answers that had ended then,
	queue     int     // and how many more had to before this one had a place
}

// last measures clients that ask for a time, in turns with as many as have a place in a step.
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
		own := quantile(alone, 0.5) // which a batch that begins at once takes for its prompts
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

// rate is answers a second.
func (c *clients) rate() float64 { return float64(c.answers) / c.lasted.Seconds() }

// firsts are the times to first tokens.
func (c *clients) firsts() (all []float64) {
	for _, a := range c.asked {
		all = append(all, a.first)
	}
	return all
}

// ask lets clients ask for some time. Answers that begin before it is over are completed.
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

// one is an answer. It reports whether there was no error.
func (c *clients) one(ctx context.Context, m *lm.Model, start time.Time) bool {
	c.mu.Lock()
	a := asked{at: time.Since(start).Seconds(), before: len(c.ended),
		queue: max(0, c.asking+1-c.Sequences)}
	c.asking++
	number := 2 * c.answers // so that nobody has another one's prompt
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

// quantile is the number below which a share of some are.
func quantile(x []float64, share float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(share*float64(len(x))))]
}
