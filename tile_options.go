package attn

import "math"

// optionScores makes scores of a tile's products, whose first row is at in w.s: softcap, bias and
// ALiBi where asked for. The scale goes in with the first of these, and stays out where there is
// none. It reports whether every row sees every key of the block; if not, the keys that a row sees
// have their bits set in w.visible.
func (w *scratch) optionScores(p *plan, c *chunk, b *part, t *tile, at int) (full bool) {
	if full = t.uniform && t.lo == 0 && t.hi == Block; !full {
		w.visibleKeys(p, c, b, t, at)
	}
	switch {
	case !p.natural: // none is asked for
		return full
	case !c.apart || !b.biased && p.slopes == nil:
		w.rowScores(p, c, b, t, at)
		return full
	}
	for i := range w.beside {
		x := &w.beside[i].chunk
		from, to := max(x.at, c.at+t.row), min(x.at+x.rows, c.at+t.row+t.rows)
		if from < to {
			rows := tile{row: from - x.at, rows: to - from, lo: t.lo, hi: t.hi}
			w.rowScores(p, x, b, &rows, at+from-c.at-t.row)
		}
	}
	return full
}

// rowScores makes scores of a tile's products whose rows are of one sequence.
func (w *scratch) rowScores(p *plan, c *chunk, b *part, t *tile, at int) {
	u := p.scale
	switch {
	case p.integers:
		w.int8Scores(p, c, b, t, at)
	case p.softcap > 0:
		w.softcap(p.softcap, u/p.softcap, t, at)
		u = 1
	}
	if p.integers {
		// done
	} else if b.biased {
		w.addBias(p, c, b.first, t, at, u)
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

// softcap caps the tile's scores: at once where they are side by side.
func (w *scratch) softcap(most, factor float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		softcap(w.s[at*Block:][:t.rows*Block], most, factor)
		return
	}
	for r := range t.rows {
		softcap(w.s[(at+r)*Block:][t.lo:t.hi], most, factor)
	}
}

// int8Scores makes natural scores of products, and options of these, row by row, since each row has
// its unit.
func (w *scratch) int8Scores(p *plan, c *chunk, b *part, t *tile, at int) {
	for r := range t.rows {
		row, u := c.row+t.row+r, w.ints.units[c.at+t.row+r]
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		if p.softcap > 0 {
			softcap(s, p.softcap, min(u/p.softcap, math.MaxFloat32)) // ±Inf and 0 make NaN
			u = 1
		}
		if b.biased {
			bias := w.biasOf(p, c, row, b.first, t.lo, t.hi)
			addBias(s, bias, 1, 1, 0, t.hi-t.lo, u)
		} else if u != 1 {
			scale(s, s, u)
		}
	}
}

// scaleScores multiplies the tile's scores: at once where they are side by side.
func (w *scratch) scaleScores(u float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		s := w.s[at*Block:][:t.rows*Block]
		scale(s, s, u)
		return
	}
	for r := range t.rows {
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		scale(s, s, u)
	}
}

// addSlopes adds ALiBi to the tile's scores.
func (w *scratch) addSlopes(p *plan, c *chunk, first int, t *tile, at int) {
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		alibi(w.s[(at+r)*Block:][t.lo:t.hi], p.slopes[h], first+t.lo-i-c.position)
	}
}

// addBias adds the bias to the tile's scores.
func (w *scratch) addBias(p *plan, c *chunk, first int, t *tile, at int, u float32) {
	if p.listed {
		w.addListBias(p, c, first, t, at, u)
		return
	}
	for r := range min(p.group, t.rows) {
		h, i := p.locate(c.kv, c.row+t.row+r)
		from := p.bias.offset(c.b, h, i) + c.base + first + t.lo
		s, rows := w.s[(at+r)*Block+t.lo:], p.rowsOfHead(t, r)
		addBias(s, p.bias.Data[from:], rows, p.group, p.bias.SL, t.hi-t.lo, u)
	}
}

// rowsOfHead is the number of rows that belong to the head of row first: that one
// and every group-th row after it. In a mask or bias they follow each other.
func (p *plan) rowsOfHead(t *tile, first int) int {
	return (t.rows - first + p.group - 1) / p.group
}

// visibleKeys leaves a bit in w.visible for each key of the block that a row sees by its position,
// mask and blocks.
func (w *scratch) visibleKeys(p *plan, c *chunk, b *part, t *tile, at int) {
	visible := w.visible[at:][:t.rows]
	if b.partly {
		copy(visible, w.seen[c.at+t.row:])
		return
	}
	seen := lowBits(t.hi) &^ lowBits(t.lo)
	for r := range visible {
		if !t.uniform {
			lo, hi := p.keyRange(c, (c.row+t.row+r)/p.group)
			seen = lowBits(min(max(hi-b.first, t.lo), t.hi)) &^ lowBits(min(max(lo-b.first, t.lo), t.hi))
		}
		visible[r] = seen
	}
}
