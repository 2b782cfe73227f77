package attn

import "github.com/seed-1415985d/attn/internal/operand"

// panelKind is float32 in packed order: keys as score reads them, and values as accumulate does.
type panelKind struct{}

func (panelKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, at int) {
	lo, hi := t.keysOf(b)
	if p.looks() {
		w.prefetchPairs(p, c, b, t)
	}
	k := w.floatKeys(p, b)
	w.hintPanels(p, c, k)
	from := lo / panel * panel
	count := (hi - from + panel - 1) / panel
	scorePrefetch(w.s[at*Block+from:], w.queries(p, c, t.row), k[from*p.d:], t.rows, p.d, count,
		&w.queue)
}

func (panelKind) layout(w *scratch, p *plan, c *chunk) {
	w.layoutPanels(p, c.rows <= p.inOrderRows)
}

// layoutPanels makes w.layout that of values in panels.
func (w *scratch) layoutPanels(p *plan, inOrder bool) {
	w.layout.cols, w.layout.stride, w.layout.panelStride = roundUp(p.dv, 8), panel, Block*panel
	w.layout.set(&tuned, 0, inOrder)
}

func (panelKind) values(w *scratch, p *plan, c *chunk, b *part) {
	if c.rows <= p.values.pagedRows {
		w.layout.pointer = operand.Address(w.floatValues(p, c, b), 0)
	}
}

func (panelKind) accumulate(w *scratch, p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	lo, hi := t.keysOf(b)
	v := w.floatValues(p, c, b)
	layout, alpha := &w.layout, w.alpha[at:]
	layout.keys, layout.overwrite = hi-lo, st.overwrite
	if lo > t.lo {
		layout.overwrite, alpha = false, ones[:] // an earlier step has multiplied outputs
	}
	o, weights, values := st.o[(c.at+t.row)*p.oStride:], w.s[at*Block+lo:], v[lo*layout.stride:]
	if !t.uniform && !w.allFinite(b, v) {
		accumulateMasked(o, weights, values, alpha, t.rows, p.oStride, Block, layout)
		return
	}
	accumulate(o, weights, values, alpha, t.rows, p.oStride, Block, layout)
}

// allFinite reports whether weights of 0 make any value of a part vanish. It looks once, and only
// for parts of which some row does not see some key.
func (w *scratch) allFinite(b *part, v []float32) bool {
	if !w.scanned {
		w.scanned, w.finite = true, w.scan(b, v)
	}
	return w.finite
}

func (w *scratch) scan(b *part, v []float32) bool {
	layout := &w.layout
	if layout.panelStride == panel { // rows, as the caller has them
		for j := b.lo; j < b.hi; j++ {
			if !allFinite(v[j*layout.stride:][:layout.cols]) {
				return false
			}
		}
		return true
	}
	for c := 0; c < layout.cols; c += panel {
		if !allFinite(v[c/panel*layout.panelStride:][b.lo*panel : b.hi*panel]) {
			return false
		}
	}
	return true
}

// floatKeys is the keys of a part that score reads as float32 in panels.
func (w *scratch) floatKeys(p *plan, b *part) []float32 {
	if p.keyKind == kindPanels {
		return elements[float32](p.packed.data[b.place:][:p.packed.keyBytes])
	}
	return w.k
}

// floatValues is the values of a part that accumulate reads as float32. (Those in place are the
// caller's: kept in w, they would escape to the heap.)
func (w *scratch) floatValues(p *plan, c *chunk, b *part) []float32 {
	switch {
	case p.valueKind == kindPanels:
		values, _ := p.packed.values(p.packed.data[b.place:])
		return elements[float32](values)
	case p.valuesInPlace(c):
		return p.v.Data[p.v.offset(c.b, c.kv, b.first):]
	}
	return w.v
}
