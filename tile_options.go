package attn

import "math"

// optionScores makes scores of a tile's products, whose first row is at in w.s: softcap, bias and
// ALiBi where asked for. The scale goes in with the first of these, and stays out where there is
// none. It reports whether every row sees every key of the block at key first; if not, the keys
// that a row sees have their bits set in w.visible.
func (w *scratch) optionScores(p *plan, c *chunk, b *part, t *tile, at int) (full bool) {
	full = t.uniform && t.lo == 0 && t.hi == Block
	if p.bias.Data != nil || !full {
		w.visibleKeys(p, c, b, t, at)
	}
	first := b.first
	u, every := p.scale, ^uint64(0)
	switch {
	case p.integers && p.natural:
		every = w.int8Scores(p, c, first, t, at)
	case p.softcap > 0:
		w.softcap(p.softcap, u/p.softcap, t, at)
		u = 1
	}
	if p.integers {
		// done
	} else if p.bias.Data != nil {
		every = w.addBias(p, c, first, t, at, u)
	} else if p.natural && u != 1 {
		w.scaleScores(u, t, at)
	}
	switch {
	case p.slopes == nil:
		// none
	case p.parents != nil:
		w.addTreeSlopes(p, c, b, t, at)
	case p.listed:
		w.addListSlopes(p, c, first, t, at)
	default:
		w.addSlopes(p, c, first, t, at)
	}
	return full && every == ^uint64(0)
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
// its unit. It returns the keys that are left in every row.
func (w *scratch) int8Scores(p *plan, c *chunk, first int, t *tile, at int) (every uint64) {
	every = ^uint64(0)
	for r := range t.rows {
		row, u := c.row+t.row+r, w.ints.units[c.at+t.row+r]
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		if p.softcap > 0 {
			softcap(s, p.softcap, min(u/p.softcap, math.MaxFloat32)) // ±Inf and 0 make NaN
			u = 1
		}
		if p.bias.Data != nil {
			bias := w.biasOf(p, c, row, first, t.lo, t.hi)
			every &= addBias(s, bias, w.visible[at+r:], 1, 1, 0, t.lo, t.hi-t.lo, u)
		} else if u != 1 {
			scale(s, s, u)
		}
	}
	return every
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

// addBias adds the bias to the tile's scores and takes the keys that it masks
// out of w.visible. It returns the keys that are left in every row.
func (w *scratch) addBias(p *plan, c *chunk, first int, t *tile, at int, u float32) (every uint64) {
	if p.listed {
		return w.addListBias(p, c, first, t, at, u)
	}
	every = ^uint64(0)
	for r := range min(p.group, t.rows) {
		h, i := p.locate(c.kv, c.row+t.row+r)
		from := p.bias.offset(c.b, h, i) + c.base + first + t.lo
		s, rows := w.s[(at+r)*Block+t.lo:], p.rowsOfHead(t, r)
		every &= addBias(s, p.bias.Data[from:], w.visible[at+r:],
			rows, p.group, p.bias.SL, t.lo, t.hi-t.lo, u)
	}
	return every
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
	if b.looked && !b.every {
		copy(visible, w.seen[t.row:])
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
