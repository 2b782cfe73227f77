package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// appendPiece is the number of tokens of a call of Append in measurements.
const appendPiece = 16384

// measureAppends prints how fast tokens reach workers: with one copy and two, in each format.
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

// measureCopies prints rows for a number of copies, each on a worker.
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

// measureAppend prints the fastest of several runs of appending tokens.
func (b *bench) measureAppend(ctx context.Context, l *local, s shape, tokens, copies int) error {
	t, err := newTwin(l, s, 0, 1)
	if err != nil {
		return err
	}
	defer t.close()
	k, v := t.tensor(appendPiece, s.kvHeads), t.tensor(appendPiece, s.kvHeads)
	least := time.Duration(1 << 62)
	all, sent := 0, uint64(0)
	for ; err == nil && all < b.steps; all++ {
		before, start := l.link.Conn().Stats().OutBytes, time.Now()
		if err = appendAll(ctx, t.far, k, v, tokens); err != nil {
			break
		}
		least, sent = min(least, time.Since(start)), sent+l.link.Conn().Stats().OutBytes-before
		err = t.far.Truncate(ctx, 0)
	}
	return b.row(ctx, err, all, func() {
		fmt.Fprintf(b.w, "| %d | %d | %v | %d | %s | %v | %.0f |\n", tokens, copies, s.format,
			s.bytes(1), size(int64(sent/uint64(all*copies))), round(least),
			float64(s.bytes(tokens))/(1<<20)/least.Seconds())
	})
}

// appendAll appends some tokens, in calls with all tokens of k and v.
func appendAll(ctx context.Context, s *cluster.Sequence, k, v attn.Tensor, tokens int) error {
	for at := 0; at < tokens; at += k.L {
		n := min(k.L, tokens-at)
		if err := s.Append(ctx, 0, k.Slice(0, n), v.Slice(0, n)); err != nil {
			return err
		}
	}
	return nil
}
