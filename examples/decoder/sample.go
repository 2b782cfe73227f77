package main

import (
	"math/rand/v2"

	"github.com/seed-1415985d/attn"
)

// greedy takes the most likely token.
func greedy(logits []float32) int {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return best
}

// sampler draws tokens. Since logits have the same bits in any batch, a prompt and a seed give the same answer in any batch.
func sampler(temperature float64, seed, prompt uint64) func([]float32) int {
	if temperature <= 0 {
		return greedy
	}
	source := rand.New(rand.NewPCG(seed, prompt))
	var p []float32
	return func(logits []float32) int {
		p = resize(p, len(logits))
		for i, x := range logits {
			p[i] = x / float32(temperature)
		}
		attn.Softmax(p, p)
		left := source.Float32()
		for i, x := range p {
			if left -= x; left < 0 {
				return i
			}
		}
		return greedy(logits) // the sum was a little below 1
	}
}
