package main

import (
	"math"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/decoder/internal/folder"
)

// plainCache is attention as a textbook writes it down, over float32 keys and values one token after the other.
type plainCache struct {
	heads, kvHeads, dim int
	layers, workers     int
	tokens              int // of all sequences
}

// plainSequence is the keys and values of each layer.
type plainSequence struct {
	cache *plainCache
	k, v  [][]float32
}

func newPlainCache(c *folder.Config, workers int) *plainCache {
	return &plainCache{heads: c.Heads, kvHeads: c.KVHeads, dim: c.HeadDim, layers: c.Layers, workers: workers}
}

func (p *plainCache) newSequence() sequence {
	return &plainSequence{p, make([][]float32, p.layers), make([][]float32, p.layers)}
}

func (p *plainCache) append(layer int, s sequence, k, v attn.Tensor) error {
	to := s.(*plainSequence)
	for i := range k.L {
		to.k[layer] = append(to.k[layer], k.Data[i*k.SL:][:p.kvHeads*p.dim]...)
		to.v[layer] = append(to.v[layer], v.Data[i*v.SL:][:p.kvHeads*p.dim]...)
	}
	if layer == 0 {
		p.tokens += k.L
	}
	return nil
}

// attend gives each worker every so many heads.
func (p *plainCache) attend(layer int, dst, q attn.Tensor, pieces []piece) error {
	var done sync.WaitGroup
	for w := range p.workers {
		done.Go(func() {
			for h := w; h < p.heads; h += p.workers {
				p.head(layer, h, dst, q, pieces)
			}
		})
	}
	done.Wait()
	return nil
}

func (p *plainCache) head(layer, h int, dst, q attn.Tensor, pieces []piece) {
	var scores []float32
	row, at := 0, h/(p.heads/p.kvHeads)*p.dim
	for _, x := range pieces {
		s := x.seq.(*plainSequence)
		for i := range x.tokens {
			scores = resize(scores, s.length()-len(x.tokens)+i+1) // of what the query sees
			p.row(dst.Data[row*dst.SL+h*dst.SH:][:p.dim], q.Data[row*q.SL+h*q.SH:][:p.dim], s.k[layer][at:], s.v[layer][at:], scores)
			row++
		}
	}
}

// row is softmax(q·Kᵀ/√dim)·V for one query.
func (p *plainCache) row(dst, q, k, v, scores []float32) {
	stride, scale, top := p.kvHeads*p.dim, float32(1/math.Sqrt(float64(p.dim))), float32(math.Inf(-1))
	for j := range scores {
		sum := float32(0)
		for d, x := range k[j*stride:][:p.dim] {
			sum += q[d] * x
		}
		scores[j] = sum * scale
		top = max(top, scores[j])
	}
	total := float32(0)
	for j, s := range scores {
		scores[j] = float32(math.Exp(float64(s - top)))
		total += scores[j]
	}
	clear(dst)
	for j, s := range scores {
		weight := s / total
		for d, x := range v[j*stride:][:p.dim] {
			dst[d] += weight * x
		}
	}
}

func (p *plainCache) inUse() int { return p.tokens * p.layers * p.kvHeads * p.dim * 2 * 4 }
func (p *plainCache) close()     {}

func (s *plainSequence) length() int { return len(s.k[0]) / (s.cache.kvHeads * s.cache.dim) }

// fork copies everything.
func (s *plainSequence) fork() sequence {
	f := s.cache.newSequence().(*plainSequence)
	for i := range s.k {
		f.k[i], f.v[i] = append(f.k[i], s.k[i]...), append(f.v[i], s.v[i]...)
	}
	s.cache.tokens += s.length()
	return f
}

func (s *plainSequence) release() { s.cache.tokens -= s.length() }
