package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/operand"
)

// block is keys and values of one head in the form that the kernels read: a block of them, or one
// step of it. Key indices count from the block's first key, which is a multiple of Block.
type block struct {
	first  int // absolute index of the block's first key
	lo, hi int // keys that are there; others are read up to the panel's ends and left out

	k       []float32 // from key 0 of the block on: packed panels, or the caller's rows
	kStride int       // distance of the caller's rows; 0 if packed
	pointer uintptr   // of the keys, for paged prefetch

	v      []float32   // from key 0 of the block on
	layout panelLayout // of v; keys and overwrite are set for each tile

	typed                  bool      // keys and values of fewer bits, which kernels widen, are
	kTyped, vTyped         []byte    // in the place of k and v
	keyScales, valueScales []float32 // one for each key, if the format has scales

	scanned bool // finite is known
	finite  bool // no value in [lo, hi) is NaN or infinite
}

// loadKeys makes b's keys [lo, hi) of the block at key first: those of a cache or store, the
// caller's rows for few queries, or packed here. It returns b.k, or b.kTyped, and b.keyScales,
// which it must not set: stored through a pointer, the caller's buffer would escape to the heap.
func (w *scratch) loadKeys(p *plan, c *chunk, b *block, first, lo, hi int) (
	k []float32, typed []byte, scales []float32) {
	b.first, b.lo, b.hi, b.scanned, b.kStride, b.pointer = first, lo, hi, false, 0, 0
	if p.int8 {
		keys, scales := w.int8.packing(p).keys(w.int8BlockOf(p, c, first))
		return nil, keys, scales
	}
	if p.packed != nil {
		keys, scales := p.packed.keys(p.blockOf(c, first))
		if p.packed.format == F32 {
			k = elements[float32](keys)
			if c.rows <= p.keys.pagedRows {
				b.pointer = operand.Address(k, 0)
			}
			return k, nil, nil
		} else if b.typed {
			return nil, keys, scales
		}
		layout := scoreLayout(p.packed.format, p.d, roundUp(hi, panel))
		widen(p.packed.format, w.k, keys, p.d*panel, &layout)
		return w.k, nil, scales
	}
	b.pointer, _ = p.pointers(c, first, lo, hi)
	if c.rows <= p.keys.inPlaceRows {
		b.kStride = p.k.SL
		return p.k.Data[p.k.offset(c.b, c.kv, first):], nil, nil
	}
	from := lo / panel * panel // panels begin at multiples of panel
	packKeys(w.k[from*p.d:], p.k.Data[p.k.offset(c.b, c.kv, first+from):], p.k.SL, hi-from, p.d)
	return w.k, nil, nil
}

// loadValues does the same for values, and returns b.v, or b.vTyped, and b.valueScales. Whole
// vectors can be read where they are.
func (w *scratch) loadValues(p *plan, c *chunk, b *block, first, lo, hi int) (
	v []float32, typed []byte, scales []float32) {
	b.first, b.lo, b.hi, b.scanned = first, lo, hi, false
	layout := &b.layout
	layout.cols, layout.stride, layout.panelStride = roundUp(p.dv, 8), panel, Block*panel
	if p.packed != nil && p.packed.valuesInKeys {
		return w.loadTurned(p, b, hi)
	}
	if p.int8 {
		values, scales := w.int8.packing(p).values(w.int8BlockOf(p, c, first))
		return nil, values, scales
	}
	if p.packed != nil {
		values, scales := p.packed.values(p.blockOf(c, first))
		switch {
		case p.packed.format == F32:
			v, pointer := elements[float32](values), uintptr(0)
			if c.rows <= p.values.pagedRows {
				pointer = operand.Address(v, 0)
			}
			layout.set(&tuned, pointer, c.rows <= p.inOrderRows)
			return v, nil, nil
		case b.typed:
			*layout = p.packed.valueLayout(Block)
			layout.setTyped(&tuned)
			return nil, values, scales
		}
		from := p.packed.valueLayout(hi)
		widen(p.packed.format, w.v, values, Block*panel, &from)
		layout.set(&tuned, 0, false) // what has just been widened is in the cache
		return w.v, nil, scales
	}
	_, pointer := p.pointers(c, first, lo, hi)
	if c.rows <= p.values.inPlaceRows {
		layout.stride, layout.panelStride = p.v.SL, panel
		layout.set(&tuned, pointer, p.inOrder)
		return p.v.Data[p.v.offset(c.b, c.kv, first):], nil, nil
	}
	layout.set(&tuned, pointer, false) // packed here: it is in the cache
	packValues(w.v[lo*panel:], p.v.Data[p.v.offset(c.b, c.kv, first+lo):], p.v.SL, hi-lo, p.dv)
	return w.v, nil, nil
}

