package attn

// Most blocks are seen whole, and their scores are products and nothing more. For these the kernels are
// called one after the other, with operands checked once for all tiles and nothing to choose between.

// canTakeFull reports whether full blocks of some rows need nothing else: softmax and accumulate are two kernels, and no call has to be split.
func canTakeFull(t *tuning, rows, d, cols int) bool {
	return t.isa != generic && !chooseKernels(rows, d, cols).fused && productsOf(rows, Block*max(d, cols)) <= callProducts
}

// fullTiles takes the rows of the chunk from row on, which see the whole block, through the kernels.
func (w *scratch) fullTiles(p *plan, c *chunk, st *state, b *block, row int) {
	d, stride, rows, tile := p.d, p.oStride, c.rows-row, p.tileRows
	q := w.queries(p, c, row)
	row += c.at
	m, l, o := st.m[row:], st.l[row:], st.o[row*stride:]
	layout := b.layout
	layout.keys, layout.overwrite = Block, st.overwrite
	reads(q, rows*d)
	reads(b.k, Block*d)
	readsValues(b.v, &layout)
	writes(w.s, min(tile, rows)*Block)
	writes(w.alpha, min(tile, rows))
	updates(m, rows)
	updates(l, rows)
	updatesRows(o, rows, stride, layout.cols)
	w.queue.pointer, w.queue.sequential = b.pointer, p.packed != nil && c.rows <= p.sequentialRows
	t := fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], k: &b.k[0], v: &b.v[0], d: d, oStride: stride, c: p.c, layout: &layout, queue: &w.queue}
	for r := 0; r < rows; r += tile {
		n := min(tile, rows-r)
		if at := o[r*stride:]; t.add(&q[r*d], &m[r], &l[r], &at[0], n) {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}

// Few rows wait for memory, and each pause between two kernels costs several times as long as it lasts. So spans of several full
// blocks have as little as possible between kernels: these are leaves of their own, with the figures in docs/decisions.md.

// fullSpan takes all rows through a span of several full blocks, or of several heads, if it can.
func (w *scratch) fullSpan(p *plan, c *chunk, st *state, s *span) bool {
	switch {
	case s.step < Block:
		if !p.full || c.rows > min(p.keys.inPlaceRows, p.values.inPlaceRows) {
			return false
		}
		w.fullStepsInPlace(p, c, st, s)
	case p.packed != nil && p.packed.format != F32: // spans of a store are full
		w.fullTypedBlocks(p, c, st, s)
	case p.packed != nil:
		w.fullStoreBlocks(p, c, st, s)
	case p.plainScores() && c.rows <= p.values.inPlaceRows:
		w.fullBlocksInPlace(p, c, st, s)
	default:
		return false
	}
	return true
}

// fullStoreBlocks takes one tile through blocks of a store, one after the other.
func (w *scratch) fullStoreBlocks(p *plan, c *chunk, st *state, s *span) {
	rows, stride := c.rows, p.oStride
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	layout := p.packed.valueLayout(Block)
	layout.cols, layout.overwrite = roundUp(p.dv, 8), st.overwrite
	layout.set(&tuned, 0, rows <= p.sequentialRows)
	w.queue.pointer, w.queue.sequential = 0, layout.sequential
	reads(q, rows*p.d)
	writes(w.s, rows*Block)
	writes(w.alpha, rows)
	updates(m, rows)
	updates(l, rows)
	updatesRows(o, rows, stride, layout.cols)
	t := fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], d: p.d, oStride: stride, c: p.c, layout: &layout, queue: &w.queue}
	var places [Segment / Block]int
	p.findPlaces(c, s.first, places[:s.blocks])
	for _, at := range places[:s.blocks] {
		x := elements[float32](p.packed.data[at:][:p.packed.block])
		k, v := x[:Block*p.d], x[Block*p.d:]
		reads(k, Block*p.d)
		readsValues(v, &layout)
		t.k, t.v = &k[0], &v[0]
		if rows <= p.keys.pagedRows {
			w.queue.pointer, layout.pointer = address(k, 0), address(v, 0)
		}
		if t.add(&q[0], &m[0], &l[0], &o[0], rows) {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// fullTypedBlocks is fullStoreBlocks for keys and values of fewer bits, which the kernels widen.
func (w *scratch) fullTypedBlocks(p *plan, c *chunk, st *state, s *span) {
	rows, stride, kind := c.rows, p.oStride, p.packed.format
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	forKeys, forValues := scoreLayout(kind, p.d, Block), p.packed.valueLayout(Block)
	forKeys.setTyped(&tuned)
	forValues.setTyped(&tuned)
	forValues.overwrite = st.overwrite
	var places [Segment / Block]int
	p.findPlaces(c, s.first, places[:s.blocks])
	for _, at := range places[:s.blocks] {
		x := p.packed.data[at:][:p.packed.block]
		keys, keyScales := p.packed.keys(x)
		values, valueScales := p.packed.values(x)
		accumulateTyped(kind, w.s, q, keys, nil, rows, Block, p.d, &forKeys)
		if keyScales != nil {
			scaleColumns(w.s, keyScales, rows, Block, Block)
		}
		masked := softmax(w.s, m, l, w.alpha, rows, p.c)
		if valueScales != nil {
			scaleColumns(w.s, valueScales, rows, Block, Block)
		}
		accumulateTyped(kind, o, w.s, values, w.alpha, rows, stride, Block, &forValues)
		if masked {
			clearMasked(m, o, rows, stride)
		}
		forValues.overwrite = false
	}
}

// fullBlocksInPlace takes few rows through blocks of the caller: first the keys of all, then the values.
func (w *scratch) fullBlocksInPlace(p *plan, c *chunk, st *state, s *span) {
	rows, stride := c.rows, p.oStride
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	k, v := p.k.Data[p.k.offset(c.b, c.kv, s.first):], p.v.Data[p.v.offset(c.b, c.kv, s.first):]
	w.queue.pointer, w.queue.sequential = 0, p.sequential
	for i := range s.blocks {
		w.queue.after = (s.blocks - 1 - i) * Block
		scoreRows(w.s[i*rows*Block:], q, k[i*Block*p.k.SL:], rows, p.d, p.k.SL, Block, &w.queue)
	}
	w.queue.after = 0
	layout := panelLayout{keys: Block, cols: p.dv, stride: p.v.SL, panelStride: panel, overwrite: st.overwrite}
	layout.set(&tuned, 0, p.sequential)
	for i := range s.blocks {
		if softmaxValues(w.s[i*rows*Block:], m, l, w.alpha, o, v[i*Block*p.v.SL:], rows, stride, &layout, p.c) {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// fullStepsInPlace takes few rows of several heads through a block of the caller: the heads take turns step by step, first at the keys,
// then at the values. In scratch their rows follow each other, so softmax is one call.
func (w *scratch) fullStepsInPlace(p *plan, c *chunk, st *state, s *span) {
	rows, stride, h := c.rows, p.oStride, *c
	h.heads = 1
	w.queue.sequential = p.sequential
	for key := 0; key < Block; key += s.step {
		for g := range c.heads {
			h.kv, h.at = c.kv+g, g*rows
			w.queue.pointer = p.keysPointer(&h, s.first, key, key+s.step)
			k := p.k.Data[p.k.offset(c.b, h.kv, s.first+key):]
			scoreRows(w.s[h.at*Block+key:], w.queries(p, &h, 0), k, rows, p.d, p.k.SL, s.step, &w.queue)
		}
	}
	masked := softmax(w.s, st.m, st.l, w.alpha, c.heads*rows, p.c)
	layout := panelLayout{keys: s.step, cols: p.dv, stride: p.v.SL, panelStride: panel, overwrite: st.overwrite}
	for key := 0; key < Block; key += s.step {
		alpha := w.alpha
		if key > 0 {
			layout.overwrite, alpha = false, ones[:] // the first step has multiplied outputs
		}
		for g := range c.heads {
			h.kv, h.at = c.kv+g, g*rows
			layout.set(&tuned, p.valuesPointer(&h, s.first, key, key+s.step), p.sequential)
			v, at := p.v.Data[p.v.offset(c.b, h.kv, s.first+key):], h.at
			if key > 0 {
				at = 0
			}
			accumulate(st.o[h.at*stride:], w.s[h.at*Block+key:], v, alpha[at:], rows, stride, Block, &layout)
		}
	}
	if masked {
		clearMasked(st.m, st.o, c.heads*rows, stride)
	}
}
