package lm

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn"
)

// Large biases of keys waste bits of a small cache: keys are rounded in steps of their largest
// elements, and a bias is the same in all keys. This file measures what that does to scores, with
// keys and queries that the weights compute from random inputs.

// An error of scores is an error of the same size in attention's weights. A warning needs at least
// this error, and at least this ratio to the error without biases.
const (
	loudNoise  = 0.05
	timesNoise = 3
)

// Warnings returns sentences about what a user might not expect of the model with its options: a
// format of keys that is too coarse for their biases, and answers that no token ends.
func (m *Model) Warnings() (texts []string, err error) {
	if len(m.ends) == 0 {
		texts = append(texts, "no token of the model ends an answer")
	}
	if m.options.Products == Floats && m.stored {
		texts = append(texts, "blocks are multiplied as float32: Products Integers is many times as fast")
	}
	text, err := biases(m.net, &m.engine.settings)
	if text != "" {
		texts = append(texts, text)
	}
	return texts, err
}

// biases returns a warning if the format of keys is too coarse for their biases.
func biases(m *model, s *settings) (string, error) {
	if s.keys < attn.I8 {
		return "", nil
	}
	r := &runner{model: m, pool: attn.NewPool(s.workers)}
	defer func() { _ = r.pool.Close() }() // no call uses it
	worst, without, at := 0.0, 0.0, 0
	for i := range m.layers {
		if m.layers[i].k.Bias == nil {
			continue
		}
		all, err := r.keyNoise(i, s.keys, true)
		if err != nil {
			return "", err
		}
		if all > worst {
			worst, at = all, i
		}
	}
	if worst < loudNoise {
		return "", nil
	}
	without, err := r.keyNoise(at, s.keys, false)
	if err != nil || worst < timesNoise*without {
		return "", err
	}
	half, err := r.keyNoise(at, attn.F16, true)
	return fmt.Sprintf("the biases of keys are beyond what keys of %v bear: rounding makes scores of "+
		"layer %d wrong by %.2g, and without them by %.2g; with keys of f16 it is %.2g", s.keys, at,
		worst, without, half), err
}

// keyNoise returns the error of a layer's scores when keys are rounded to a format: the root mean
// square over a page of keys, without the part that all keys of a query have in common, which
// cancels in softmax.
func (r *runner) keyNoise(layer int, kind attn.Format, biased bool) (float64, error) {
	l, n := r.layers[layer], attn.Block
	r.randomRows(&l, n)
	if !biased {
		l.k.Bias = nil
	}
	q, k, _ := r.queriesKeysValues(&l)
	if r.err != nil {
		return 0, r.err
	}
	wrong, err := rounded(k, kind)
	if err != nil {
		return 0, err
	}
	for h := range k.H {
		for i := range n {
			for j, e := range k.Row(0, h, i) {
				wrong.Row(0, h, i)[j] -= e
			}
		}
	}
	scores, sum := make([]float64, n), 0.0
	for h := range r.Heads {
		for i := range n {
			mean := 0.0
			for j := range scores {
				e := attn.Dot(q.Row(0, h, i), wrong.Row(0, h/(r.Heads/l.kvHeads), j))
				scores[j] = float64(e) / math.Sqrt(float64(l.headDim))
				mean += scores[j] / float64(n)
			}
			for _, e := range scores {
				sum += (e - mean) * (e - mean)
			}
		}
	}
	return math.Sqrt(sum / float64(r.Heads*n*n)), nil
}

// randomRows sets the inputs of a layer's matrices to normed random rows, the same for all layers.
func (r *runner) randomRows(l *decoderLayer, n int) {
	source := rand.New(rand.NewPCG(1, 1))
	r.x = resize(r.x, n*r.Dim)
	for i := range r.x {
		r.x[i] = float32(source.NormFloat64())
	}
	r.normRows(&r.normed, r.x, l.attentionNorm)
	r.positions = r.positions[:0]
	for i := range n {
		r.positions = append(r.positions, int32(i))
	}
}

// rounded returns keys as a cache of a format returns them.
func rounded(k attn.Tensor, kind attn.Format) (attn.Tensor, error) {
	c, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: k.H, HeadDim: k.D, ValueDim: k.D,
		Capacity: k.L, Format: kind})
	if err != nil {
		return attn.Tensor{}, err
	}
	defer func() { _ = c.Close() }() // it is open, so Close cannot fail
	if err := c.Append(k, k); err != nil {
		return attn.Tensor{}, err
	}
	x := make([]float32, 2*k.L*k.H*k.D)
	read := attn.BLHD(x[len(x)/2:], 1, k.L, k.H, k.D)
	return read, c.Read(read, attn.BLHD(x, 1, k.L, k.H, k.D), 0)
}
