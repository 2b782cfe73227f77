package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/operand"
)

// floatKind is for float32: in panels of a cache or store, or in the caller's rows, which few rows
// of queries read in place, and which are packed into panels once for more rows.
type floatKind struct{}

func (floatKind) keys(w *scratch, p *plan, c *chunk, b *blockKeys) {
	if p.keyKind == kindPanels {
		w.queue.InOrder = c.rows <= p.inOrderRows
		w.queue.Packed = p.panelRows > 0 && c.rows >= p.panelRows
		if w.pointer = 0; c.rows >= p.panelRows && c.rows <= p.keys.pagedRows {
			w.pointer = operand.Address(b.data, b.place)
		}
		return
	}
	inPlace := c.rows <= p.keys.inPlaceRows
	w.queue.InOrder, w.pointer = p.inOrder && inPlace, p.pointerOf(&p.keys, &p.k, c, b)
	w.queue.Packed = c.rows >= kernel.PackedRows
	if !inPlace && !p.listed { // gathered keys are in the cache
		from := b.lo / panel * panel // panels begin at multiples of panel
		k := p.k.Data[p.k.offset(c.b, c.kv, c.base+b.first+from):]
		floats.PackKeys(&tuned, w.k[from*p.d:], k, p.k.SL, b.hi-from, p.d)
	}
}

func (floatKind) score(w *scratch, p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	if c.rows <= p.keys.inPlaceRows {
		k := p.k.Data[p.k.offset(c.b, c.kv, c.base+b.first+lo):]
		floats.ScoreRows(tuned.ISA, w.s[at*Block+lo:], w.queries(p, c, t.row),
			floats.KeyRows{K: k, Stride: p.k.SL, N: hi - lo}, t.rows, p.d, &w.queue)
		return
	}
	if p.looks {
		w.prefetchPairs(p, c, b, t)
	}
	k, from := w.floatKeys(p, b), lo/panel*panel
	count := (hi - from + panel - 1) / panel
	floats.Score(&tuned, w.s[at*Block+from:], w.queries(p, c, t.row), k[from*p.d:], t.rows, p.d, count,
		&w.queue)
}

func (floatKind) values(w *scratch, p *plan, c *chunk, b *blockKeys) {
	if p.valueKind == kindPanels {
		w.layoutPanels(p, c.rows <= p.inOrderRows)
		w.layout.Packed = p.panelRows > 0 && c.rows >= p.panelRows
		if c.rows >= p.panelRows && c.rows <= p.values.pagedRows {
			w.layout.Pointer = operand.Address(b.data, b.place+p.packed.KeyBytes)
		}
		return
	}
	w.layoutPanels(p, false) // packed here: in the cache
	w.layout.Pointer, w.layout.OneStream = p.pointerOf(&p.values, &p.v, c, b), p.oneStream
	w.layout.Packed = c.rows >= kernel.PackedRows
	if c.rows-b.blind <= p.values.inPlaceRows { // kernels read whole vectors in place
		w.layout.Stride, w.layout.PanelStride, w.layout.InOrder = p.v.SL, panel, p.inOrder
		return
	}
	if p.listed {
		return
	}
	from := p.v.Data[p.v.offset(c.b, c.kv, c.base+b.first+b.lo):]
	floats.PackValues(&tuned, w.v[b.lo*panel:], from, p.v.SL, b.hi-b.lo, p.dv)
}

// layoutPanels sets w.layout to the layout of float32 in panels.
func (w *scratch) layoutPanels(p *plan, inOrder bool) {
	w.layout.Cols, w.layout.Stride, w.layout.PanelStride = kernel.RoundUp(p.dv, 8), panel, Block*panel
	w.layout.Set(&tuned, tuned.PrefetchOne, tuned.PrefetchFew+p.further, inOrder)
}

