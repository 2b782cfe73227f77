package attn

// Most blocks are seen whole, and their scores are products and nothing more. For these the kernels are
// called one after the other, with operands checked once for all tiles and nothing to choose between: what there is
// otherwise, some 100 ns for a tile, is up to 1 % of the time of prefill, and 5 % of decoding's (plain.go).

// goesStraight reports whether plain blocks need nothing else: softmax and accumulate are two kernels, and no call has to be cut.
func (p *plan) goesStraight() bool {
	rows := min(p.tileRows, p.chunkRows)
	products := productsOf(rows, Block*max(p.d, roundUp(p.dv, 8)))
	return tuned.isa != generic && !chooseKernels(rows, p.d, roundUp(p.dv, 8)).fused && p.plainScores() && products <= callProducts
}

// lastSeesStart reports whether the last row of the chunk sees the block's first key. As bounds never
// decrease from row to row, rows behind one that sees the whole block see all of it, then.
func (b *block) lastSeesStart(p *plan, c *chunk) bool {
	lo, _ := b.keyRange(p, c, c.rows-1)
	return lo == 0
}

// straight takes the rows of the chunk from row on, which see the whole block, through the kernels.
func (w *scratch) straight(p *plan, c *chunk, st *state, b *block, row int) {
	d, stride, rows, tile := p.d, p.oStride(), c.rows-row, p.tileRows
	row += c.at
	q, m, l, o := w.q[row*d:], st.m[row:], st.l[row:], st.o[row*stride:]
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
	w.queue.pointer, w.queue.sequential = b.pointer, p.panelsSequential(c)
	t := fullTile{s: &w.s[0], alpha: &w.alpha[0], maxima: &w.maxima[0], k: &b.k[0], v: &b.v[0], d: d, oStride: stride, layout: &layout, queue: &w.queue}
	for r := 0; r < rows; r += tile {
		n := min(tile, rows-r)
		if at := o[r*stride:]; t.add(&q[r*d], &m[r], &l[r], &at[0], n) {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}
