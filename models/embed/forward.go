package embed

import (
	"context"

	"github.com/seed-1415985d/attn"
)

// runner computes batches, one after another. It has buffers, so that one call uses it at a time.
type runner struct {
	*Model
	ctx context.Context // of the call
	err error           // the first one; the rest is not computed

	tokens    int     // in the batch
	lens      []int   // of its texts
	positions []int32 // of its tokens in their texts
	ids       []int32
	segments  []int32
	seen      []int // how many tokens of each text are keys, where all have the same; nil for all

	x, projected, attended []float32 // rows; projected are queries, keys and values
	slabs                  slabs

	pooled, next, weights []float32 // a row for each text, and what tokens weigh
}

// try keeps the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}

// grow makes room for the batch.
func (r *runner) grow() {
	r.x = resize(r.x, r.tokens*r.hidden)
	r.projected = resize(r.projected, r.tokens*(r.heads+2*r.keyHeads)*r.width)
	r.attended = resize(r.attended, r.tokens*r.heads*r.width)
}

// upWidth is how many outputs the first product of the network has.
func (d *description) upWidth() int {
	if d.gated {
		return 2 * d.ffn
	}
	return d.ffn
}

// forward computes the rows of a batch. The tokens of its texts lie one after another: nothing is
// padded. What goes row by row, which is all but attention, is a stage between two attentions.
func (r *runner) forward() {
	r.grow()
	r.place()
	r.slabs.divide(r)
	for i := range r.all {
		r.stage(i)
		r.attend(&r.all[i])
	}
	r.stage(len(r.all))
	r.try(ended(r.ctx)) // slabs may have been left out
}

// attend lets the tokens of each text see each other: texts are documents of one call. Queries,
// keys and values are columns of rows, and the outputs of the heads are written side by side:
// nothing is transposed.
func (r *runner) attend(l *layer) {
	if r.err != nil {
		return
	}
	q, k, v := r.projections(0, r.tokens)
	o, dst := attn.Options{Documents: r.lens, Window: l.window, Bias: r.bias(),
		Integers: r.options.Integers}, attn.BLHD(r.attended, 1, r.tokens, r.heads, r.width)
	if n := len(r.seen); n > 0 {
		o.Documents, o.KeyLens = nil, r.seen
		dst, q, k, v = inBatch(dst, n), inBatch(q, n), inBatch(k, n), inBatch(v, n)
	}
	if r.causal {
		o.Causal = attn.TopLeft
	}
	r.err = r.pool.Attend(dst, q, k, v, &o)
}

// inBatch views rows of texts that have the same length as entries of a batch.
func inBatch(v attn.Tensor, texts int) attn.Tensor {
	v.B, v.L = texts, v.L/texts
	v.SB = v.L * v.SL
	return v
}

// projections are the queries, keys and values of rows from one on.
func (r *runner) projections(first, rows int) (q, k, v attn.Tensor) {
	queries, keys := r.heads*r.width, r.keyHeads*r.width
	pitch := queries + 2*keys
	columns := func(from, heads int) attn.Tensor {
		return attn.Rows(r.projected[first*pitch+from:], 1, rows, heads, r.width, pitch)
	}
	return columns(0, r.heads), columns(queries, r.keyHeads), columns(queries+keys, r.keyHeads)
}

// place makes positions the rows of their table. Where they count from the token that fills texts
// up, that one has a place of its own and does not count.
func (r *runner) place() {
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