// ones are factors that do not change outputs.
var ones = func() (x [maxTileRows]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

func (floatKind) accumulate(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys, t *tile,
	at int) {
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	v := w.floatValues(p, c, b)
	layout, alpha := &w.layout, w.alpha[at:]
	layout.Keys, layout.Overwrite = hi-lo, st.Overwrite
	if lo > t.lo {
		layout.Overwrite, alpha = false, ones[:] // an earlier step has multiplied outputs
	}
	sums := kernel.Sums{O: st.O[(c.at+t.row)*p.oStride:], P: w.s[at*Block+lo:], Alpha: alpha,
		Rows: t.rows, OStride: p.oStride, PStride: Block}
	if !t.uniform && w.hides(b, v) {
		floats.AccumulateMasked(&tuned, &sums, v[lo*layout.Stride:], layout)
		return
	}
	floats.Accumulate(&tuned, &sums, v[lo*layout.Stride:], layout)
}

// hides reports whether a block has a value that is NaN or infinite, which a weight of 0 would not
// remove for rows that do not see it. The block is searched once.
func (w *scratch) hides(b *blockKeys, v []float32) bool {
	if w.scanned {
		return !w.finite
	}
	layout := &w.layout
	if w.scanned, w.finite = true, true; layout.PanelStride == panel { // the caller's rows
		for j := b.lo; j < b.hi && w.finite; j++ {
			w.finite = floats.AllFinite(tuned.ISA, v[j*layout.Stride:][:layout.Cols])
		}
	} else {
		for c := 0; c < layout.Cols && w.finite; c += panel {
			w.finite = floats.AllFinite(tuned.ISA, v[c/panel*layout.PanelStride:][b.lo*panel:b.hi*panel])
		}
	}
	return !w.finite
}

// floatKeys returns the keys of a block that score reads as float32 in panels.
func (w *scratch) floatKeys(p *plan, b *blockKeys) []float32 {
	if p.keyKind == kindPanels {
		return elements[float32](b.data[b.place:][:p.packed.KeyBytes])
	}
	return w.k
}

// floatValues returns the values of a block that accumulate reads as float32. (Values in place are
// the caller's, and would escape to the heap if w kept them.)
func (w *scratch) floatValues(p *plan, c *chunk, b *blockKeys) []float32 {
	switch {
	case p.valueKind == kindPanels:
		return elements[float32](b.data[b.place:][p.packed.KeyBytes:p.packed.Size])
	case c.rows-b.blind <= p.values.inPlaceRows:
		return p.v.Data[p.v.offset(c.b, c.kv, c.base+b.first):]
	}
	return w.v
}

// pointerOf returns the prefetch pointer of kernels that read keys or values of a block, page by
// page (gen/prefetch_pages.go) or line by line (gen/sequential.go); 0 if they do not prefetch so.
// Kernels prefetch the memory prefetchWindow after it. If the rows of a head are contiguous, they
// are one stream. If instead the heads of a token and the tokens are contiguous, the tokens are one
// stream: while head h reads a block, it prefetches share h of the next block, so the pointer is a
// window before that share. In steps it prefetches the next step: after the last step of keys the
// first of values, and after the last of values the next block's first keys.
func (p *plan) pointerOf(at *placement, x *Tensor, c *chunk, b *blockKeys) uintptr {
	next, n := b.first+Block, Block // a head prefetches its share of n tokens of all heads
	switch step := p.step < Block && b.hi-b.lo == p.step; {
	case step && b.hi < Block:
		next, n = b.first+b.hi, p.step
	case step && x == &p.k:
		x, next, n = &p.v, b.first, p.step
	case step:
		x, n = &p.k, p.step
	case c.rows > at.pagedRows:
		return 0
	case !at.shared:
		return operand.Address(x.Data, x.offset(c.b, c.kv, c.base+b.first))
	}
	if next += c.base; next >= x.L {
		return 0
	}
	return operand.Address(x.Data, x.offset(c.b, 0, next)+c.kv*n*x.D) - kernel.PrefetchWindow
}
