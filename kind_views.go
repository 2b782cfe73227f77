package attn

// viewKind is keys and values where the caller has them: rows, which few rows of queries read in place,
// and for more are packed into panels once for all.
type viewKind struct{}

func (viewKind) keys(w *scratch, p *plan, c *chunk, b *part) operands {
	w.hintKeys(p, c, b)
	if p.keysInPlace(c) {
		return operands{floats: p.k.Data[p.k.offset(c.b, c.kv, b.first):]}
	}
	from := b.lo / panel * panel // panels begin at multiples of panel
	packKeys(w.k[from*p.d:], p.k.Data[p.k.offset(c.b, c.kv, b.first+from):], p.k.SL, b.hi-from, p.d)
	return operands{floats: w.k}
}

func (viewKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, k *operands, at int) {
	lo, hi := t.keysOf(b)
	if !p.keysInPlace(c) {
		panelKind{}.score(w, p, c, b, t, k, at)
		return
	}
	w.queue.pointer = w.pointer
	scoreRows(w.s[at*Block+lo:], w.queries(p, c, t.row), k.floats[lo*p.k.SL:], t.rows, p.d, p.k.SL, hi-lo,
		&w.queue)
}

func (viewKind) values(w *scratch, p *plan, c *chunk, b *part) operands {
	layout := &w.layout
	layout.cols = roundUp(p.dv, 8)
	if c.rows <= p.values.inPlaceRows { // whole vectors can be read where they are
		layout.stride, layout.panelStride = p.v.SL, panel
		w.hintValues(p, c, b, p.inOrder)
		return operands{floats: p.v.Data[p.v.offset(c.b, c.kv, b.first):]}
	}
	layout.stride, layout.panelStride = panel, Block*panel
	w.hintValues(p, c, b, false) // packed here: it is in the cache
	from := p.v.Data[p.v.offset(c.b, c.kv, b.first+b.lo):]
	packValues(w.v[b.lo*panel:], from, p.v.SL, b.hi-b.lo, p.dv)
	return operands{floats: w.v}
}
