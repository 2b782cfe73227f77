package attn

// Few rows over values that are part of keys (kv_latent.go).

// turnedBytes of a block's values are turned at a time for few rows, which read them at once: they
// stay in the L1 cache.
const turnedBytes = 32 << 10

// addTurned is addPacked where values are part of keys. The last block has so many keys.
func (w *scratch) addTurned(p *plan, c *chunk, st *state, at []int, last int) {
	m, o := st.m[c.at:], st.o[c.at*p.oStride:]
	overwrite := st.overwrite
	for i, from := range at {
		n := Block
		if i == len(at)-1 {
			n = last
		}
		keys, scales := p.packed.keys(p.packed.data[from:][:p.packed.block])
		masked := w.turnedWeights(p, c, st, keys, scales, n)
		w.addTurnedValues(p, c, o, keys, n, overwrite)
		if masked {
			clearMasked(m, o, c.rows, p.oStride)
		}
		overwrite = false
	}
}

// turnedWeights makes weights of the first n keys of a block, which all rows see.
func (w *scratch) turnedWeights(p *plan, c *chunk, st *state, keys []byte, scales []float32,
	n int) (masked bool) {
	rows, m, l, x := c.rows, st.m[c.at:], st.l[c.at:], &w.int8
	switch {
	case p.int8:
		scoreInt8(w.s, x.queries.from(c.at*roundUp(p.d, 4), c.at), keys, scales, rows, p.d, n)
		var visible []uint64
		if n < Block {
			visible = w.firstKeys(rows, n)
		}
		return softmaxInt8(x.weights, x.scales, w.s, m, l, w.alpha, x.factors[c.at:], scales, visible,
			rows)
	case p.packed.format == F32:
		scoreFew(w.s, w.queries(p, c, 0), elements[float32](keys), rows, p.d, n)
	default:
		scoreTyped(p.packed.format, w.s, w.queries(p, c, 0), keys, rows, p.d, n)
	}
	if scales == nil {
		return w.softmaxFirst(m, l, rows, n, p.c)
	}
	scaleColumns(w.s, scales, rows, Block, n)
	masked = w.softmaxFirst(m, l, rows, n, p.c)
	scaleColumns(w.s, scales, rows, Block, n)
	return masked
}

// addTurnedValues adds the values of the first n keys of a block that the weights weigh.
func (w *scratch) addTurnedValues(p *plan, c *chunk, o []float32, keys []byte, n int,
	overwrite bool) {
	layout := panelLayout{keys: n, stride: panel, panelStride: Block * panel, overwrite: overwrite}
	typed, x := memoryOf(w.v), &w.int8
	step := turnedBytes / Block / p.packed.bytes
	for first := 0; first < p.dv; first += step {
		cols := min(step, p.dv-first)
		o, keys := o[first:], keys[first*panel*p.packed.bytes:]
		layout.cols = roundUp(cols, panel)
		switch p.packed.bytes {
		case 4:
			layout.cols = roundUp(cols, 8)
			transposeFloats(w.v, elements[float32](keys), p.d, cols, n)
			accumulate(o, w.s, w.v, w.alpha, c.rows, p.oStride, Block, &layout)
			continue
		case 2:
			transposeHalves(elements[uint16](typed), elements[uint16](keys), p.d, cols, n)
		case 1:
			transposeGroups(typed, keys, p.d, cols, layout.cols, n)
			layout.stride, layout.panelStride = 4*layout.cols, 4*panel
		}
		if p.int8 {
			accumulateInt8(o, integerRows{words: x.weights}, typed, w.alpha, x.scales, c.rows, p.oStride,
				Block, 1, &layout)
		} else {
			accumulateTyped(p.packed.format, o, w.s, typed, w.alpha, c.rows, p.oStride, Block, &layout)
		}
	}
}