// loadTurned is loadValues where values are part of keys, which b has.
func (w *scratch) loadTurned(p *plan, b *block, hi int) (
	v []float32, typed []byte, scales []float32) {
	layout := &b.layout
	if !b.typed && !p.int8 {
		transposeFloats(w.v, b.k, p.d, p.dv, hi)
		layout.set(&tuned, 0, false) // what has just been turned is in the cache
		return w.v, nil, b.keyScales
	}
	*layout = p.packed.valueLayout(Block)
	layout.setTyped(&tuned)
	typed = memoryOf(w.v)
	switch s := p.packed; s.bytes {
	case 2:
		transposeHalves(elements[uint16](typed), elements[uint16](b.kTyped), p.d, p.dv, hi)
	case 1:
		transposeGroups(typed, b.kTyped, p.d, p.dv, s.cols, hi)
	}
	return nil, typed, b.keyScales
}

// memoryOf is float32 numbers as bytes.
func memoryOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// allFinite reports whether weights of 0 make any value of the block vanish.
// It looks once, and only for blocks in which some row does not see some key.
func (b *block) allFinite() bool {
	if !b.scanned {
		b.scanned, b.finite = true, b.scan()
	}
	return b.finite
}

func (b *block) scan() bool {
	if b.layout.panelStride == panel { // rows, as the caller has them
		for j := b.lo; j < b.hi; j++ {
			if !allFinite(b.v[j*b.layout.stride:][:b.layout.cols]) {
				return false
			}
		}
		return true
	}
	for c := 0; c < b.layout.cols; c += panel {
		if !allFinite(b.v[c/panel*b.layout.panelStride:][b.lo*panel : b.hi*panel]) {
			return false
		}
	}
	return true
}

// tile is the rows that go through the kernels together, and the keys of the
// block that at least one of them sees.
type tile struct {
	row, rows int
	lo, hi    int
	uniform   bool // all rows see all keys of [lo, hi), by position
}

// queries is the queries of a head's rows from one on.
func (w *scratch) queries(p *plan, c *chunk, row int) []float32 {
	if p.queriesInPlace {
		h, i := p.locate(c.kv, c.row+row)
		return p.q.Data[p.q.offset(c.b, h, i):]
	}
	return w.q[(c.at+row)*p.d:]
}

// products leaves q·k of a tile's rows with keys [lo, hi) in w.s, from row at on.
func (w *scratch) products(p *plan, c *chunk, b *block, t *tile, at, lo, hi int) {
	if b.kStride == 0 && p.pairwise() {
		w.prefetchPairs(p, c, b, t)
	}
	q := w.queries(p, c, t.row)
	w.queue.pointer = b.pointer
	switch from := lo / panel * panel; {
	case p.int8:
		row := c.at + t.row
		scoreInt8(w.s[at*Block:], w.int8.queries.from(row*roundUp(p.d, 4), row), b.kTyped, b.keyScales,
			t.rows, p.d, hi)
		return
	case b.typed:
		scoreTyped(p.packed.format, w.s[at*Block:], q, b.kTyped, t.rows, p.d, hi)
	case b.kStride > 0:
		w.queue.inOrder = p.inOrder
		scoreRows(w.s[at*Block+lo:], q, b.k[lo*b.kStride:], t.rows, p.d, b.kStride, hi-lo, &w.queue)
	default:
		w.queue.inOrder = p.packed != nil && c.rows <= p.inOrderRows
		panels := (hi - from + panel - 1) / panel
		scorePrefetch(w.s[at*Block+from:], q, b.k[from*p.d:], t.rows, p.d, panels, &w.queue)
	}
	if b.keyScales != nil {
		scaleColumns(w.s[at*Block+lo:], b.keyScales[lo:hi], t.rows, Block, hi-lo)
	}
}

// blockValues makes weights of the scores of a tile and adds the values of a block that they weigh.
func (w *scratch) blockValues(p *plan, c *chunk, st *state, b *block, t *tile, at int) {
	row := c.at + t.row
	m, l, o := st.m[row:], st.l[row:], st.o[row*p.oStride:]
	every := w.optionScores(p, c, b.first, t, at)
	if p.int8 {
		w.int8Values(p, c, st, b, t, at, every)
		return
	}
	if b.typed || b.valueScales != nil {
		w.scaledValues(p, c, st, b, t, at, every)
		return
	}
	if every {
		layout := b.layout
		layout.keys, layout.overwrite = Block, st.overwrite
		if softmaxValues(w.s[at*Block:], m, l, w.alpha[at:], o, b.v, t.rows, p.oStride, &layout, p.c) {
			clearMasked(m, o, t.rows, p.oStride)
		}
		return
	}
	masked := softmaxMasked(w.s[at*Block:], m, l, w.alpha[at:], w.visible[at:], t.rows, p.c)
	w.accumulate(p, c, st, b, t, at, t.lo, t.hi)
	if masked {
		clearMasked(m, o, t.rows, p.oStride)
	}
}

