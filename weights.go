package attn

import "github.com/seed-1415985d/attn/internal/f32"

// writeWeights computes the scores again, now that the final maximum and sum are known.
func (w *scratch) writeWeights(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		clear(p.weights.row(c.b, h, i))
	}
	for lo := c.lo; lo < c.hi; {
		s := span{first: lo / Block * Block, blocks: 1, step: Block}
		s.lo, s.hi = lo-s.first, min(c.hi-s.first, Block)
		w.weightsBlock(p, c, &s)
		lo = s.first + s.hi
	}
}

// weightsBlock writes the weights of a span of one block.
func (w *scratch) weightsBlock(p *plan, c *chunk, s *span) {
	b := block{typed: p.int8}
	var t tile
	b.k, b.kTyped, b.keyScales = w.loadKeys(p, c, &b, s.first, s.lo, s.hi)
	w.queue.clear()
	for row := 0; row < c.rows; row += t.rows {
		s.tile(p, c, row, &t)
		if t.lo == t.hi {
			continue
		}
		w.scores(p, c, s, &b, &t)
		if full := w.optionScores(p, c, s.first, &t, 0); full {
			w.visibleByPosition(p, c, s.first, &t, 0) // writing weights asks for each key
		}
		if p.sinks != nil { // the final maxima are in natural units
			w.naturalScores(p, c, &t)
		}
		w.writeTileWeights(p, c, s.first, &t)
	}
}

// naturalScores brings the scores of a tile from their units to natural ones.
func (w *scratch) naturalScores(p *plan, c *chunk, t *tile) {
	for r := range t.rows {
		if u := w.unitOf(p, c.at+t.row+r); u != 1 {
			s := w.s[r*Block:][t.lo:t.hi]
			scale(s, s, u)
		}
	}
}

// writeTileWeights writes the weights of a tile's scores.
func (w *scratch) writeTileWeights(p *plan, c *chunk, first int, t *tile) {
	for r := range t.rows {
		c2 := float32(f32.Log2E) // natural units
		if p.sinks == nil {
			c2 = w.factorOf(p, c.at+t.row+r)
		}
		m, l := w.total.m[c.at+t.row+r], w.total.l[c.at+t.row+r]
		if l == 0 {
			continue // fully masked: the row is zero already
		}
		h, i := p.locate(c.kv, c.row+t.row+r)
		at := p.weights.offset(c.b, h, i) + first
		weights(p.weights.Data[at+t.lo:at+t.hi], w.s[r*Block+t.lo:], m, 1/l, c2, w.visible[r]>>t.lo)
	}
}
