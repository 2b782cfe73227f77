package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Attention in 8-bit integers, Options.Integers. Blocks, spans, tiles and the softmax are those of
// every call; what differs is here:
//
//   - A row of queries becomes integers with one scale. Its scores are in a unit of its own,
//     |Scale| times that scale, and so is its factor of powers of 2.
//   - Scores are exact sums of integers times the scale of the key.
//   - Weights times the scales of the values become integers of 15 bits, with one scale for each
//     row and block, and their products with the values are exact sums again.

// int8Rows is what the rows of a chunk have beside their state.
type int8Rows struct {
	queries integerRows // rows × roundUp(D, 4)
	units   []float32   // of the scores of each row
	factors []float32   // unit·log₂e, or log₂e where scores are natural
	row     []int8      // a query on its way

	weights []int16   // of a tile: rows × Block, in the order of inGroupOrder
	scales  []float32 // of a tile's weights

	blocks int8Blocks // of the caller's views

	all []float32 // units of all rows of a call, for a State
}

// fit makes the memory large enough for calls of a plan.
func (w *int8Rows) fit(p *plan, rows, scores int) {
	w.queries.fit(rows*roundUp(p.d, 4), rows, p.headsPerChunk*p.chunkRows)
	w.units, w.factors = grow(w.units, rows), grow(w.factors, rows)
	w.row = grow(w.row, roundUp(p.d, 4))
	w.weights, w.scales = grow(w.weights, scores*Block), grow(w.scales, scores)
	if p.packed == nil && p.d > 0 {
		w.blocks.fit(p)
	}
}

// checkInt8 validates the option against the keys.
func (p *plan) checkInt8() error {
	switch {
	case p.packed != nil && p.packed.format != I8:
		return fail(ErrOption, "Integers is true over keys in %v, want I8", p.packed.format)
	case p.d >= maxInt8Dim:
		return fail(ErrUnsupported, "k.D is %d with Integers, want less than %d: sums would overflow", p.d,
			maxInt8Dim)
	}
	return nil
}

// maxInt8Dim bounds the products of a sum, each at most 127·127, so that 32 bits hold it.
const maxInt8Dim = 1 << 16

// decideInt8 says how chunks in integers read their queries, keys and values.
func (p *plan) decideInt8() {
	p.queriesInPlace, p.typedRows = false, math.MaxInt
	if p.packed != nil && p.plainScores() {
		p.blocks, p.spanRows = Segment/Block, maxTypedRows
	}
}

// packing is how keys and values of the call are packed.
func (w *int8Rows) packing(p *plan) *packedKV {
	if p.packed != nil {
		return p.packed
	}
	return &w.blocks.format
}

// int8BlockOf is the block of integers with key first: of the cache or store, or of the caller's
// keys and values.
func (w *scratch) int8BlockOf(p *plan, c *chunk, first int) []byte {
	if p.packed != nil {
		return p.blockOf(c, first)
	}
	return w.int8Block(p, c, first)
}

// quantizeQueries makes integers of the queries of one head's rows, which are rotated, and finds
// the unit of their scores. A query that is not finite makes its scores NaN.
func (w *int8Rows) quantizeQueries(p *plan, c *chunk, q []float32) {
	scales := w.units[c.at:][:c.rows]
	w.queries.quantize(c.at*roundUp(p.d, 4), c.at, scales, q, c.rows, p.d, p.d, w.row)
	for r, scale := range scales {
		w.setUnit(p, c.at+r, p.int8Unit(scale))
	}
}

// int8Unit is the unit of products with a query whose integers have a scale.
func (p *plan) int8Unit(scale float32) float32 {
	if scale == 0 {
		scale = 1 // all products are 0, in any unit
	}
	return float32(p.scale * scale)
}

// setUnit says in which unit the products of a row are.
func (w *int8Rows) setUnit(p *plan, row int, unit float32) {
	w.units[row], w.factors[row] = unit, f32.Log2E
	if !p.natural {
		w.factors[row] = float32(float64(unit) * f32.Log2E)
	}
}
