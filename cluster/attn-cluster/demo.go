package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/internal/measure"
)

const demoAbout = `attn-cluster demo

Starts a NATS server and four workers, as processes on this machine, spreads a long sequence over
them, and decodes. Each output is compared with one machine, bit for bit. Meanwhile a worker is
killed, and restarts without its tokens.

`

// demo is the state of a demonstration.
type demo struct {
	*table
	local  *local
	tokens int // of the prompt
	steps  int // that are decoded
}

const demoWorkers = 4

func demoCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	fs := flags.New(demoAbout)
	quick := fs.Bool("quick", false, "use 32 Ki tokens instead of 256 Ki, and 16 steps instead of 50")
	d := &demo{table: newTable(stdout)}
	fs.IntVar(&d.tokens, "tokens", 0, "`number` of tokens before the first step (default 262144)")
	fs.IntVar(&d.steps, "steps", 0, "`number` of tokens to decode (default 50)")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	tokens, steps := 256<<10, 50
	if *quick {
		tokens, steps = 32<<10, 16
	}
	if d.tokens == 0 {
		d.tokens = tokens
	}
	if d.steps == 0 {
		d.steps = steps
	}
	if d.tokens < 16*attn.Segment || d.steps < 3 {
		return flags.Errorf("-tokens is %d and -steps %d, want at least %d and 3", d.tokens, d.steps,
			16*attn.Segment)
	}
	return d.run(ctx)
}

// segments returns the segments of a part for about 16 parts.
func segments(tokens int) int {
	n := 1
	for n < 16 && 32*n*attn.Segment <= tokens {
		n *= 2
	}
	return n
}

