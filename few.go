package attn

import "github.com/seed-1415985d/attn/internal/operand"

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
		keys, keyScales := p.packed.keys(block)
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
			scoreTyped(p.packed.format, w.s, q, keys, rows, p.d, layout.keys)
		case kindIntegers:
			w.ints.scores(p, w.s, c.at, keys, keyScales, rows, layout.keys)
		}
		values, valueScales := keys, keyScales
		if p.valueKind != kindLatent {
			values, valueScales = p.packed.values(block)
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
			accumulateTyped(p.packed.format, o, w.s, values, w.alpha, rows, stride, Block, layout)
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
