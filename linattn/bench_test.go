package linattn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/limits"
)

var benchConfigs = []Config{
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: GatedDelta},
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: GatedDelta, ReadKeys: true},
	{Heads: 16, KeyDim: 64, ValueDim: 64, Rule: GatedDelta},
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: Gated},
	{Heads: 16, KeyDim: 128, ValueDim: 128, Rule: GatedDelta, ChannelDecay: true},
}

// products are the multiply-adds of the definition for some tokens of a head: sums over the matrix,
// pairs of a chunk, updates.
func products(c Config, n int) float64 {
	chain := func(rows int) float64 { // multiply-adds of a chunk's pairs: scores and updates
		return float64(rows) * float64(c.KeyDim+c.ValueDim)
	}
	state := float64(c.KeyDim) * float64(c.ValueDim)
	perChunk := 16*state + 16*state + chain(136)
	if c.Rule.corrects() {
		perChunk += 16*state + chain(120)
	}
	return perChunk * float64(n) / Chunk
}

// BenchmarkPrefill reports GFLOP/s and the limit of one core, of the multiply-adds of the
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

// BenchmarkDecode appends one token at a time to 32 states, and to 4, which fit the second-level
// cache. It also reports the time to read the matrices and a chunk's rows.
func BenchmarkDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, heads := range []int{32, 4} {
		for _, c := range benchConfigs {
			c.Heads = heads
			b.Run(name(c), func(b *testing.B) { decode(b, r, c, 1) })
		}
	}
	c := benchConfigs[0]
	c.Heads = 32
	b.Run("layers=48/"+name(c), func(b *testing.B) { decode(b, r, c, 48) })
}

// decode appends a token to the states of several layers in turn.
func decode(b *testing.B, r *rand.Rand, c Config, layers int) {
	const n = 64
	x := randomTokens(b, r, c, n, 1)
	states, dst := make([]*State, layers), zeros(c.Heads, 1, c.ValueDim)
	for i := range states {
		states[i] = newState(b, c)
	}
	var parts [n]tokens
	for i := range parts {
		parts[i] = x.slice(i, i+1)
	}
	for i := 0; b.Loop(); i++ {
		if err := parts[i%n].append(nil, states[i%layers], dst); err != nil {
			b.Fatal(err)
		}
	}
	bytes := layers * bytesOfToken(states[0])
	rate := float64(bytes/layers) * float64(b.N) / b.Elapsed().Seconds()
	memory, limit := limits.NewMemory(limits.For(attn.Implementation()), 1, bytes), 0.0
	for range 5 {
		limit = max(limit, memory.Read(), memory.ReadStreams())
	}
	b.ReportMetric(rate/1e9, "GB/s")
	b.ReportMetric(100*rate/limit, "%reading")
}

// bytesOfToken is what a token reads: the matrices, the keys of a chunk, and the updates of the
// rows before it, 8 on average.
func bytesOfToken(s *State) int {
	return 4 * s.Heads * (s.layout.matrix + Chunk*s.KeyDim + Chunk/2*s.width())
}
