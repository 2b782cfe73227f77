package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// optionScores turns a tile's products, from row at of w.s on, into scores: it applies softcap,
// bias and ALiBi if they are given, and the scale with the first of these; without them the scale
// is left out. It reports whether every row sees every key of the block; if not, w.visible has a
// bit for each key that a row sees.
func (w *scratch) optionScores(p *plan, c *chunk, b *blockKeys, t *tile, at int) (full bool) {
	if p.natural { // an option needs natural scores
		w.naturalOptions(p, c, b, t, at)
	}
	if full = t.uniform && t.lo == 0 && t.hi == Block; !full {
		w.visibleKeys(p, c, b, t, at)
	}
	return full
}

// naturalOptions applies the options to scores.
func (w *scratch) naturalOptions(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	if !c.apart || !b.biased && p.slopes == nil {
		w.rowScores(p, c, b, t, at)
		return
	}
	for i := range w.beside {
		x := &w.beside[i].chunk
		from, to := max(x.at, c.at+t.row), min(x.at+x.rows, c.at+t.row+t.rows)
		if from < to {
			rows := tile{row: from - x.at, rows: to - from, lo: t.lo, hi: t.hi}
			w.rowScores(p, x, b, &rows, at+from-c.at-t.row)
		}
	}
}

// rowScores turns a tile's products into scores, for rows of one sequence.
func (w *scratch) rowScores(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	u := p.scoreScale
	switch {
	case p.integers:
		w.int8Scores(p, c, b, t, at)
	case p.softcap > 0:
		w.softcap(p.softcap, u/p.softcap, t, at)
		u = 1
	}
	if p.integers {
		// done
	} else if b.biased || t.asks {
		w.addBias(p, c, b, t, at, u)
	} else if u != 1 {
		w.scaleScores(u, t, at)
	}
	switch {
	case p.slopes == nil:
		// none
	case p.parents != nil:
		w.addTreeSlopes(p, c, b, t, at)
	case p.listed:
		w.addListSlopes(p, c, b.first, t, at)
	default:
		w.addSlopes(p, c, b.first, t, at)
	}
}

// softcap caps the tile's scores: at once if they are contiguous.
func (w *scratch) softcap(most, factor float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		floats.Softcap(tuned.ISA, w.s[at*Block:][:t.rows*Block], most, factor)
		return
	}
	for r := range t.rows {
		floats.Softcap(tuned.ISA, w.s[(at+r)*Block:][t.lo:t.hi], most, factor)
	}
}

// int8Scores turns products into natural scores and applies options, row by row, since each row has
// its unit.
func (w *scratch) int8Scores(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	for r := range t.rows {
		row, u := c.row+t.row+r, w.ints.units[c.at+t.row+r]
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		if p.softcap > 0 {
			floats.Softcap(tuned.ISA, s, p.softcap, min(u/p.softcap, math.MaxFloat32)) // ±Inf·0 is NaN
			u = 1
		}
		if b.biased {
			bias := w.biasOf(p, c, row, b.first, t.lo, t.hi)
			floats.AddBias(tuned.ISA, s, bias, 1, 1, 0, t.hi-t.lo, u)
		} else if u != 1 {
			floats.Scale(tuned.ISA, s, s, u)
		}
	}
}

// scaleScores multiplies the tile's scores: at once if they are contiguous.
func (w *scratch) scaleScores(u float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		s := w.s[at*Block:][:t.rows*Block]
		floats.Scale(tuned.ISA, s, s, u)
		return
	}
	for r := range t.rows {
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		floats.Scale(tuned.ISA, s, s, u)
	}
}

// addSlopes adds ALiBi to the tile's scores.
func (w *scratch) addSlopes(p *plan, c *chunk, first int, t *tile, at int) {
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		floats.Alibi(tuned.ISA, w.s[(at+r)*Block:][t.lo:t.hi], p.slopes[h], first+t.lo-i-c.position)
	}
}

// addBias adds the bias to the tile's scores.
func (w *scratch) addBias(p *plan, c *chunk, b *blockKeys, t *tile, at int, u float32) {
	if p.listed {
		w.addListBias(p, c, b.first, t, at, u)
		return
	}
	row, heads, step, stride := c.row+t.row, min(p.group, t.rows), p.group, p.bias.SL
	_, queries := p.queries(row, t.rows)
	if queries == 1 { // by heads
		heads, step, stride = 1, 1, p.bias.SH
	}
	for r := range heads {
		h, i, rows := p.ofHead(c.kv, row, t.rows, r)
		if queries == 1 {
			rows = t.rows
		}
		bias, s := p.bias.Data[p.bias.offset(c.b, h, i)+c.base+b.first+t.lo:], w.s[(at+r)*Block+t.lo:]
		if t.asks {
			w.seeBias(b, t, &biasRows{s, bias, w.seen[c.at+t.row+r:], rows, step, stride}, u)
		} else {
			floats.AddBias(tuned.ISA, s, bias, rows, step, stride, t.hi-t.lo, u)
		}
	}
}

// biasRows is the biases of every step-th row of a tile.
type biasRows struct {
	s, bias            []float32
	seen               []uint64 // keys that the rows see
	rows, step, stride int      // biases are stride apart
}

// seeBias is addBias of some rows that also finds which keys the bias hides: a few rows at a time,
// which the L1 cache holds.
func (w *scratch) seeBias(b *blockKeys, t *tile, of *biasRows, u float32) {
	const few = 8
	step, stride := of.step, of.stride
	for r := 0; r < of.rows; r += few {
		n, keys, x := min(few, of.rows-r), t.hi-t.lo, of.bias[r*stride:]
		hides, adds := floats.MaskBias(tuned.ISA, x, of.seen[r*step:], n, step, stride, t.lo, keys)
		floats.AddBias(tuned.ISA, of.s[r*step*Block:], x, n, step, stride, keys, u)
		b.biased = b.biased || adds
		if hides {
			b.hides, w.biasHid, t.uniform = true, true, false
		}
	}
}

// visibleKeys sets a bit in w.visible for each key of the block that a row sees by its position,
// mask and blocks.
func (w *scratch) visibleKeys(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	visible := w.visible[at:][:t.rows]
	if b.partly {
		copy(visible, w.seen[c.at+t.row:])
		return
	}
	seen := kernel.LowBits(t.hi) &^ kernel.LowBits(t.lo)
	more, i := p.locate(0, c.row+t.row) // rows of the query before this one
	for r := range visible {
		if !t.uniform && (r == 0 || more == 0) {
			lo, hi := p.keyRange(c, i)
			end, begin := min(max(hi-b.first, t.lo), t.hi), min(max(lo-b.first, t.lo), t.hi)
			seen = kernel.LowBits(end) &^ kernel.LowBits(begin)
		}
		if more++; more == p.group {
			i, more = i+1, 0
		}
		visible[r] = seen
	}
}
