package embed

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/nn"
)

// runner computes batches, one after another. It has buffers, so that one call uses it at a time.
type runner struct {
	*Model
	err error // the first one; the rest is not computed

	tokens    int     // in the batch
	lens      []int   // of its texts
	positions []int32 // of its tokens in their texts
	ids       []int32
	segments  []int32

	x, y, wide, attended []float32 // rows
	outs                 []attn.Tensor
	matrices             []*attn.Matrix
	biases               [][]float32

	pooled, next, weights []float32 // a row for each text, and what tokens weigh
}

// try keeps the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}

// rows views the batch's rows of n elements.
func (r *runner) rows(x []float32, n int) attn.Tensor { return attn.BHLD(x, 1, 1, r.tokens, n) }

// columns views a part of rows of some pitch.
func (r *runner) columns(x []float32, from, heads, width, pitch int) attn.Tensor {
	return attn.Rows(x[from:], 1, r.tokens, heads, width, pitch)
}

// grow makes room for the batch.
func (r *runner) grow() {
	wide := max((r.heads+2*r.keyHeads)*r.width, r.upWidth())
	for buffer, width := range map[*[]float32]int{&r.x: r.hidden, &r.y: r.hidden,
		&r.attended: r.heads * r.width, &r.wide: wide} {
		if len(*buffer) < r.tokens*width {
			*buffer = make([]float32, r.tokens*width)
		}
	}
}

// upWidth is how many outputs the first product of the network has.
func (d *description) upWidth() int {
	if d.gated {
		return 2 * d.ffn
	}
	return d.ffn
}

// forward computes the rows of a batch. The tokens of its texts lie one after another: nothing is
// padded, and all but attention goes over the rows of all texts at once.
func (r *runner) forward() {
	r.grow()
	r.lookUp()
	for i := range r.all {
		r.layer(&r.all[i])
	}
	if r.final != nil {
		r.normalize(r.x, r.x, r.final)
	}
}

// layer is x + attention(x) and x + network(x), with a norm of what these read or of the sums.
func (r *runner) layer(l *layer) {
	r.multiply(r.wide, r.before(l.attentionNorm), l.input)
	r.attend(l)
	r.one(r.y, r.rows(r.attended, l.output.In), &l.output)
	r.add(l.attentionNorm)
	r.multiply(r.wide, r.before(l.ffnNorm), l.up)
	r.one(r.y, r.activate(), &l.down)
	r.add(l.ffnNorm)
}

// before is what a part of a layer reads: x, or its norm.
func (r *runner) before(n *norm) attn.Tensor {
	if !r.preNorm || n == nil {
		return r.rows(r.x, r.hidden)
	}
	r.normalize(r.y, r.x, n)
	return r.rows(r.y, r.hidden)
}

// add sets x to x + y, or to the norm of that.
func (r *runner) add(n *norm) {
	x := r.rows(r.x, r.hidden)
	r.try(nn.Add(r.pool, x, x, r.rows(r.y, r.hidden)))
	if !r.preNorm && n != nil {
		r.normalize(r.x, r.x, n)
	}
}

func (r *runner) normalize(dst, x []float32, n *norm) {
	to, from := r.rows(dst, r.hidden), r.rows(x, r.hidden)
	if r.rms {
		r.try(nn.RMSNorm(r.pool, to, from, n.weight, r.epsilon))
	} else {
		r.try(nn.LayerNorm(r.pool, to, from, n.weight, n.bias, r.epsilon))
	}
}

// one is a linear layer.
func (r *runner) one(dst []float32, x attn.Tensor, by *folder.Linear) {
	if r.err == nil {
		r.err = r.pool.MulMatrix(r.rows(dst, by.Out), x, by.Matrix, by.Bias)
	}
}

// multiply is linear layers of one input, whose outputs are side by side in a row.
func (r *runner) multiply(dst []float32, x attn.Tensor, by []folder.Linear) {
	pitch, from := 0, 0
	for i := range by {
		pitch += by[i].Out
	}
	r.outs, r.matrices, r.biases = r.outs[:0], r.matrices[:0], r.biases[:0]
	for i := range by {
		r.outs = append(r.outs, r.columns(dst, from, 1, by[i].Out, pitch))
		r.matrices, r.biases = append(r.matrices, by[i].Matrix), append(r.biases, by[i].Bias)
		from += by[i].Out
	}
	if r.err == nil {
		r.err = r.pool.MulMatrices(r.outs, x, r.matrices, r.biases)
	}
}

// attend lets the tokens of each text see each other: texts are documents of one call. Queries,
// keys and values are columns of rows, and the outputs of the heads are written side by side:
// nothing is transposed.
func (r *runner) attend(l *layer) {
	queries, keys := r.heads*r.width, r.keyHeads*r.width
	pitch := queries + 2*keys
	q := r.columns(r.wide, 0, r.heads, r.width, pitch)
	k := r.columns(r.wide, queries, r.keyHeads, r.width, pitch)
	v := r.columns(r.wide, queries+keys, r.keyHeads, r.width, pitch)
	if l.queryNorm != nil {
		r.try(nn.RMSNorm(r.pool, q, q, l.queryNorm, r.epsilon))
		r.try(nn.RMSNorm(r.pool, k, k, l.keyNorm, r.epsilon))
	}
	if l.rope != nil {
		r.try(l.rope.Rotate(r.pool, q, q, r.positions))
		r.try(l.rope.Rotate(r.pool, k, k, r.positions))
	}
	causal := attn.Full
	if r.causal {
		causal = attn.TopLeft
	}
	if r.err == nil {
		r.err = r.pool.Attend(attn.BLHD(r.attended, 1, r.tokens, r.heads, r.width), q, k, v,
			&attn.Options{Documents: r.lens, Window: l.window, Causal: causal, Bias: r.bias(),
				Integers: r.options.Integers})
	}
}

// activate is what the second product of the network reads.
func (r *runner) activate() attn.Tensor {
	if !r.gated {
		x := r.rows(r.wide, r.ffn)
		r.try(nn.Activate(r.pool, x, x, r.activation))
		return x
	}
	gate, up := r.columns(r.wide, 0, 1, r.ffn, 2*r.ffn), r.columns(r.wide, r.ffn, 1, r.ffn, 2*r.ffn)
	if r.gateLast {
		gate, up = up, gate
	}
	r.try(nn.Gate(r.pool, gate, gate, up, r.activation))
	return gate
}

// lookUp sets x to the sum of what the tables have for tokens, segments and positions.
func (r *runner) lookUp() {
	x, y := r.rows(r.x, r.hidden), r.rows(r.y, r.hidden)
	gather := func(to []float32, from *folder.Table, at []int32) {
		for i, row := range at {
			from.Row(to[i*r.hidden:][:r.hidden], int(row))
		}
	}
	gather(r.x, r.tables.words, r.ids)
	if r.tables.segments != nil {
		gather(r.y, r.tables.segments, r.segments)
		r.try(nn.Add(r.pool, x, x, y))
	}
	if r.tables.positions != nil {
		gather(r.y, r.tables.positions, r.places())
		r.try(nn.Add(r.pool, x, x, y))
	}
	if r.tables.norm != nil {
		r.normalize(r.x, r.x, r.tables.norm)
	}
}

// places are the rows of the table of positions. Where they count from the token that fills texts
// up, that one has a place of its own and does not count.
func (r *runner) places() []int32 {
	if r.firstPosition == 0 && r.pad < 0 {
		return r.positions
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
	return r.positions
}
