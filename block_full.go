package attn

// Most blocks are seen whole, and their scores are products and nothing more. For these the kernels are
// called one after the other, with operands checked once for all tiles and nothing to choose between.

// canTakeFull reports whether full blocks need nothing else: softmax and accumulate are two kernels, and no call has to be split.
func canTakeFull(t *tuning, rows, d, cols int) bool {
	products := productsOf(rows, Block*max(d, cols))
	oneKernel := t.fusedSoftmax && t.isa == avx2 && rows >= fusedRows && cols >= fusedCols
	return t.isa != generic && !oneKernel && products <= callProducts
}

// fullTiles takes the rows of the chunk from row on, which see the whole block, through the kernels.
func (w *scratch) fullTiles(p *plan, c *chunk, st *state, b *block, row int) {
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
	w.queue.pointer, w.queue.sequential = b.pointer, p.store != nil && c.rows <= p.sequentialRows()
	wide, looks := tuned.isa == avx512, tuned.maximaInScore && d >= maximaDim
	s, alpha, maxima, k, v := &w.s[0], &w.alpha[0], &w.maxima[0], &b.k[0], &b.v[0]
	for r := 0; r < rows; r += tile {
		n := min(tile, rows-r)
		at := o[r*stride:]
		q, m, l, o := &q[r*d], &m[r], &l[r], &at[0]
		var masked bool
		switch {
		case wide && n >= tuned.leastRows16 && layout.cols >= panel:
			scoreAVX512(s, q, k, n, d, Block/panel, &w.queue)
			masked = softmaxAVX512(s, m, l, alpha, n)
			accumulatePanels(at, w.s, b.v, alpha, n, stride, Block, &layout)
		case looks && n%maximaRows == 0:
			scoreMaximaSIMD(s, q, k, maxima, n, d, Block/panel, &w.queue)
			masked = softmaxMaximaSIMD(s, m, l, alpha, maxima, n)
			accumulateSIMD(o, s, v, alpha, n, stride, Block, &layout)
		case wide && n > 1:
			scoreSIMD(s, q, k, n, d, Block/panel, &w.queue)
			masked = softmaxAVX512(s, m, l, alpha, n)
			accumulateSIMD(o, s, v, alpha, n, stride, Block, &layout)
		default:
			scoreSIMD(s, q, k, n, d, Block/panel, &w.queue)
			masked = softmaxSIMD(s, m, l, alpha, n)
			accumulateSIMD(o, s, v, alpha, n, stride, Block, &layout)
		}
		if masked {
			clearMasked(st.m[row+r:], at, n, stride)
		}
	}
}
