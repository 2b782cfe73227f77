package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-1415985d/attn"
)

// BenchmarkSteps measures steps of sequences of 900 to 1000 tokens, including a NATS server and
// four workers in this process: with GOMAXPROCS=1 it is processor time.
func BenchmarkSteps(b *testing.B) {
	const tokens = 900
	ctx, x := context.Background(), newBench(b, 4, ClientConfig{Segments: 1})
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var seqs []*Sequence
			for range n {
				s, err := x.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64})
				must(b, err)
				defer s.Release()
				must(b, s.Append(ctx, 0, x.tensor(2, tokens, 64), x.tensor(2, tokens, 64)))
				seqs = append(seqs, s)
			}
			q, k, v := x.tensor(8, n, 64), x.tensor(2, n, 64), x.tensor(2, n, 64)
			dst := attn.BLHD(make([]float32, n*8*64), 1, n, 8, 64)
			opt := &attn.Options{Causal: attn.BottomRight}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, x.client.Steps(ctx, 0, dst, q, k, v, seqs, opt))
				if i%100 < 99 {
					continue
				}
				b.StopTimer()
				for _, s := range seqs {
					must(b, s.Truncate(ctx, tokens))
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkStep is a step of a sequence of 16 parts of one worker, with all that belongs to it.
func BenchmarkStep(b *testing.B) {
	const tokens = 15*1024 + 900
	ctx, x := context.Background(), newBench(b, 1, ClientConfig{Segments: 1, Copies: 1})
	s, err := x.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64})
	must(b, err)
	defer s.Release()
	must(b, s.Append(ctx, 0, x.tensor(2, tokens, 64), x.tensor(2, tokens, 64)))
	q, k, v := x.tensor(8, 1, 64), x.tensor(2, 1, 64), x.tensor(2, 1, 64)
	dst := attn.BLHD(make([]float32, 8*64), 1, 1, 8, 64)
	opt := &attn.Options{Causal: attn.BottomRight}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		must(b, s.Step(ctx, 0, dst, q, k, v, opt))
		if i%100 < 99 {
			continue
		}
		b.StopTimer()
		must(b, s.Truncate(ctx, tokens))
		b.StartTimer()
	}
}
