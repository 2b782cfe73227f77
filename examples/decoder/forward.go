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
}

// forward appends the pieces to their sequences and returns the logits after the last token of each.
func (r *runner) forward(pieces []piece) ([][]float32, error) {
	rows := r.begin(pieces)
	for i := range r.layers {
		if err := r.layer(i, rows, pieces); err != nil {
			return nil, err
		}
	}
	return r.finish(pieces)
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

// layer is attention and the feed-forward network, each added to x.
func (r *runner) layer(i, rows int, pieces []piece) error {
	l, c := &r.layers[i], &r.Config
	width := (c.Heads + 2*c.KVHeads) * c.HeadDim
	r.normalize(l.attentionNorm, rows)
	if err := r.multiply(&r.qkv, r.normed, l.qkv, rows, width, l.bias); err != nil {
		return err
	}
	r.rotateAll(rows, width)
	r.heads = resize(r.heads, rows*c.Heads*c.HeadDim)
	// Queries, keys and values are views into the rows of their product: nothing is copied but into the cache.
	view := func(first, heads int) attn.Tensor {
		return attn.Tensor{Data: r.qkv[first*c.HeadDim:], B: 1, H: heads, L: rows, D: c.HeadDim, SH: c.HeadDim, SL: width}
	}
	q, k, v := view(0, c.Heads), view(c.Heads, c.KVHeads), view(c.Heads+c.KVHeads, c.KVHeads)
	first := 0
	for _, p := range pieces {
		n := len(p.tokens)
		if err := r.cache.append(i, p.seq, rowsOf(k, first, n), rowsOf(v, first, n)); err != nil {
			return err
		}
		first += n
	}
	if err := r.cache.attend(i, attn.BLHD(r.heads, 1, rows, c.Heads, c.HeadDim), q, pieces); err != nil {
		return err
	}
	if err := r.multiply(&r.hidden, r.heads, l.out, rows, c.Dim, nil); err != nil {
		return err
	}
	add(r.x, r.hidden)

	r.normalize(l.ffnNorm, rows)
	if err := r.multiply(&r.hidden, r.normed, l.gateUp, rows, 2*c.FFN, nil); err != nil {
		return err
	}
	r.active = resize(r.active, rows*c.FFN)
	for t := range rows {
		swiGLU(r.active[t*c.FFN:][:c.FFN], r.hidden[t*2*c.FFN:][:2*c.FFN])
	}
	if err := r.multiply(&r.hidden, r.active, l.down, rows, c.Dim, nil); err != nil {
		return err
	}
	add(r.x, r.hidden)
	return nil
}

// finish computes logits of the rows that somebody asks for: the last one of each piece.
func (r *runner) finish(pieces []piece) ([][]float32, error) {
	r.last = resize(r.last, len(pieces)*r.Dim)
	end := 0
	for i, p := range pieces {
		end += len(p.tokens)
		rmsNorm(r.last[i*r.Dim:][:r.Dim], r.x[(end-1)*r.Dim:][:r.Dim], r.norm, r.Epsilon)
	}
	if err := r.multiply(&r.logits, r.last, r.head, len(pieces), r.Vocab, nil); err != nil {
		return nil, err
	}
	logits := make([][]float32, len(pieces))
	for i := range logits {
		logits[i] = r.logits[i*r.Vocab:][:r.Vocab]
	}
	return logits, nil
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
func (r *runner) multiply(dst *[]float32, a []float32, m *attn.Matrix, rows, cols int, bias []float32) error {
	*dst = resize(*dst, rows*cols)
	return r.pool.MatMul(attn.BHLD(*dst, 1, 1, rows, cols), attn.BHLD(a, 1, 1, rows, len(a)/rows), m, bias)
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
