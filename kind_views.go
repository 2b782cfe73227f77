package attn

// viewKind is keys and values where the caller has them: rows, which few rows of queries read in
// place, and for more are packed into panels once for all.
type viewKind struct{}

func (viewKind) keys(w *scratch, p *plan, c *chunk, b *part) {
	if p.listed() {
		return // they are gathered
	}
	w.hintKeys(p, c, b)
	if p.keysInPlace(c) {
		return
	}
	from := b.lo / panel * panel // panels begin at multiples of panel
	packKeys(w.k[from*p.d:], p.k.Data[p.k.offset(c.b, c.kv, b.first+from):], p.k.SL, b.hi-from, p.d)
}

func (viewKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, at int) {
	if !p.keysInPlace(c) {
		panelKind{}.score(w, p, c, b, t, at)
		return
	}
	lo, hi := t.keysOf(b)
	w.queue.pointer = w.pointer
	k := p.k.Data[p.k.offset(c.b, c.kv, b.first+lo):]
	scoreRows(w.s[at*Block+lo:], w.queries(p, c, t.row), k, t.rows, p.d, p.k.SL, hi-lo, &w.queue)
}

func (viewKind) layout(w *scratch, p *plan, c *chunk) {
	w.layoutPanels(p, false) // packed here: it is in the cache
	if p.valuesInPlace(c) {  // whole vectors can be read where they are
		w.layout.stride, w.layout.panelStride, w.layout.inOrder = p.v.SL, panel, p.inOrder
	}
}

func (viewKind) values(w *scratch, p *plan, c *chunk, b *part) {
	if p.listed() {
		return
	}
	w.hintValues(p, c, b)
	if !p.valuesInPlace(c) {
		from := p.v.Data[p.v.offset(c.b, c.kv, b.first+b.lo):]
		packValues(w.v[b.lo*panel:], from, p.v.SL, b.hi-b.lo, p.dv)
	}
}
