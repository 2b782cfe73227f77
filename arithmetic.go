package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
)

// Attention in 8-bit integers, Options.Integers. Blocks, spans, tiles and the softmax are as in
// every call; the differences are here:
//
//   - A row of queries becomes integers with one scale. Its scores have their own unit, |Scale|
//     times that scale, and so its own factor of powers of 2. Both are positive and finite.
//   - Scores are exact sums of integers times the scale of the key, and NaN if the query is not
//     finite. So rows that see no key, or a NaN, behave as in float32.
//   - Weights times the scales of the values become integers of 15 bits, with one scale for each
//     row and block, and their products with the values are exact sums again.

// intScratch is the memory of the rows of a chunk in integers, besides their state.
type intScratch struct {
	queries integers.Rows // rows × kernel.RoundUp(D, 4)
	units   []float32     // units of the scores of each row
	factors []float32     // unit·log₂e, or log₂e where scores are natural
	bad     []int         // rows whose query is not finite
	row     []int8        // a query before it is stored

	weights integers.Rows // of a tile, words: rows × Block
	scales  []float32     // of a tile's weights

	blocks packed.Kept // of the caller's views

	all []float32 // units of all rows of a call, for a State
}

// fit makes the memory large enough for calls of a plan.
func (w *intScratch) fit(p *plan, rows, scores int) {
	together := p.headsPerChunk * p.chunkRows
	if p.packed != nil && p.packed.K.Codes {
		together = math.MaxInt // one row of codes waits for look-ups, not for memory
	}
	w.queries.Fit(&tuned, rows*kernel.RoundUp(p.d, 4), rows, together)
	w.units, w.factors = grow(w.units, rows), grow(w.factors, rows)
	w.row = grow(w.row, min(rows, panel)*kernel.RoundUp(p.d, 4))
	w.weights.Words, w.scales = grow(w.weights.Words, scores*Block), grow(w.scales, scores)
	if p.packed == nil && p.d > 0 {
		n := 0
		if p.chunksPerHead > 1 && !p.listed {
			n = partsOf(p.lk, Block)
		}
		w.blocks.Fit(p.d, p.dv, n)
	}
}

// checkIntegers validates the option against the keys.
func (p *plan) checkIntegers() error {
	switch {
	case p.packed != nil && p.packed.K.Read != kernel.I8:
		return fail(ErrOption, "Integers is true over keys in %v, want I8 or I4",
			Format(p.packed.K.Format))
	case p.packed != nil && p.packed.V.Read != kernel.I8:
		return fail(ErrOption, "Integers is true over values in %v, want I8 or I4",
			Format(p.packed.V.Format))
	case p.d >= maxInt8Dim:
		return fail(ErrUnsupported, "k.D is %d with Integers, want less than %d: sums would overflow",
			p.d, maxInt8Dim)
	}
	return nil
}

// maxInt8Dim bounds the products of a sum, each at most 127·127, so that 32 bits hold it.
const maxInt8Dim = 1 << 16

// packing describes how keys and values of the call are packed.
func (w *intScratch) packing(p *plan) *packed.Blocks {
	if p.packed != nil {
		return p.packed
	}
	return &w.blocks.Format
}

// quantizeRotated rotates and quantizes the first rows of one head's queries, and returns their
// number.
func (w *intScratch) quantizeRotated(p *plan, c *chunk, q []float32) (done int) {
	if x := &w.queries; x.Bytes != nil && p.packed == nil && !p.flip {
		done = integers.QuantizeRotated(&tuned, x.Bytes[c.at*p.d:], w.units[c.at:], x.Starts[c.at:], q,
			c.rows, p.d, p.q.SL, p.d&-p.d)
	}
	return done
}

// quantizeQueries quantizes the rotated queries of one head's rows after the first done ones, and
// sets the units of all scores.
func (w *intScratch) quantizeQueries(p *plan, c *chunk, q []float32, done int) {
	width, units, factors := kernel.RoundUp(p.d, 4), w.units[c.at:][:c.rows], w.factors[c.at:][:c.rows]
	if at, rest := c.at+done, c.rows-done; rest > 0 {
		w.queries.Quantize(tuned.ISA, at*width, at, units[done:], q[done*p.d:], rest, p.d, p.d, w.row)
	}
	for r, scale := range units {
		unit := float32(p.scoreScale * scale)
		units[r], factors[r] = unit, float32(float64(unit)*f32.Log2E)
		if p.natural || !(unit > 0 && unit < hugeUnit) {
			w.findUnit(p, c, q, r, scale)
		}
	}
}

