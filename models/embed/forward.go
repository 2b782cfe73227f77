package embed

import (
	"context"

	"github.com/seed-1415985d/attn"
)

// runner computes batches, one after another. Because of its buffers only one call at a time may
// use it.
type runner struct {
	*Model
	ctx context.Context // of the call
	err error           // the first error, after which nothing is computed

	tokens    int     // number of tokens in the batch
	lens      []int   // tokens of each text
	positions []int32 // position of each token in its text
	ids       []int32
	segments  []int32
	seen      []int // tokens of each text that are keys, for texts of equal length; nil for all

	x, projected, attended []float32 // rows; projected has queries, keys and values
	slabs                  slabs

	embedded          []float32 // rows before the layers, for a convolution
	byKeys, byQueries []float32 // products of tokens with relative positions
	buckets           []int32   // of them

	pictures pictures // of a tower of images

	pooled, next, weights []float32 // rows of texts, and pooling weights of tokens
}

// try keeps the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}

// grow resizes the buffers for the batch.
func (r *runner) grow() {
	r.x = resize(r.x, r.tokens*r.hidden)
	r.projected = resize(r.projected, r.tokens*(r.heads+2*r.keyHeads)*r.width)
	r.attended = resize(r.attended, r.tokens*r.heads*r.width)
	if r.convolution.kernel > 0 {
		r.embedded = resize(r.embedded, r.tokens*r.hidden)
	}
}

// upWidth returns the number of outputs of the network's first product.
func (d *description) upWidth() int {
	if d.gated {
		return 2 * d.ffn
	}
	return d.ffn
}

// forward computes the rows of a batch. The texts are packed without padding. All operations
// between two attentions work on single rows and form a stage.
func (r *runner) forward() {
	r.grow()
	r.placePositions()
	r.slabs.divide(r)
	for i := range r.all {
		r.runStage(i)
		r.attend(&r.all[i])
	}
	r.runStage(len(r.all))
	r.try(ended(r.ctx)) // some slabs may not be computed
}

// attend computes attention within each text in one call, with texts as documents. Queries, keys,
// values and outputs are views of columns: nothing is transposed.
func (r *runner) attend(l *layer) {
	if r.err != nil {
		return
	}
	q, k, v := r.projections(0, r.tokens)
	o, dst := attn.Options{Documents: r.lens, Scale: r.scale, Window: l.window,
		Distance: r.distances(l, q, k), Integers: r.options.Integers},
		attn.BLHD(r.attended, 1, r.tokens, r.heads, r.width)
	if n := len(r.seen); n > 0 {
		o.Documents, o.KeyLens = nil, r.seen
		dst, q, k, v = inBatch(dst, n), inBatch(q, n), inBatch(k, n), inBatch(v, n)
	}
	if r.causal {
		o.Causal = attn.TopLeft
	}
	if r.err == nil {
		r.err = r.pool.Attend(dst, q, k, v, &o)
	}
}

// inBatch returns a view of texts of equal length as entries of a batch.
func inBatch(v attn.Tensor, texts int) attn.Tensor {
	v.B, v.L = texts, v.L/texts
	v.SB = v.L * v.SL
	return v
}

// projections returns views of the queries, keys and values of rows, beginning at row first.
func (r *runner) projections(first, rows int) (q, k, v attn.Tensor) {
	queries, keys := r.heads*r.width, r.keyHeads*r.width
	pitch := queries + 2*keys
	columns := func(from, heads int) attn.Tensor {
		return attn.Rows(r.projected[first*pitch+from:], 1, rows, heads, r.width, pitch)
	}
	return columns(0, r.heads), columns(queries, r.keyHeads), columns(queries+keys, r.keyHeads)
}

// placePositions turns positions into rows of their table. In models that count from the padding
// token, that token has a fixed row and is not counted.
func (r *runner) placePositions() {
	if r.tables.positions == nil || r.firstPosition == 0 && r.pad < 0 {
		return
	}
	next := int32(0)
	for i, id := range r.ids {
		if r.positions[i] == 0 {
			next = int32(r.firstPosition)
		}
		if int(id) == r.pad {
			r.positions[i] = int32(r.pad)
		} else {
			r.positions[i] = next
			next++
		}
	}
}
