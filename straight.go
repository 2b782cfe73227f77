package attn

// Most blocks are seen whole, and their scores are products and nothing more. For these the kernels are
// called one after the other, with operands checked once for all tiles and nothing to choose between: what there is
// otherwise, some 100 ns for a tile, is up to 1 % of the time of prefill, and 5 % of decoding's (plain.go).

// goesStraight reports whether plain blocks need nothing else: softmax and accumulate are two kernels, and no call has to be cut.
func (p *plan) goesStraight() bool {
	rows := min(p.tileRows, p.chunkRows)
	products := productsOf(rows, Block*max(p.d, roundUp(p.dv, 8)))
	oneKernel := tuned.fusedSoftmax && tuned.isa == avx2 && rows >= fusedRows && roundUp(p.dv, 8) >= fusedCols
	return tuned.isa != generic && !oneKernel && p.plainScores() && products <= callProducts
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