// hugeUnit is larger than any unit of ordinary numbers. Below it a unit is one multiplication, and
// so is its factor.
const hugeUnit = 1 << 120

// findUnit sets the unit of the scores of row r of a chunk from the scale of its integers, and
// quantizes the row first if scale is not valid.
func (w *intScratch) findUnit(p *plan, c *chunk, q []float32, r int, scale float32) {
	row, unit := c.at+r, online.IntegerUnit(p.scoreScale, scale, 1)
	if scale != scale {
		h, i := p.locate(c.kv, c.row+r)
		finite := false
		unit, finite = w.quantizeQuery(p, q[r*p.d:][:p.d], p.q.row(c.b, h, i))
		if w.queries.Put(tuned.ISA, row*kernel.RoundUp(p.d, 4), row, w.row[:p.d]); !finite {
			w.bad = append(w.bad, row)
		}
	}
	w.setUnit(p, row, unit)
}

// hugeQuery is the factor of a query whose rotation would overflow; its unit includes the factor.
// Sums of maxInt8Dim/2 such numbers are finite.
const hugeQuery = 1. / maxInt8Dim

// quantizeQuery quantizes a query into w.row, and returns the unit of its products. q is memory for
// its rotation. A query that is not finite becomes zeros, with the unit of zeros.
func (w *intScratch) quantizeQuery(p *plan, q, query []float32) (unit float32, finite bool) {
	for _, factor := range [...]float32{1, hugeQuery} {
		if p.flip {
			factor = -factor
		}
		floats.Scale(tuned.ISA, q, query, factor)
		p.rotateQueries(q)
		if scale := integers.QuantizeToken(tuned.ISA, w.row[:p.d], q); scale == scale {
			return online.IntegerUnit(p.scoreScale, scale, factor), true
		}
	}
	return online.IntegerUnit(p.scoreScale, 0, 1), false
}

// setUnit sets the unit of the products of a row.
func (w *intScratch) setUnit(p *plan, row int, unit float32) {
	w.units[row], w.factors[row] = unit, f32.Log2E
	if !p.natural {
		_, w.factors[row] = (&online.Units{All: unit}).Of(row)
	}
}

// scores computes the products of rows of queries from row on with the first n packed keys, which
// are integers or codes.
func (w *intScratch) scores(p *plan, s []float32, row int, k []byte, scales []float32, rows,
	n int, format kernel.Format) {
	if format == kernel.I4 {
		int4.Score(&tuned, s, &w.queries, row, k, scales, rows, p.d, n, p.ahead, p.integersInOrder)
	} else {
		integers.Score(&tuned, s, &w.queries, row, k, scales, rows, p.d, n, p.ahead, p.integersInOrder)
	}
	for _, bad := range w.bad {
		if r := bad - row; r >= 0 && r < rows {
			online.FillNaN(s[r*Block:][:n])
		}
	}
}

// accumulate adds values, integers or codes, weighted by a tile's weights.
func (w *intScratch) accumulate(p *plan, o []float32, values []byte, alpha []float32, rows int,
	layout *kernel.PanelLayout, format kernel.Format) {
	var x integers.Sums // field by field, since a copy would wait for the stores
	x.O, x.W, x.Alpha, x.F = o, &w.weights, alpha, w.scales
	x.Rows, x.OStride, x.WStride, x.FStride = rows, p.oStride, Block, 1
	if format == kernel.I4 {
		int4.Accumulate(&tuned, &x, values, layout)
	} else {
		integers.Accumulate(&tuned, &x, values, layout)
	}
}

// rotateCopy copies rows of queries, stride apart, and rotates them as rotateQueries does.
func (p *plan) rotateCopy(dst, q []float32, rows, stride int) {
	if rotation := p.d & -p.d; p.packed == nil && rotation > 1 && !p.flip {
		integers.Rotate(tuned.ISA, dst, q, rows, p.d, p.d, stride, rotation)
		return
	}
	integers.CopyRows(tuned.ISA, dst, q, rows, p.d, stride)
	if p.flip {
		floats.Scale(tuned.ISA, dst, dst, -1)
	}
	p.rotateQueries(dst)
}

// rotateQueries rotates contiguous rows as the call's keys are rotated.
func (p *plan) rotateQueries(q []float32) {
	switch rotation := p.d & -p.d; {
	case p.packed != nil && p.packed.Rotates:
		p.packed.Rotate(tuned.ISA, q)
	case p.packed == nil && p.integers && rotation > 1:
		integers.RotateAll(tuned.ISA, q, rotation)
	}
}

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
