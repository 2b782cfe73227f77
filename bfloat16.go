package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
)

// Attention in bfloat16, Options.BFloat16. Blocks, tiles, options, maxima and exponentials are as
// in every call; the differences are here, and in kind_pairs.go how products are computed:
//
//   - Queries are rounded to bfloat16 once a chunk.
//   - Weights are rounded to bfloat16, too, and the sums of rows are sums of these.

// pairScratch is the memory of calls in bfloat16.
type pairScratch struct {
	queries pairs.Rows // of a chunk
	negated []float32  // a query, if Scale is negative

	k, v                 []byte // panels of pairs of a block,
	leastKey, leastValue pairs.Least
	seen                 []byte    // values of a block that one row sees
	sums                 []float32 // of a tile's values
	before               []float32 // sums of weights of a tile's rows before a block
	weights              pairs.Rows
	products             pairs.Products
}

// fit makes the memory large enough for calls of a plan.
func (x *pairScratch) fit(p *plan, scores int) {
	const pair = 2                       // bytes of a number
	all := p.headsPerChunk * p.chunkRows // of a chunk, which decide
	x.queries.Fit(&tuned, all, p.d)
	x.weights.FitLoad(scores, Block, x.queries.Tiles())
	x.negated = grow(x.negated, p.d)
	x.k = grow(x.k, pair*Block*kernel.RoundUp(p.d, pairs.Group))
	x.v = grow(x.v, pair*Block*p.oStride)
	x.seen = grow(x.seen, pair*Block*p.oStride)
	x.sums, x.before = grow(x.sums, scores*p.oStride), grow(x.before, scores)
}

// checkBFloat16 validates the option against the keys and the other options.
func (p *plan) checkBFloat16(opt *Options) error {
	switch s := p.packed; {
	case opt.Integers:
		return fail(ErrOption, "BFloat16 and Integers are true, want one of them")
	case s == nil:
	case s.K.Scaled:
		return fail(ErrOption, "BFloat16 is true over keys in %v, want F32, F16 or BF16",
			Format(s.K.Format))
	case s.V.Scaled:
		return fail(ErrOption, "BFloat16 is true over values in %v, want F32, F16 or BF16",
			Format(s.V.Format))
	}
	return nil
}

// load rounds the queries of one head's rows.
func (x *pairScratch) load(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		q := p.q.Data[p.q.offset(c.b, h, i):][:p.d]
		if p.flip {
			floats.Scale(tuned.ISA, x.negated[:p.d], q, -1)
			x.queries.Put(tuned.ISA, c.at+r, x.negated[:p.d])
		} else {
			x.queries.Put(tuned.ISA, c.at+r, q)
		}
	}
}

// accumulateSeen sums values row by row, without those that a row does not see, which are NaN or
// infinite.
func (x *pairScratch) accumulateSeen(visible []uint64, weights []float32) {
	y := x.products // of a row
	row := pairs.Rows{Pitch: Block}
	for r, seen := range visible {
		pairs.CopyVisible(x.seen, x.products.Panels, seen)
		row.Floats, y.O, y.Panels = weights[r*Block:], x.products.O[r*y.OStride:], x.seen
		row.Multiply(&tuned, &y, 0, 1)
	}
}

// softmax is floats.Softmax with weights in bfloat16, of which l is the sum.
func (x *pairScratch) softmax(s, m, l, alpha []float32, visible []uint64, rows int,
	c float32) (masked bool) {
	copy(x.before[:rows], l)
	masked = floats.Softmax(&tuned, s, m, l, alpha, visible, rows, c)
	pairs.Weigh(tuned.ISA, s, l, x.before, alpha, rows)
	return masked
}

// writeWeights writes the weights of a row's scores: in bfloat16 with the final maximum m, times r.
func (*pairScratch) writeWeights(dst, s []float32, m, r, c float32, visible uint64) {
	floats.Weights(tuned.ISA, dst, s, m, 1, c, visible)
	pairs.Round(tuned.ISA, dst, dst)
	if r == r {
		floats.Scale(tuned.ISA, dst, dst, r)
		return
	}
	for j := range dst { // hidden keys have no weight
		if visible>>j&1 != 0 {
			dst[j] = r
		}
	}
}
