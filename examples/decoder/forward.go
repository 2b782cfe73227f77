package main

import (
	"math"

	"github.com/seed-1415985d/attn"
)

// piece is tokens that continue a sequence: part of a prompt, or the one that was generated last.
type piece struct {
	seq    sequence
	tokens []int
}

// runner takes pieces of any number of sequences through the model at once. All of its memory is for the rows of one call.
type runner struct {
	*model
	pool  *attn.Pool
	cache cache

	x, normed, qkv, heads, hidden, active, last, logits []float32
	cos, sin                                            []float32
	err                                                 error // the first of a call
}

// forward appends the pieces to their sequences and returns the logits after the last token of each.
func (r *runner) forward(pieces []piece) ([][]float32, error) {
	r.err = nil
	rows := r.begin(pieces)
	for i := range r.layers {
		r.attention(i, rows, pieces)
		r.feedForward(&r.layers[i], rows)
		if r.err != nil {
			return nil, r.err
		}
	}
	return r.finish(pieces), r.err
}

// begin looks up the tokens' embeddings and the rotations of their positions.
func (r *runner) begin(pieces []piece) (rows int) {
	r.x, r.cos, r.sin = r.x[:0], r.cos[:0], r.sin[:0]
	for _, p := range pieces {
		first := p.seq.length()
		for i, token := range p.tokens {
			r.x = append(r.x, r.embedding[token*r.Dim:][:r.Dim]...)
			for _, turn := range r.turns {
				sin, cos := math.Sincos(turn * float64(first+i))
				r.cos, r.sin = append(r.cos, float32(cos)), append(r.sin, float32(sin))
			}
		}
		rows += len(p.tokens)
	}
	return rows
}

// attention adds to each row what its token sees in the tokens before it.
func (r *runner) attention(i, rows int, pieces []piece) {
	l, width := &r.layers[i], (r.Heads+2*r.KVHeads)*r.HeadDim
	r.normalize(l.attentionNorm, rows)
	r.multiply(&r.qkv, r.normed, l.qkv, rows, width, l.bias)
	r.rotateAll(rows, width)
	// Queries, keys and values are views into the rows of their product: nothing is copied but into the cache.
	view := func(first, heads int) attn.Tensor {
		return attn.Tensor{Data: r.qkv[first*r.HeadDim:], B: 1, H: heads, L: rows, D: r.HeadDim, SH: r.HeadDim, SL: width}
	}
	q, k, v := view(0, r.Heads), view(r.Heads, r.KVHeads), view(r.Heads+r.KVHeads, r.KVHeads)
	first := 0
	for _, p := range pieces {
		n := len(p.tokens)
		r.try(r.cache.append(i, p.seq, rowsOf(k, first, n), rowsOf(v, first, n)))
		first += n
	}
	if r.err != nil {
		return // tokens are missing
	}
	r.heads = resize(r.heads, rows*r.Heads*r.HeadDim)
	r.try(r.cache.attend(i, attn.BLHD(r.heads, 1, rows, r.Heads, r.HeadDim), q, pieces))
	r.multiply(&r.hidden, r.heads, l.out, rows, r.Dim, nil)
	add(r.x, r.hidden)
}

// feedForward adds to each row what the layer's network makes of it.
func (r *runner) feedForward(l *layer, rows int) {
	r.normalize(l.ffnNorm, rows)
	r.multiply(&r.hidden, r.normed, l.gateUp, rows, 2*r.FFN, nil)
	r.active = resize(r.active, rows*r.FFN)
	for t := range rows {
		swiGLU(r.active[t*r.FFN:][:r.FFN], r.hidden[t*2*r.FFN:][:2*r.FFN])
	}
	r.multiply(&r.hidden, r.active, l.down, rows, r.Dim, nil)
	add(r.x, r.hidden)
}

// finish computes logits of the rows that somebody asks for: the last one of each piece.
func (r *runner) finish(pieces []piece) (logits [][]float32) {
	r.last = resize(r.last, len(pieces)*r.Dim)
	end := 0
	for i, p := range pieces {
		end += len(p.tokens)
		rmsNorm(r.last[i*r.Dim:][:r.Dim], r.x[(end-1)*r.Dim:][:r.Dim], r.norm, r.Epsilon)
	}
	r.multiply(&r.logits, r.last, r.head, len(pieces), r.Vocab, nil)
	for i := range pieces {
		logits = append(logits, r.logits[i*r.Vocab:][:r.Vocab])
	}
	return logits
}

// normalize is normed = rmsNorm(x), row by row.
func (r *runner) normalize(weight []float32, rows int) {
	r.normed = resize(r.normed, rows*r.Dim)
	for t := range rows {
		rmsNorm(r.normed[t*r.Dim:][:r.Dim], r.x[t*r.Dim:][:r.Dim], weight, r.Epsilon)
	}
}

// rotateAll turns queries and keys by their positions.
func (r *runner) rotateAll(rows, width int) {
	half := r.HeadDim / 2
	for t := range rows {
		cos, sin := r.cos[t*half:][:half], r.sin[t*half:][:half]
		for h := range r.Heads + r.KVHeads {
			rotate(r.qkv[t*width+h*r.HeadDim:][:r.HeadDim], cos, sin)
		}
	}
}

// multiply is dst = a·m + bias. attn computes an element by one chain of multiply-adds in a fixed order, whatever rows are around it.
func (r *runner) multiply(dst *[]float32, a []float32, m *attn.Matrix, rows, cols int, bias []float32) {
	*dst = resize(*dst, rows*cols)
	r.try(r.pool.MatMul(attn.BHLD(*dst, 1, 1, rows, cols), attn.BHLD(a, 1, 1, rows, len(a)/rows), m, bias))
}

// try notes the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}

// rowsOf is n positions of a view.
func rowsOf(t attn.Tensor, first, n int) attn.Tensor {
	t.Data, t.L = t.Data[first*t.SL:], n
	return t
}

// resize returns n elements, whose values are left open.
func resize(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
