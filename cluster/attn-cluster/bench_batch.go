package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
	"github.com/seed-1415985d/attn/internal/measure"
)

// batchHeader writes the header of the rows of measureBatch.
func batchHeader(w io.Writer, batch int) {
	fmt.Fprintf(w, "| tokens | workers | step of one | tokens/s | steps of %d | tokens/s | "+
		"times one | attention of %d | at most |\n|%s\n", batch, batch, strings.Repeat("---:|", 9))
}

// measureBatch prints a row: steps of one sequence, and of a batch, in turns.
func (b *bench) measureBatch(ctx context.Context, tokens, workers int) error {
	s := shape{layers: 1, heads: 8, kvHeads: 2, dim: 64, format: attn.F32}
	l, err := startLocal(ctx, localConfig{workers: workers, threads: 1,
		memory: int64(b.batch+1) * (2*s.bytes(tokens) + 32<<20), client: cluster.ClientConfig{
			Segments: segments(tokens), Copies: min(2, workers)}})
	if err != nil {
		return err
	}
	defer l.close()
	twins, err := b.twins(ctx, l, s, tokens)
	defer func() {
		for _, t := range twins {
			t.close()
		}
	}()
	if err != nil {
		return err
	}
	pool := attn.NewPool(min(workers, runtime.GOMAXPROCS(0)))
	defer pool.Close()
	var near time.Duration
	all, err := b.rounds(ctx, func() (time.Duration, error) {
		alone, _, err := stepTogether(ctx, l, pool, twins[b.batch:])
		return alone, err
	}, func() (together time.Duration, err error) {
		together, near, err = stepTogether(ctx, l, pool, twins[:b.batch])
		return together, err
	}, func() (time.Duration, error) {
		return near, nil
	})
	return b.row(ctx, err, len(all[0]), func() {
		b.printBatch(tokens, workers, all[0], all[1], all[2])
	})
}

// printBatch prints a row. Derived columns use p50; a batch is at most as fast as its attention.
func (b *bench) printBatch(tokens, workers int, one, many, attention []time.Duration) {
	p50 := func(all []time.Duration) float64 { return measure.Median(all).Seconds() }
	two := func(all []time.Duration) string {
		return fmt.Sprintf("%v, %v", round(measure.Quantile(all, 0)), round(measure.Median(all)))
	}
	n := float64(b.batch)
	fmt.Fprintf(b.w, "| %d | %d | %s | %.0f | %s | %.0f | %.1f | %s | %.1f |\n", tokens, workers,
		two(one), 1/p50(one), two(many), n/p50(many), n*p50(one)/p50(many), two(attention),
		n*p50(one)/p50(attention))
}

// twins returns the sequences of a batch and, last, a single one. In this process they are in one
// store, because their attention is one call.
func (b *bench) twins(ctx context.Context, l *local, s shape, tokens int) (all []*twin, err error) {
	for i := range b.batch + 1 {
		pages := 0
		if i == 0 {
			pages = (b.batch + 1) * (tokens/attn.Block + 2) * attn.Block
		}
		t, err := newTwin(l, s, pages, uint64(i))
		if err != nil {
			return all, err
		}
		if all = append(all, t); i > 0 {
			t.near[0] = all[0].stores[0].NewSequence()
		}
		if err := b.fill(ctx, t, tokens); err != nil {
			return all, err
		}
	}
	return all, nil
}

// stepTogether measures a step of some sequences and their attention on one machine, and compares
// the bits.
func stepTogether(ctx context.Context, l *local, pool *attn.Pool, twins []*twin) (far,
	near time.Duration, err error) {
	t, n := twins[0], len(twins)
	q, k, v := t.tensor(n, t.heads), t.tensor(n, t.kvHeads), t.tensor(n, t.kvHeads)
	out := func() attn.Tensor {
		return attn.BLHD(make([]float32, n*t.heads*t.dim), 1, n, t.heads, t.dim)
	}
	var seqs []*cluster.Sequence
	var same []*attn.Sequence
	for _, t := range twins {
		seqs, same = append(seqs, t.far), append(same, t.near[0])
	}
	got, want, opt := out(), out(), &attn.Options{Causal: attn.BottomRight}
	start := time.Now()
	err = l.client.Steps(ctx, 0, got, q, k, v, seqs, opt)
	far = time.Since(start)
	for i := 0; i < n && err == nil; i++ {
		err = same[i].Append(k.Slice(i, i+1), v.Slice(i, i+1))
	}
	if err != nil {
		return far, 0, err
	}
	opt.QueryLens = slices.Repeat([]int{1}, n)
	start = time.Now()
	err = pool.AttendSequences(want, q, same, opt)
	near = time.Since(start)
	if err == nil {
		err = sameBits("output", got.Data, want.Data)
	}
	return far, near, err
}

// fill appends tokens so that the steps end with the given number of tokens.
func (b *bench) fill(ctx context.Context, t *twin, tokens int) error {
	for at, n := 0, 0; at < tokens-b.steps-warm; at += n {
		n = min(4096, tokens-b.steps-warm-at)
		if err := t.append(ctx, 0, n); err != nil {
			return err
		}
	}
	return nil
}
