package linear

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/limits"
)

var benchConfigs = []Config{
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: GatedDelta},
	{Heads: 16, KeyDim: 64, ValueDim: 64, Rule: GatedDelta},
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: Gated},
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: GatedDelta, ChannelDecay: true},
}

// products are the multiply-adds of the definition for some tokens of a head: sums over the matrix,
// pairs of a chunk, updates.
func products(c Config, n int) float64 {
	chain := func(rows int) float64 { // pairs of a chunk, and what they take of updates
		return float64(rows) * float64(c.KeyDim+c.ValueDim)
	}
	state := float64(c.KeyDim) * float64(c.ValueDim)
	perChunk := 16*state + 16*state + chain(136)
	if c.Rule.corrects() {
		perChunk += 16*state + chain(120)
	}
	return perChunk * float64(n) / Chunk
}

// BenchmarkPrefill reports GFLOP/s beside the limit of one core, of the multiply-adds of the
// definition.
func BenchmarkPrefill(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 2048
	for _, workers := range []int{1, 2} {
		var p *attn.Pool
		if workers > 1 {
			p = attn.NewPool(workers)
			defer p.Close()
		}
		for _, c := range benchConfigs {
			b.Run(fmt.Sprintf("%s/workers=%d", name(c), workers), func(b *testing.B) {
				x := randomTokens(b, r, c, n, 1)
				s, dst := newState(b, c), zeros(c.Heads, n, c.ValueDim)
				limit := limits.FMA(limits.For(attn.Implementation()), workers, limits.Burst)
				for b.Loop() {
					s.Reset()
					must(b, x.append(p, s, dst))
				}
				rate := 2 * products(c, n) * float64(c.Heads) * float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(rate/1e9, "GFLOP/s")
				b.ReportMetric(100*rate/limit, "%limit")
			})
		}
	}
}

// BenchmarkDecode takes a token at a time of 32 states, beside reading the matrices and a chunk's
// rows.
func BenchmarkDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range benchConfigs {
		c.Heads = 32
		b.Run(name(c), func(b *testing.B) {
			const n = 64
			x := randomTokens(b, r, c, n, 1)
			s, dst := newState(b, c), zeros(c.Heads, 1, c.ValueDim)
			var parts [n]tokens
			for i := range parts {
				parts[i] = x.slice(i, i+1)
			}
			for i := 0; b.Loop(); i++ {
				must(b, parts[i%n].append(nil, s, dst))
			}
			took := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(bytesOfToken(s))/took/1e9, "GB/s")
		})
	}
	b.Run("read", func(b *testing.B) {
		s := newState(b, Config{Heads: 32, KeyDim: 128, ValueDim: 128, Rule: GatedDelta})
		x := make([]float32, bytesOfToken(s)/4)
		for b.Loop() {
			sink += attn.Max(x)
		}
		b.ReportMetric(float64(4*len(x))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	})
}

// bytesOfToken is what a token reads: the matrices, the keys of a chunk, and the updates of the
// rows before it, 8 on average.
func bytesOfToken(s *State) int {
	return 4 * s.Heads * (s.layout.matrix + Chunk*s.KeyDim + Chunk/2*s.width())
}

var sink float32
