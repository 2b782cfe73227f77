package attn

// bitKind is elements of fewer bits than float32, in panels. For a few rows that see all keys of a
// block, kernels widen them in registers; for others a block is widened to panels of float32 once.
type bitKind struct{}

// widens reports whether kernels widen a part for themselves.
func (bitKind) widens(p *plan, c *chunk, b *part) bool { return b.equal && c.rows <= p.typedRows }

func (bitKind) keys(w *scratch, p *plan, c *chunk, b *part) {
	keys, scales := p.packed.keys(p.packed.data[b.place:][:p.packed.block])
	w.pointer, w.queue.inOrder = 0, c.rows <= p.inOrderRows
	if (bitKind{}).widens(p, c, b) {
		w.keyed = operands{bits: keys, scales: scales}
		return
	}
	layout := scoreLayout(p.packed.format, p.d, roundUp(b.hi, panel))
	widen(p.packed.format, w.k, keys, p.d*panel, &layout)
	w.keyed = operands{floats: w.k, scales: scales}
}

func (bitKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, at int) {
	k := &w.keyed
	lo, hi := t.keysOf(b)
	if k.bits != nil {
		scoreTyped(p.packed.format, w.s[at*Block:], w.queries(p, c, t.row), k.bits, t.rows, p.d, hi)
	} else {
		panelKind{}.score(w, p, c, b, t, at)
	}
	if k.scales != nil {
		scaleColumns(w.s[at*Block+lo:], k.scales[lo:hi], t.rows, Block, hi-lo)
	}
}

func (bitKind) values(w *scratch, p *plan, c *chunk, b *part) {
	values, scales := p.packed.values(p.packed.data[b.place:][:p.packed.block])
	if (bitKind{}).widens(p, c, b) {
		w.layoutTyped(p.packed)
		w.valued = operands{bits: values, scales: scales}
		return
	}
	from := p.packed.valueLayout(b.hi)
	widen(p.packed.format, w.v, values, Block*panel, &from)
	w.layoutPanels(p, 0, false) // what has just been widened is in the cache
	w.valued = operands{floats: w.v, scales: scales}
}

// layoutTyped makes w.layout that of values in panels of fewer bits.
func (w *scratch) layoutTyped(s *packedKV) {
	l := &w.layout
	l.cols, l.stride, l.panelStride = s.cols, panel, Block*panel
	if s.group > 1 {
		l.stride, l.panelStride = s.group*s.cols, s.group*panel
	}
	l.setTyped(&tuned)
}

func (bitKind) accumulate(w *scratch, p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	v := &w.valued
	if v.bits == nil {
		panelKind{}.accumulate(w, p, c, st, b, t, at)
		return
	}
	w.layout.keys, w.layout.overwrite = t.hi, st.overwrite
	accumulateTyped(p.packed.format, st.o[(c.at+t.row)*p.oStride:], w.s[at*Block:], v.bits, w.alpha[at:],
		t.rows, p.oStride, Block, &w.layout)
}