// scaledValues is blockValues where weights are multiplied by the values' scales, or values are of
// fewer bits.
func (w *scratch) scaledValues(
	p *plan, c *chunk, st *state, b *block, t *tile, at int, every bool) {
	row, masked := c.at+t.row, false
	if m, l := st.m[row:], st.l[row:]; every {
		masked = softmax(w.s[at*Block:], m, l, w.alpha[at:], t.rows, p.c)
	} else {
		masked = softmaxMasked(w.s[at*Block:], m, l, w.alpha[at:], w.visible[at:], t.rows, p.c)
	}
	if b.valueScales != nil {
		scaleColumns(w.s[at*Block+t.lo:], b.valueScales[t.lo:t.hi], t.rows, Block, t.hi-t.lo)
	}
	if b.typed {
		layout := b.layout
		layout.keys, layout.overwrite = t.hi, st.overwrite
		accumulateTyped(p.packed.format, st.o[row*p.oStride:], w.s[at*Block:], b.vTyped, w.alpha[at:],
			t.rows, p.oStride, Block, &layout)
	} else {
		w.accumulate(p, c, st, b, t, at, t.lo, t.hi)
	}
	if masked {
		clearMasked(st.m[row:], st.o[row*p.oStride:], t.rows, p.oStride)
	}
}

// int8Values is scaledValues in integers.
func (w *scratch) int8Values(
	p *plan, c *chunk, st *state, b *block, t *tile, at int, every bool) {
	row, x := c.at+t.row, &w.int8
	var visible []uint64
	if !every {
		visible = w.visible[at:]
	}
	masked := softmaxInt8(x.weights, x.scales, w.s[at*Block:], st.m[row:], st.l[row:], w.alpha[at:],
		x.factors[row:], b.valueScales, visible, t.rows)
	layout := x.packing(p).valueLayout(Block)
	layout.setTyped(&tuned)
	layout.overwrite = st.overwrite
	weights := integerRows{words: x.weights}
	accumulateInt8(st.o[row*p.oStride:], weights, b.vTyped, w.alpha[at:], x.scales, t.rows,
		p.oStride, Block, 1, &layout)
	if masked {
		clearMasked(st.m[row:], st.o[row*p.oStride:], t.rows, p.oStride)
	}
}

// weigh makes one head's weights of its products with the block at key first. It reports whether
// some row has seen no score above −Inf.
func (w *scratch) weigh(p *plan, c *chunk, st *state, first int, t *tile, at int) (masked bool) {
	m, l := st.m[c.at:], st.l[c.at:]
	if every := w.optionScores(p, c, first, t, at); every {
		return softmax(w.s[at*Block:], m, l, w.alpha[at:], t.rows, p.c)
	}
	return softmaxMasked(w.s[at*Block:], m, l, w.alpha[at:], w.visible[at:], t.rows, p.c)
}

// accumulate adds the weighted values of keys [lo, hi) to the outputs of a tile.
func (w *scratch) accumulate(p *plan, c *chunk, st *state, b *block, t *tile, at, lo, hi int) {
	layout, alpha := b.layout, w.alpha[at:]
	layout.keys, layout.overwrite = hi-lo, st.overwrite
	if lo > t.lo {
		layout.overwrite, alpha = false, ones[:] // an earlier step has multiplied outputs
	}
	o, weights, v := st.o[(c.at+t.row)*p.oStride:], w.s[at*Block+lo:], b.v[lo*layout.stride:]
	if !w.allVisible(p, t, at) && !b.allFinite() {
		accumulateMasked(o, weights, v, alpha, t.rows, p.oStride, Block, &layout)
		return
	}
	accumulate(o, weights, v, alpha, t.rows, p.oStride, Block, &layout)
}

// allVisible reports whether all rows of a tile see all of its keys, whatever options say.
func (w *scratch) allVisible(p *plan, t *tile, at int) bool {
	if !t.uniform || !p.pairwise() {
		return t.uniform
	}
	all := lowBits(t.hi) &^ lowBits(t.lo)
	for _, visible := range w.visible[at:][:t.rows] {
		if visible != all {
			return false
		}
	}
	return true
}

// softmaxFirst is softmax over the first n keys of a block.
func (w *scratch) softmaxFirst(m, l []float32, rows, n int, c float32) (masked bool) {
	if n == Block {
		return softmax(w.s, m, l, w.alpha, rows, c)
	}
	return softmaxMasked(w.s, m, l, w.alpha, w.firstKeys(rows, n), rows, c)
}

// firstKeys says that rows see the first n keys of a block.
func (w *scratch) firstKeys(rows, n int) (visible []uint64) {
	visible = w.visible[:rows]
	for r := range visible {
		visible[r] = lowBits(n)
	}
	return visible
}

// clearMasked empties the outputs of rows that have seen no score above −Inf: they
// were empty before, and a weight of 0 has met a value that may be NaN.
func clearMasked(m, o []float32, rows, stride int) {
	for r := range rows {
		if m[r] == negInf {
			clear(o[r*stride:][:stride])
		}
	}
}
