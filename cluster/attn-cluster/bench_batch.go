package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// batchHeader is that of rows of measureBatch.
func batchHeader(w io.Writer, batch int) {
	fmt.Fprintf(w, "| tokens | workers | step of one | tokens/s | steps of %d | tokens/s | times one "+
		"|\n|%s\n", batch, strings.Repeat("---:|", 7))
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
	var twins []*twin
	for i := range b.batch + 1 { // the last one is the one that is alone
		t, err := newTwin(l, s, tokens, uint64(i))
		if err != nil {
			return err
		}
		defer t.close()
		twins = append(twins, t)
		if err := b.fill(ctx, t, tokens); err != nil {
			return err
		}
	}
	var one, many []time.Duration
	for i := range warm + b.steps {
		alone, err := stepTogether(ctx, l, twins[b.batch:])
		if err != nil {
			return err
		}
		all, err := stepTogether(ctx, l, twins[:b.batch])
		if err != nil {
			return err
		}
		if i >= warm {
			one, many = append(one, alone), append(many, all)
		}
	}
	p50 := func(all []time.Duration) float64 { return quantile(all, 0.5).Seconds() }
	two := func(all []time.Duration) string {
		return fmt.Sprintf("%v, %v", round(quantile(all, 0)), round(quantile(all, 0.5)))
	}
	fmt.Fprintf(b.w, "| %d | %d | %s | %.0f | %s | %.0f | %.1f |\n", tokens, workers, two(one),
		1/p50(one), two(many), float64(b.batch)/p50(many), float64(b.batch)*p50(one)/p50(many))
	return nil
}

// stepTogether is how long a step of some sequences takes, whose bits it compares with one machine.
func stepTogether(ctx context.Context, l *local, twins []*twin) (time.Duration, error) {
	t, n := twins[0], len(twins)
	q, k, v := t.tensor(n, t.heads), t.tensor(n, t.kvHeads), t.tensor(n, t.kvHeads)
	out := func(n int) attn.Tensor {
		return attn.BLHD(make([]float32, n*t.heads*t.dim), 1, n, t.heads, t.dim)
	}
	var seqs []*cluster.Sequence
	for _, t := range twins {
		seqs = append(seqs, t.far)
	}
	got, opt := out(n), &attn.Options{Causal: attn.BottomRight}
	start := time.Now()
	err := l.client.Steps(ctx, 0, got, q, k, v, seqs, opt)
	took := time.Since(start)
	for i, t := range twins {
		want := out(1)
		if err == nil {
			err = t.near[0].Append(k.Slice(i, i+1), v.Slice(i, i+1))
		}
		if err == nil {
			err = t.pool.AttendSequences(want, q.Slice(i, i+1), t.near[:1], opt)
		}
		if err == nil {
			err = sameBits("output", got.Data[i*len(want.Data):][:len(want.Data)], want.Data)
		}
	}
	return took, err
}

// fill brings a sequence to where its steps end with a number of tokens.
func (b *bench) fill(ctx context.Context, t *twin, tokens int) error {
	for at, n := 0, 0; at < tokens-b.steps-warm; at += n {
		n = min(4096, tokens-b.steps-warm-at)
		if err := t.append(ctx, 0, n); err != nil {
			return err
		}
	}
	return nil
}
