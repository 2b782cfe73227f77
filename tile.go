package attn

import "github.com/seed-1415985d/attn/internal/operand"

// fullTiles takes rows of the chunk from row on through the kernels, which see the whole block
// and whose scores are products and nothing more: most are like that. The kernels are called one
// after the other, with operands checked once for all tiles and nothing to choose between.
func (w *scratch) fullTiles(p *plan, c *chunk, st *state, b *part, row, rows int) {
	k, v := w.floatKeys(p, b), w.floatValues(p, c, b)
	w.hintPanels(p, c, k)
	d, stride, n := p.d, p.oStride, p.tileRows
	q := w.queries(p, c, row)
	row += c.at
	m, l, o := st.m[row:], st.l[row:], st.o[row*stride:]
	w.layout.keys, w.layout.overwrite = Block, st.overwrite
	operand.Reads(k, Block*d)
	w.layout.reads(v)
	if b.looked && !b.every { // parts alike in size, instead of a small rest
		parts := (rows + maxTileRows - 1) / maxTileRows
		n = roundUp((rows+parts-1)/parts, splitRows)
	}
	t := w.fullTileOf(p, q, m, l, o, rows, n)
	t.k, t.v = &k[0], &v[0]
	for r := 0; r < rows; r += n {
		n := min(n, rows-r)
		if at := o[r*stride:]; t.add(&q[r*d], &m[r], &l[r], &at[0], n) {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}

// fullTileOf returns what tiles of up to n rows have in common, but for keys and values. It checks
// the memory of rows rows, whose state begins with m, l and o.
func (w *scratch) fullTileOf(p *plan, q, m, l, o []float32, rows, n int) fullTile {
	operand.Reads(q, rows*p.d)
	operand.Writes(w.s, min(n, rows)*Block)
	operand.Writes(w.alpha, min(n, rows))
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.UpdatesRows(o, rows, p.oStride, w.layout.cols)
	return fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], d: p.d, oStride: p.oStride,
		c: p.c, layout: &w.layout, queue: &w.queue}
}

// addValues makes weights of the scores of a tile, whose first row is at in w.s, and adds the
// values of a part that they weigh.
func (w *scratch) addValues(p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	row, masked := c.at+t.row, false
	every := w.optionScores(p, c, b, t, at)
	if every && !p.readsBits(c, b.equal) && !p.scaledValues() {
		w.layout.keys, w.layout.overwrite = Block, st.overwrite
		masked = softmaxValues(w.s[at*Block:], st.m[row:], st.l[row:], w.alpha[at:], st.o[row*p.oStride:],
			w.floatValues(p, c, b), t.rows, p.oStride, &w.layout, p.c)
	} else {
		masked = w.weigh(p, c, st, b, t, at, every)
		w.accumulate(p, c, st, b, t, at)
	}
	if masked {
		clearMasked(st.m[row:], st.o[row*p.oStride:], t.rows, p.oStride)
	}
}

