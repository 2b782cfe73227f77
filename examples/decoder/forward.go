package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/internal/folder"
)

// piece is tokens that continue a sequence: part of a prompt, or the one that was generated last.
type piece struct {
	seq    sequence
	tokens []int
}

// runner takes pieces of any number of sequences through the model at once: a row for each token,
// of all pieces one after another.
type runner struct {
	*model
	pool  *attn.Pool
	cache cache

	x, normed, qkv, heads, hidden, active, last, logits []float32 // rows of one call
	cos, sin                                            []float32
	// the first of a call, whose logits mean nothing
	err error
}

// forward appends the pieces to their sequences and returns the logits after the last token of
// each.
func (r *runner) forward(pieces []piece) ([][]float32, error) {
	r.err = nil
	r.begin(pieces)
	for i := 0; i < len(r.layers) && r.err == nil; i++ {
		r.attention(i, pieces)
		r.feedForward(&r.layers[i])
	}
	r.finish(pieces)
	if r.err == nil {
		r.err = checkLogits(r.logits, r.Vocab)
	}
	return slices.Collect(slices.Chunk(r.logits, r.Vocab)), r.err
}

// checkLogits refuses those from which no token can be chosen.
func checkLogits(logits []float32, vocab int) error {
	for i, x := range logits {
		if x-x != 0 { // NaN or infinite
			return fmt.Errorf("the logit of token %d is %v, want finite numbers: the model has weights, or "+
				"makes numbers, that the types of weights and cache cannot hold", i%vocab, x)
		}
	}
	return nil
}

// begin looks up the tokens' embeddings and the rotations of their positions.
func (r *runner) begin(pieces []piece) {
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
	}
}

// attention adds to each row what its token sees in the tokens before it.
func (r *runner) attention(i int, pieces []piece) {
	l, width, all := &r.layers[i], r.layers[i].qkv.Out, len(r.x)/r.Dim
	rmsNorm(&r.normed, r.x, l.attentionNorm, r.Epsilon)
	r.multiply(&r.qkv, r.normed, &l.qkv)
	rotate(r.qkv, r.cos, r.sin, width, r.HeadDim, r.Heads+r.KVHeads)
	// Queries, keys and values are views into the rows of their product: nothing is copied but into
	// the cache.
	view := func(head, heads int) attn.Tensor {
		return attn.Rows(r.qkv[head*r.HeadDim:], 1, all, heads, r.HeadDim, width)
	}
	r.try(r.cache.append(i, view(r.Heads, r.KVHeads), view(r.Heads+r.KVHeads, r.KVHeads), pieces))
	r.heads = resize(r.heads, all*l.out.In)
	if r.err != nil {
		return
	}
	r.try(r.cache.attend(i, attn.BLHD(r.heads, 1, all, r.Heads, r.HeadDim), view(0, r.Heads), pieces))
	r.multiply(&r.hidden, r.heads, &l.out)
	add(r.x, r.hidden)
}

// feedForward adds to each row what the layer's network makes of it.
func (r *runner) feedForward(l *layer) {
	rmsNorm(&r.normed, r.x, l.ffnNorm, r.Epsilon)
	r.multiply(&r.hidden, r.normed, &l.gateUp)
	swiGLU(&r.active, r.hidden, r.FFN)
	r.multiply(&r.hidden, r.active, &l.down)
	add(r.x, r.hidden)
}

// finish computes logits of the rows that somebody asks for: the last one of each piece.
func (r *runner) finish(pieces []piece) {
	r.last = r.last[:0]
	end := 0
	for _, p := range pieces {
		end += len(p.tokens) * r.Dim
		r.last = append(r.last, r.x[end-r.Dim:end]...)
	}
	rmsNorm(&r.last, r.last, r.norm, r.Epsilon)
	r.multiply(&r.logits, r.last, &r.head)
}

// multiply is dst = a·Wᵀ + bias. attn computes an element by one chain of multiply-adds in a fixed
// order, whatever rows are around it.
func (r *runner) multiply(dst *[]float32, a []float32, by *folder.Linear) {
	rows := len(a) / by.In
	*dst = resize(*dst, rows*by.Out)
	r.try(r.pool.MulMatrix(attn.BHLD(*dst, 1, 1, rows, by.Out), attn.BHLD(a, 1, 1, rows, by.In),
		by.Matrix, by.Bias))
}

// try notes the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}
