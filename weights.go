package attn

import "github.com/seed-1415985d/attn/internal/f32"

// writeWeights computes the scores again, now that the final maximum and sum are known.
func (w *scratch) writeWeights(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		clear(p.weights.row(c.b, h, i))
	}
	for lo := c.lo; lo < c.hi; {
		b := part{first: lo / Block * Block}
		b.lo, b.hi = lo-b.first, min(c.hi-b.first, Block)
		w.weightsBlock(p, c, &b)
		lo = b.first + b.hi
	}
}

// weightsBlock writes the weights of keys of one block.
func (w *scratch) weightsBlock(p *plan, c *chunk, b *part) {
	if p.packed != nil {
		b.place = p.placeOf(c, b.first)
	}
	if p.looks() && !w.look(p, c, b) {
		return
	}
	w.keys(p, c, b)
	w.queue.clear()
	var t tile
	for row := 0; row < c.rows; row += t.rows {
		if b.tile(p, c, row, &t); b.looked && !b.every {
			w.trim(b, &t)
		}
		if t.lo == t.hi {
			continue
		}
		w.score(p, c, b, &t, 0)
		if full := w.optionScores(p, c, b, &t, 0); full || p.bias.Data == nil {
			w.visibleKeys(p, c, b, &t, 0) // writing weights asks for each key
		}
		if p.sinks != nil {
			w.naturalScores(p, c, &t)
		}
		w.writeTileWeights(p, c, b.first, &t)
	}
}

// naturalScores brings the scores of a tile from their units to natural ones, where the final
// maxima are.
func (w *scratch) naturalScores(p *plan, c *chunk, t *tile) {
	for r := range t.rows {
		row := c.at + t.row + r
		if u := w.units.of(row); u != 1 && w.natural[row] {
			s := w.s[r*Block:][t.lo:t.hi]
			scale(s, s, u)
		}
	}
}

// writeTileWeights writes the weights of a tile's scores.
func (w *scratch) writeTileWeights(p *plan, c *chunk, first int, t *tile) {
	for r := range t.rows {
		row := c.at + t.row + r
		c2 := w.units.factor(row)
		if p.sinks != nil && w.natural[row] {
			c2 = f32.Log2E
		}
		m, l := w.total.m[row], w.total.l[row]
		if l == 0 {
			continue // fully masked: the row is zero already
		}
		h, i := p.locate(c.kv, c.row+t.row+r)
		at := p.weights.offset(c.b, h, i) + first
		weights(p.weights.Data[at+t.lo:at+t.hi], w.s[r*Block+t.lo:], m, 1/l, c2, w.visible[r]>>t.lo)
	}
}