// weigh makes weights of the scores of a tile, with every if all rows see the whole block, and
// multiplies them by the scales of values, if these have some. It reports whether some row has seen
// no score above −Inf.
func (w *scratch) weigh(p *plan, c *chunk, st *state, b *part, t *tile, at int,
	every bool) (masked bool) {
	s, row := w.s[at*Block:], c.at+t.row
	m, l, alpha := st.m[row:], st.l[row:], w.alpha[at:]
	scales := w.valueScales(p, c, b)
	switch {
	case p.integers:
		return w.ints.weigh(s, m, l, alpha, scales, w.visibleTo(p, b, t, at), row, t.rows, every)
	case every:
		masked = softmax(s, m, l, alpha, t.rows, p.c)
	default:
		masked = softmaxMasked(s, m, l, alpha, w.visibleTo(p, b, t, at), t.rows, p.c)
	}
	if scales != nil {
		scaleColumns(s[t.lo:], scales[t.lo:t.hi], t.rows, Block, t.hi-t.lo)
	}
	return masked
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

// addFew adds a span of a cache or store, all of whose keys few rows see, with scores that are
// products and nothing more. It is the loop of span.go for one tile, written out: few rows wait for
// memory, and each pause between two kernels costs several times as long as it lasts, so nothing is
// asked for that is the same for all blocks (docs/decisions.md has the figures).
func (w *scratch) addFew(p *plan, c *chunk, st *state, s *span) {
	// to look for the place of each block between kernels would let memory pause
	var places [Segment / Block]int
	p.findBlocks(c, s.first, places[:s.blocks])
	w.layoutValues(p, c, true)
	rows, stride, layout := c.rows, p.oStride, &w.layout
	q, m, l, o := w.queries(p, c, 0), st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	layout.keys, layout.overwrite = Block, st.overwrite
	full := w.fullTileOf(p, q, m, l, o, rows, rows)
	var visible []uint64
	for i, place := range places[:s.blocks] {
		if i == s.blocks-1 && s.hi < Block {
			layout.keys, visible = s.hi, w.firstKeys(rows, s.hi)
		}
		block := p.packed.data[place:][:p.packed.block]
		if p.packed.k.format == I4 {
			w.lookUpKeys(p.packed, block)
		}
		keys, keyScales := w.readKeys(p.packed, block)
		masked := false
		switch p.keyKind {
		case kindPanels:
			k := elements[float32](keys)
			w.hintPanels(p, c, k)
			if p.full && visible == nil && p.valueKind == kindPanels {
				v := elements[float32](block[len(keys):])
				if operand.Reads(k, Block*p.d); c.rows <= p.values.pagedRows {
					layout.pointer = operand.Address(v, 0)
				}
				layout.reads(v)
				full.k, full.v = &k[0], &v[0]
				if full.add(&q[0], &m[0], &l[0], &o[0], rows) {
					clearMasked(m, o, rows, stride)
				}
				layout.overwrite = false
				continue
			}
			scorePrefetch(w.s, q, k, rows, p.d, (layout.keys+panel-1)/panel, &w.queue)
		case kindBits:
			scoreTyped(p.packed.k.read, w.s, q, keys, rows, p.d, layout.keys)
		case kindIntegers:
			w.ints.scores(p, w.s, c.at, keys, keyScales, rows, layout.keys)
		}
		values, valueScales := keys, keyScales
		if p.valueKind != kindLatent {
			if p.packed.v.format == I4 {
				w.lookUpValues(p.packed, block)
			}
			values, valueScales = w.readValues(p.packed, block)
		}
		switch {
		case p.integers:
			masked = softmaxInt8(w.ints.weights, w.ints.scales, w.s, m, l, w.alpha, w.ints.factors[c.at:],
				valueScales, visible, rows)
		default:
			if keyScales != nil {
				scaleColumns(w.s, keyScales, rows, Block, layout.keys)
			}
			if visible == nil {
				masked = softmax(w.s, m, l, w.alpha, rows, p.c)
			} else {
				masked = softmaxMasked(w.s, m, l, w.alpha, visible, rows, p.c)
			}
			if valueScales != nil {
				scaleColumns(w.s, valueScales, rows, Block, layout.keys)
			}
		}
		switch p.valueKind {
		case kindPanels:
			accumulate(o, w.s, elements[float32](values), w.alpha, rows, stride, Block, layout)
		case kindBits:
			accumulateTyped(p.packed.v.read, o, w.s, values, w.alpha, rows, stride, Block, layout)
		case kindIntegers:
			accumulateInt8(o, integerRows{words: w.ints.weights}, values, w.alpha, w.ints.scales, rows,
				stride, Block, 1, layout)
		case kindLatent:
			latentKind{}.accumulateFew(w, p, o, values, rows, layout.keys, layout.overwrite)
		}
		if masked {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// firstKeys says that rows see the first n keys of a block.
func (w *scratch) firstKeys(rows, n int) (visible []uint64) {
	visible = w.visible[:rows]
	for r := range visible {
		visible[r] = lowBits(n)
	}
	return visible
}
