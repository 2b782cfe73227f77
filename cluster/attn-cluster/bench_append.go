package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// appendPiece is how many tokens a call of Append has in measurements.
const appendPiece = 16384

// measureAppends prints how fast tokens come to workers: with one copy and two, in each format.
func (b *bench) measureAppends(ctx context.Context) error {
	fmt.Fprintln(b.w, "| tokens | copies | format | bytes a token | sent a copy | time | "+
		"MiB/s a copy |\n|"+strings.Repeat("---:|", 7))
	for _, tokens := range b.tokens {
		for copies := 1; copies <= 2; copies++ {
			if err := b.measureCopies(ctx, tokens, copies); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureCopies prints rows of a number of copies, each on a worker.
func (b *bench) measureCopies(ctx context.Context, tokens, copies int) error {
	s := shape{layers: 1, heads: 8, kvHeads: 2, dim: 64}
	l, err := startLocal(ctx, localConfig{workers: copies, threads: 1,
		memory: 2*s.bytes(tokens) + 64<<20, client: cluster.ClientConfig{Copies: copies}})
	if err != nil {
		return err
	}
	defer l.close()
	for _, s.format = range []attn.Format{attn.F32, attn.F16, attn.BF16, attn.I8, attn.I4} {
		if err := b.measureAppend(ctx, l, s, tokens, copies); err != nil {
			return err
		}
	}
	return nil
}

// measureAppend prints the quickest of a few times of appending tokens.
func (b *bench) measureAppend(ctx context.Context, l *local, s shape, tokens, copies int) error {
	t, err := newTwin(l, s, 0, 1)
	if err != nil {
		return err
	}
	defer t.close()
	k, v := t.tensor(appendPiece, s.kvHeads), t.tensor(appendPiece, s.kvHeads)
	least := time.Duration(1 << 62)
	before := l.link.Conn().Stats().OutBytes
	for range b.steps {
		start := time.Now()
		for at := 0; at < tokens; at += appendPiece {
			n := min(appendPiece, tokens-at)
			if err := t.far.Append(ctx, 0, k.Slice(0, n), v.Slice(0, n)); err != nil {
				return err
			}
		}
		least = min(least, time.Since(start))
		if err := t.far.Truncate(ctx, 0); err != nil {
			return err
		}
	}
	sent := (l.link.Conn().Stats().OutBytes - before) / uint64(b.steps*copies)
	fmt.Fprintf(b.w, "| %d | %d | %v | %d | %s | %v | %.0f |\n", tokens, copies, s.format,
		s.bytes(1), size(int64(sent)), round(least),
		float64(s.bytes(tokens))/(1<<20)/least.Seconds())
	return nil
}
