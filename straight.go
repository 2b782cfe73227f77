package attn

// In prefill most tiles see all of a block, and their scores are products and nothing more. For these the kernels are
// called one after the other, with operands checked once for all tiles and nothing to choose: what there is
// between kernels otherwise, some 100 ns for a tile, is up to 1 % of the time.

// goesStraight reports whether plain blocks need nothing else: softmax and accumulate are two kernels, and no call has to be cut.
func (p *plan) goesStraight() bool {
	products := productsOf(p.tileRows, Block*max(p.d, roundUp(p.dv, 8)))
	return active != generic && !(fused && active == avx2) && p.plainScores() && p.d <= callInner && products <= callProducts
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
	values := b.values
	values.keys, values.fresh = Block, st.fresh
	reads(q, rows*d)
	reads(b.k, Block*d)
	readsValues(b.v, &values)
	writes(w.s, min(tile, rows)*Block)
	writes(w.alpha, min(tile, rows))
	updates(m, rows)
	updates(l, rows)
	updatesRows(o, rows, stride, values.cols)
	w.ahead.stream, w.ahead.inOrder = b.stream, p.inOrder
	tops := topsBeside && active == avx2 && d >= topDim
	s, alpha, k, v := &w.s[0], &w.alpha[0], &b.k[0], &b.v[0]
	for r := 0; r < rows; r += tile {
		n := min(tile, rows-r)
		dead := false
		wide := active == avx512 && n >= wideRows && values.cols%panel == 0
		switch {
		case wide:
			scoreWide(s, &q[r*d], k, n, d, Block/panel, &w.ahead)
			dead = softmax(w.s, m[r:], l[r:], w.alpha, n)
		case tops && n%topRows == 0:
			scoreTops(w.s, q[r*d:], b.k, w.tops, n, d, Block/panel, &w.ahead)
			dead = softmaxTops(w.s, m[r:], l[r:], w.alpha, w.tops, n)
		default:
			scoreSIMD(s, &q[r*d], k, n, d, Block/panel, &w.ahead)
			dead = softmax(w.s, m[r:], l[r:], w.alpha, n)
		}
		if wide {
			accumulateWide(&o[r*stride], s, v, alpha, n, stride, Block, &values)
		} else {
			accumulateSIMD(&o[r*stride], s, v, alpha, n, stride, Block, &values)
		}
		if dead {
			clearDead(m[r:], o[r*stride:], n, stride)
		}
	}
}