func (d *demo) run(ctx context.Context) (err error) {
	s := shape{layers: 1, heads: 8, kvHeads: 2, dim: 64}
	d.local, err = startLocal(ctx, localConfig{workers: demoWorkers, threads: 1,
		memory: 2*s.bytes(d.tokens) + 64<<20, client: cluster.ClientConfig{Segments: segments(d.tokens),
			Patience: 500 * time.Millisecond, Gone: 1500 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer d.local.close()
	d.say("A NATS server at %s and %d workers, each a process of one thread with %s kernels.",
		d.local.server.ClientURL(), demoWorkers, attn.Implementation())
	checked := 0
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		s.format, s.integers = format, format == attn.I8
		n, err := d.arithmetic(ctx, s)
		if err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
		checked += n
	}
	d.say("\nChecked: %d decoded tokens, outputs and LSE of 8 heads, have the bits of one machine, "+
		"in F32 and in I8 with\nIntegers; a worker was killed in each and no token was lost; all memory "+
		"was given back.", checked)
	return nil
}

// arithmetic shows one format.
func (d *demo) arithmetic(ctx context.Context, s shape) (checked int, err error) {
	t, err := newTwin(d.local, s, d.tokens+d.steps, 1)
	if err != nil {
		return 0, err
	}
	defer t.close()
	d.say("\n%v: %d tokens, 8 query heads over 2 of 64, %s a copy, two copies of each part of %d "+
		"tokens.",
		s, d.tokens, size(s.bytes(d.tokens)), segments(d.tokens)*attn.Segment)
	if err := d.fill(ctx, t); err != nil {
		return 0, err
	}
	steps, err := d.decode(ctx, t)
	if _, is := early(ctx, err); err == nil || is && len(steps) > 0 {
		d.summary(steps)
	}
	if err != nil {
		return 0, err
	}
	t.far.Release()
	return len(steps), d.local.empty(ctx)
}

// fill appends the prompt.
func (d *demo) fill(ctx context.Context, t *twin) error {
	start := time.Now()
	const piece = 4096
	for at := 0; at < d.tokens; at += piece {
		if err := t.append(ctx, 0, min(piece, d.tokens-at)); err != nil {
			if _, is := early(ctx, err); is {
				d.say("Spread %d of %d tokens in %.1f s.", at, d.tokens, time.Since(start).Seconds())
			}
			return err
		}
		d.draw(false, append([]string{fmt.Sprintf("%d of %d tokens", at+piece, d.tokens)},
			d.workerLines()...)...)
	}
	seconds := time.Since(start).Seconds()
	d.say("Spread in %.1f s, %s/s to each copy.", seconds,
		size(int64(float64(t.bytes(d.tokens))/seconds)))
	if d.live {
		return nil
	}
	if err := d.heard(ctx, 2*int64(d.tokens)); err != nil {
		return err
	}
	for _, line := range d.workerLines() {
		d.say("%s", line)
	}
	return nil
}

// heard waits until workers have announced that together they keep some tokens.
func (d *demo) heard(ctx context.Context, tokens int64) error {
	return eventually(ctx, time.Minute, func() error {
		var sum int64
		for _, w := range d.local.client.Workers() {
			sum += w.Tokens
		}
		if sum != tokens {
			return fmt.Errorf("workers keep %d tokens, want %d", sum, tokens)
		}
		return nil
	})
}

// decode does one step after another, each of a token.
func (d *demo) decode(ctx context.Context, t *twin) (steps []step, err error) {
	victim := ""
	for i := range d.steps {
		switch i {
		case d.steps / 3:
			if err := d.whole(ctx, t); err != nil {
				return steps, err
			}
			victim = d.fullest()
			d.local.kill(victim)
			d.say("Worker %s was killed.", victim)
		case 2 * d.steps / 3:
			if err := d.local.restart(ctx, victim); err != nil {
				return steps, err
			}
			d.say("Worker %s is back, without what it had.", victim)
		}
		s, err := t.step(ctx, 0, 1)
		if err != nil {
			return steps, fmt.Errorf("token %d: %w", i+1, err)
		}
		steps = append(steps, s)
		d.draw((i+1)%10 == 0 || i == 0 || i == d.steps/3, append([]string{fmt.Sprintf(
			"token %2d  keys %d  sent %s  received %s  cluster %-7v  one machine %-7v  same bits", i+1,
			d.tokens+i+1, size(s.sent), size(s.received), round(s.far), round(s.near))},
			d.workerLines()...)...)
	}
	return steps, nil
}

// whole waits until each part has two copies: a copy may have been given up because its worker was
// late.
func (d *demo) whole(ctx context.Context, t *twin) error {
	return eventually(ctx, time.Minute, func() error {
		if n := t.far.Missing(); n > 0 {
			return fmt.Errorf("%d copies are missing", n)
		}
		return nil
	})
}

// fullest returns the worker with the most tokens.
func (d *demo) fullest() string {
	var most cluster.Status
	for _, w := range sorted(d.local.client.Workers()) {
		if _, runs := d.local.workers[w.Worker]; runs && (most.Worker == "" || w.Tokens > most.Tokens) {
			most = w
		}
	}
	return most.Worker
}

// workerLines returns the workers' last announcements.
func (d *demo) workerLines() (lines []string) {
	for _, w := range sorted(d.local.client.Workers()) {
		lines = append(lines, fmt.Sprintf("  worker %s  %7d tokens  %8s  %6d calls", w.Worker, w.Tokens,
			size(w.Used), w.Calls))
	}
	return lines
}

// summary prints a summary of the steps of one format.
func (d *demo) summary(steps []step) {
	var far, near []time.Duration
	var sent, received []uint64
	for _, s := range steps {
		far, near = append(far, s.far), append(near, s.near)
		sent, received = append(sent, s.sent), append(received, s.received)
	}
	d.say("%d tokens with the bits of one machine. A step, p50 and p99: cluster %v and %v, one "+
		"machine %v and %v; sent %s, received %s.", len(steps), round(measure.Median(far)),
		round(measure.Quantile(far, 0.99)), round(measure.Median(near)),
		round(measure.Quantile(near, 0.99)), size(int64(measure.Median(sent))),
		size(int64(measure.Median(received))))
}
