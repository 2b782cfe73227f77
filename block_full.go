package attn

import "github.com/seed-1415985d/attn/internal/operand"

// Most blocks are seen whole, and their scores are products and nothing more. For these the kernels
// are called one after the other, with operands checked once for all tiles and nothing to choose
// between.

// newFullTile returns what tiles of up to n rows have in common, but for keys and values. It checks
// the memory of rows rows, whose state begins with m, l and o.
func (w *scratch) newFullTile(
	p *plan, q, m, l, o []float32, rows, n int, layout *panelLayout) fullTile {
	operand.Reads(q, rows*p.d)
	operand.Writes(w.s, min(n, rows)*Block)
	operand.Writes(w.alpha, min(n, rows))
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.UpdatesRows(o, rows, p.oStride, layout.cols)
	return fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], d: p.d, oStride: p.oStride,
		c: p.c, layout: layout, queue: &w.queue}
}

// fullTiles takes the rows of the chunk from row on, which see the whole block, through the
// kernels.
func (w *scratch) fullTiles(p *plan, c *chunk, st *state, b *block, row int) {
	d, stride, rows, n := p.d, p.oStride, c.rows-row, p.tileRows
	q := w.queries(p, c, row)
	row += c.at
	m, l, o := st.m[row:], st.l[row:], st.o[row*stride:]
	layout := b.layout
	layout.keys, layout.overwrite = Block, st.overwrite
	operand.Reads(b.k, Block*d)
	layout.reads(b.v)
	w.queue.pointer, w.queue.inOrder = b.pointer, p.packed != nil && c.rows <= p.inOrderRows
	t := w.newFullTile(p, q, m, l, o, rows, n, &layout)
	t.k, t.v = &b.k[0], &b.v[0]
	for r := 0; r < rows; r += n {
		n := min(n, rows-r)
		if at := o[r*stride:]; t.add(&q[r*d], &m[r], &l[r], &at[0], n) {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}

// Few rows wait for memory, and each pause between two kernels costs several times as long as it
// lasts. So spans of several blocks have as little as possible between kernels: these are leaves of
// their own, with the figures in docs/decisions.md.

// addPacked takes one tile through blocks of a cache or store, one after the other. Its rows see
// all keys of the span.
func (w *scratch) addPacked(p *plan, c *chunk, st *state, s *span) {
	w.queue.clear()
	var at [Segment / Block]int
	p.findBlocks(c, s.first, at[:s.blocks])
	if p.packed.valuesInKeys {
		w.addTurned(p, c, st, at[:s.blocks], s.hi)
		return
	}
	if p.int8 {
		w.addInt8(p, c, st, at[:s.blocks], s.hi)
		return
	}
	if p.packed.format != F32 {
		w.addTyped(p, c, st, at[:s.blocks], s.hi)
		return
	}
	rows, stride := c.rows, p.oStride
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	layout := panelLayout{keys: Block, cols: roundUp(p.dv, 8), stride: panel,
		panelStride: Block * panel, overwrite: st.overwrite}
	layout.set(&tuned, 0, rows <= p.inOrderRows)
	w.queue.pointer, w.queue.inOrder = 0, layout.inOrder
	t := w.newFullTile(p, q, m, l, o, rows, rows, &layout)
	for i, from := range at[:s.blocks] {
		x := elements[float32](p.packed.data[from:][:p.packed.block])
		k, v := x[:Block*p.d], x[Block*p.d:]
		operand.Reads(k, Block*p.d)
		layout.reads(v)
		if rows <= p.keys.pagedRows {
			w.queue.pointer, layout.pointer = operand.Address(k, 0), operand.Address(v, 0)
		}
		masked := false
		if i == s.blocks-1 && s.hi < Block {
			layout.keys = s.hi
			scorePrefetch(w.s, q, k, rows, p.d, (s.hi+panel-1)/panel, &w.queue)
			masked = w.softmaxFirst(m, l, rows, s.hi, p.c)
			accumulate(o, w.s, v, w.alpha, rows, stride, Block, &layout)
		} else {
			t.k, t.v = &k[0], &v[0]
			masked = t.add(&q[0], &m[0], &l[0], &o[0], rows)
		}
		if masked {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// addTyped is addPacked for keys and values of fewer bits, which the kernels widen. The last block
// has so many keys.
func (w *scratch) addTyped(p *plan, c *chunk, st *state, at []int, last int) {
	rows, stride, format := c.rows, p.oStride, p.packed.format
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	layout := p.packed.valueLayout(Block)
	layout.setTyped(&tuned)
	layout.overwrite = st.overwrite
	for i, from := range at {
		if i == len(at)-1 {
			layout.keys = last
		}
		x := p.packed.data[from:][:p.packed.block]
		keys, keyScales := p.packed.keys(x)
		values, valueScales := p.packed.values(x)
		scoreTyped(format, w.s, q, keys, rows, p.d, layout.keys)
		if keyScales != nil {
			scaleColumns(w.s, keyScales, rows, Block, layout.keys)
		}
		masked := w.softmaxFirst(m, l, rows, layout.keys, p.c)
		if valueScales != nil {
			scaleColumns(w.s, valueScales, rows, Block, layout.keys)
		}
		accumulateTyped(format, o, w.s, values, w.alpha, rows, stride, Block, &layout)
		if masked {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// addInt8 is addTyped in integers.
func (w *scratch) addInt8(p *plan, c *chunk, st *state, at []int, last int) {
	rows, stride, x := c.rows, p.oStride, &w.int8
	m, l, o := st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	factors := x.factors[c.at:]
	layout := p.packed.valueLayout(Block)
	layout.setTyped(&tuned)
	layout.overwrite = st.overwrite
	n, visible, weights := Block, []uint64(nil), integerRows{words: x.weights}
	for i, from := range at {
		if i == len(at)-1 && last < Block {
			n, visible = last, w.firstKeys(rows, last)
		}
		block := p.packed.data[from:][:p.packed.block]
		keys, keyScales := p.packed.keys(block)
		values, valueScales := p.packed.values(block)
		x.scores(p, w.s, c.at, keys, keyScales, rows, n)
		masked := softmaxInt8(x.weights, x.scales, w.s, m, l, w.alpha, factors, valueScales, visible,
			rows)
		accumulateInt8(o, weights, values, w.alpha, x.scales, rows, stride, Block, 1, &layout)
		if masked {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// addInPlace takes few rows through blocks of the caller: first the keys of all, then the values.
func (w *scratch) addInPlace(p *plan, c *chunk, st *state, s *span) {
	w.queue.clear()
	if s.step < Block {
		w.addStepsInPlace(p, c, st, s)
		return
	}
	rows, stride := c.rows, p.oStride
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	k := p.k.Data[p.k.offset(c.b, c.kv, s.first):]
	v := p.v.Data[p.v.offset(c.b, c.kv, s.first):]
	w.queue.pointer, w.queue.inOrder = 0, p.inOrder
	for i := range s.blocks {
		w.queue.after = (s.blocks - 1 - i) * Block
		scoreRows(w.s[i*rows*Block:], q, k[i*Block*p.k.SL:], rows, p.d, p.k.SL, Block, &w.queue)
	}
	w.queue.after = 0
	layout := panelLayout{keys: Block, cols: p.dv, stride: p.v.SL, panelStride: panel,
		overwrite: st.overwrite}
	layout.set(&tuned, 0, p.inOrder)
	for i := range s.blocks {
		scores, values := w.s[i*rows*Block:], v[i*Block*p.v.SL:]
		if softmaxValues(scores, m, l, w.alpha, o, values, rows, stride, &layout, p.c) {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// addStepsInPlace takes few rows of several heads through a block of the caller: the heads take
// turns step by step, first at the keys, then at the values. In scratch their rows follow each
// other, so softmax is one call.
func (w *scratch) addStepsInPlace(p *plan, c *chunk, st *state, s *span) {
	rows, stride, h := c.rows, p.oStride, *c
	h.heads = 1
	w.queue.inOrder = p.inOrder
	for key := 0; key < Block; key += s.step {
		for g := range c.heads {
			h.kv, h.at = c.kv+g, g*rows
			w.queue.pointer, _ = p.stepPointers(&h, s.first, key+s.step)
			k := p.k.Data[p.k.offset(c.b, h.kv, s.first+key):]
			q := w.queries(p, &h, 0)
			scoreRows(w.s[h.at*Block+key:], q, k, rows, p.d, p.k.SL, s.step, &w.queue)
		}
	}
	masked := softmax(w.s, st.m, st.l, w.alpha, c.heads*rows, p.c)
	layout := panelLayout{keys: s.step, cols: p.dv, stride: p.v.SL, panelStride: panel,
		overwrite: st.overwrite}
	for key := 0; key < Block; key += s.step {
		alpha := w.alpha
		if key > 0 {
			layout.overwrite, alpha = false, ones[:] // the first step has multiplied outputs
		}
		for g := range c.heads {
			h.kv, h.at = c.kv+g, g*rows
			_, pointer := p.stepPointers(&h, s.first, key+s.step)
			layout.set(&tuned, pointer, p.inOrder)
			v, at := p.v.Data[p.v.offset(c.b, h.kv, s.first+key):], h.at
			if key > 0 {
				at = 0
			}
			o, weights := st.o[h.at*stride:], w.s[h.at*Block+key:]
			accumulate(o, weights, v, alpha[at:], rows, stride, Block, &layout)
		}
	}
	if masked {
		clearMasked(st.m, st.o, c.heads*rows, stride)
	}
}
