package attn

// Decoding waits for memory. Between the kernels of one block and those of the next memory is nearly idle, and it
// needs a while to get going again: a pause costs three to four times as long as it lasts. So blocks that need
// only kernels go through a loop with as little as possible between these.

// plainRows is the number of rows up to which that is felt: 7 % for 4 rows on Zen 4, 1 to 2 % for 16. Elsewhere it
// has not been measured.
const plainRows = 16

// plainBlocks is the number of whole blocks of a cache in keys [lo, hi), from lo on, that need only kernels: few
// rows, all of which see all of these keys, and nothing happens to scores.
func (p *plan) plainBlocks(c *chunk, lo, hi int) int {
	if p.cache == nil || c.rows > plainRows || !p.plainScores() {
		return 0
	}
	return p.wholeBlocks(c, lo, hi)
}

// plainScores reports whether scores are products and nothing more.
func (p *plan) plainScores() bool {
	return !p.pairwise() && p.softcap == 0 && p.slopes == nil
}

// onlyKernels adds n plain blocks, the first of which starts at key first, to the state.
func (w *scratch) onlyKernels(p *plan, c *chunk, st *state, first, n int) {
	var b block
	p.packedValues(c, &b.layout)
	w.queue.clear()
	for range n {
		b.k, b.v = p.cache.blockKeys(c.b, c.kv, first), p.cache.blockValues(c.b, c.kv, first)
		p.follow(c, &b)
		if p.straight {
			w.straight(p, c, st, &b, 0)
		} else {
			w.tile(p, c, st, &b, &tile{rows: c.rows, hi: Block, uniform: true})
		}
		st.overwrite = false
		first += Block
	}
}

// seriesOfKernels is series for blocks that need nothing but kernels, keys and values being read where the caller has them.
func (w *scratch) seriesOfKernels(p *plan, c *chunk, st *state, first, n int) {
	stride, rows := p.oStride(), c.rows
	q, m, l, o := w.q[c.at*p.d:], st.m[c.at:], st.l[c.at:], st.o[c.at*stride:]
	k, v := p.k.Data[p.k.offset(c.b, c.kv, first):], p.v.Data[p.v.offset(c.b, c.kv, first):]
	w.queue.clear()
	w.queue.pointer, w.queue.sequential = 0, p.sequential
	for i := range n {
		w.queue.after = (n - 1 - i) * Block
		scoreRows(w.s[i*rows*Block:], q, k[i*Block*p.k.SL:], rows, p.d, p.k.SL, Block, &w.queue)
	}
	w.queue.after = 0
	var layout panelLayout
	p.valuesInPlace(&layout)
	layout.keys, layout.overwrite = Block, st.overwrite
	for i := range n {
		if softmaxValues(w.s[i*rows*Block:], m, l, w.alpha, o, v[i*Block*p.v.SL:], rows, stride, &layout) {
			clearMasked(m, o, rows, stride)
		}
		layout.overwrite = false
	}
}

// fullInPlace reports whether few rows read keys and values where the caller has them, and nothing happens to scores.
func (p *plan) fullInPlace() bool {
	return p.plainScores() && p.keysInPlace(inPlaceRows) && p.dv%8 == 0
}
