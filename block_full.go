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
	w.queue.pointer, w.queue.sequential = b.pointer, p.store != nil && c.rows <= p.sequentialRows
	t := fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], k: &b.k[0], v: &b.v[0], d: d, oStride: stride, c: p.c, layout: &layout, queue: &w.queue}
	for r := 0; r < rows; r += tile {
		n := min(tile, rows-r)
		if at := o[r*stride:]; t.add(&q[r*d], &m[r], &l[r], &at[0], n) {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}
