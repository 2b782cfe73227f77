package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

const heads, kv, dim, width, ffn, tokens = 2, 1, 16, 32, 48, 40

// The program computes four calls over a cache with room for all, and over one that has to grow.
func main() {
	ample, scarce := residuals(1024), residuals(64)
	fmt.Println(slices.Equal(ample, scarce))
}

func residuals(capacity int) (all []float32) {
	r := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	packed := func(outputs, inputs int) *attn.Matrix {
		m, err := attn.PackMatrix(attn.BHLD(random(outputs*inputs), 1, 1, outputs, inputs),
			attn.MatrixConfig{Transposed: true})
		must(err)
		return m
	}
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: kv, HeadDim: dim, ValueDim: dim,
		Capacity: capacity})
	must(err)
	rope, err := nn.NewRope(nn.RopeConfig{Dim: dim, Base: 1e4})
	must(err)
	l := layer{qkv: packed((heads+2*kv)*dim, width), out: packed(width, heads*dim),
		gateUp: packed(2*ffn, width), down: packed(width, ffn), norm: random(width),
		ffnNorm: random(width), cache: cache}
	for call := range 4 {
		m := memory{x: random(tokens * width), h: make([]float32, tokens*width),
			qkv:   make([]float32, tokens*(heads+2*kv)*dim),
			heads: make([]float32, tokens*heads*dim), gateUp: make([]float32, tokens*2*ffn)}
		positions := make([]int32, tokens)
		for i := range positions {
			positions[i] = int32(call*tokens + i)
		}
		forward := func() error {
			return l.forward(nil, &m, rope, positions, tokens, width, heads, kv, dim, ffn)
		}
		must(reserve([]*attn.Cache{cache}, tokens))
		err := forward()
		if errors.Is(err, attn.ErrCapacity) { // which does not happen after reserve
			must(cache.Grow(2 * cache.Config().Capacity))
			err = forward()
		}
		must(err)
		all = append(all, m.x...)
	}
	return all
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
