package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
)

// viewKind is keys and values where the caller has them: rows, which few rows of queries read in
// place, and for more are packed into panels once for all.
type viewKind struct{}

func (viewKind) keys(w *scratch, p *plan, c *chunk, b *part) {
	inPlace := c.rows <= p.keys.inPlaceRows
	w.queue.inOrder, w.pointer = p.inOrder && inPlace, p.pointerOf(&p.keys, &p.k, c, b)
	if !inPlace {
		from := b.lo / panel * panel // panels begin at multiples of panel
		k := p.k.Data[p.k.offset(c.b, c.kv, b.first+from):]
		packKeys(w.k[from*p.d:], k, p.k.SL, b.hi-from, p.d)
	}
}

func (viewKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, at int) {
	if c.rows > p.keys.inPlaceRows {
		panelKind{}.score(w, p, c, b, t, at)
		return
	}
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	k := p.k.Data[p.k.offset(c.b, c.kv, b.first+lo):]
	scoreRows(w.s[at*Block+lo:], w.queries(p, c, t.row), k, t.rows, p.d, p.k.SL, hi-lo, &w.queue)
}

func (viewKind) values(w *scratch, p *plan, c *chunk, b *part) {
	w.layoutPanels(p, false) // packed here: it is in the cache
	w.layout.pointer = p.pointerOf(&p.values, &p.v, c, b)
	if c.rows <= p.values.inPlaceRows { // whole vectors can be read where they are
		w.layout.stride, w.layout.panelStride, w.layout.inOrder = p.v.SL, panel, p.inOrder
		return
	}
	from := p.v.Data[p.v.offset(c.b, c.kv, b.first+b.lo):]
	packValues(w.v[b.lo*panel:], from, p.v.SL, b.hi-b.lo, p.dv)
}

// panelKind is float32 in packed order: keys as score reads them, and values as accumulate does.
type panelKind struct{}

func (panelKind) keys(w *scratch, p *plan, c *chunk, b *part) {
	w.queue.inOrder = c.rows <= p.inOrderRows
	if w.pointer = 0; c.rows <= p.keys.pagedRows {
		w.pointer = operand.Address(p.packed.data, b.place)
	}
}

func (panelKind) score(w *scratch, p *plan, c *chunk, b *part, t *tile, at int) {
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	if p.pairwise {
		w.prefetchPairs(p, c, b, t)
	}
	k, from := w.floatKeys(p, b), lo/panel*panel
	count := (hi - from + panel - 1) / panel
	scorePrefetch(w.s[at*Block+from:], w.queries(p, c, t.row), k[from*p.d:], t.rows, p.d, count,
		&w.queue)
}

func (panelKind) values(w *scratch, p *plan, c *chunk, b *part) {
	w.layoutPanels(p, c.rows <= p.inOrderRows)
	if c.rows <= p.values.pagedRows {
		w.layout.pointer = operand.Address(p.packed.data, b.place+p.packed.keyBytes)
	}
}

// layoutPanels makes w.layout that of float32 in panels.
func (w *scratch) layoutPanels(p *plan, inOrder bool) {
	w.layout.cols, w.layout.stride, w.layout.panelStride = roundUp(p.dv, 8), panel, Block*panel
	w.layout.set(&tuned, false, inOrder)
}

func (panelKind) accumulate(w *scratch, p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	v := w.floatValues(p, c, b)
	layout, alpha := &w.layout, w.alpha[at:]
	layout.keys, layout.overwrite = hi-lo, st.overwrite
	if lo > t.lo {
		layout.overwrite, alpha = false, ones[:] // an earlier step has multiplied outputs
	}
	o, weights, values := st.o[(c.at+t.row)*p.oStride:], w.s[at*Block+lo:], v[lo*layout.stride:]
	if w.hides(p, b, t, v, at) {
		accumulateMasked(o, weights, values, alpha, t.rows, p.oStride, Block, layout)
		return
	}
	accumulate(o, weights, values, alpha, t.rows, p.oStride, Block, layout)
}

// hides reports whether some row of a tile does not see some of its keys, whatever options say, and
// a weight of 0 does not make their values vanish, since some value of the part is NaN or infinite.
// That is looked for once.
func (w *scratch) hides(p *plan, b *part, t *tile, v []float32, at int) bool {
	if t.uniform {
		all, every := lowBits(t.hi)&^lowBits(t.lo), true
		if p.bias.Data != nil {
			for _, visible := range w.visible[at:][:t.rows] {
				every = every && visible == all
			}
		}
		if every {
			return false
		}
	}
	if !w.scanned {
		w.scanned, w.finite = true, w.scan(b, v)
	}
	return !w.finite
}

// scan reports whether all values of a part are finite.
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
		return elements[float32](p.packed.data[b.place:][p.packed.keyBytes:p.packed.block])
	case c.rows <= p.values.inPlaceRows:
		return p.v.Data[p.v.offset(c.b, c.kv, b.first):]
	}
	return w.v
}
