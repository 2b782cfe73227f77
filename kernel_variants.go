package attn

// Absorb is softmax and accumulate in one: it takes a whole block of scores into
// the state of some rows. Where the two are one kernel, the exps run beside the
// chains of multiply-adds (gen/absorb.go).

const (
	// fusedRows is what the rows of one call of the kernel are a multiple of.
	fusedRows = 6

	// fusedCols is the number of value columns that the kernel sums. Others
	// are summed by accumulate.
	fusedCols = 64
)

func softmaxValues(s, m, l, alpha, o, v []float32, rows, oStride int, b *panelLayout) (masked bool) {
	updates(s, rows*Block)
	updates(m, rows)
	updates(l, rows)
	writes(alpha, rows)
	updatesRows(o, rows, oStride, b.cols)
	readsValues(v, b)
	if tuned.isa == generic {
		return softmaxValuesGeneric(s, m, l, alpha, o, v, rows, oStride, b)
	}
	whole := 0
	if tuned.fusedSoftmax && tuned.isa == avx2 && b.cols >= fusedCols {
		whole = rows / fusedRows * fusedRows
	}
	for r := 0; r < whole; r += leastTileRows {
		masked = softmaxValuesSIMD(&s[r*Block], &m[r], &l[r], &alpha[r], &o[r*oStride], &v[0], min(leastTileRows, whole-r), oStride, b) || masked
	}
	if b.cols > fusedCols && whole > 0 {
		rest := *b
		rest.cols -= fusedCols
		accumulate(o[fusedCols:], s, v[fusedCols/panel*b.panelStride:], alpha, whole, oStride, Block, &rest)
	}
	if whole < rows {
		s, m, l, alpha = s[whole*Block:], m[whole:], l[whole:], alpha[whole:]
		masked = softmax(s, m, l, alpha, rows-whole) || masked
		accumulate(o[whole*oStride:], s, v, alpha, rows-whole, oStride, Block, b)
	}
	return masked
}

// Softmax begins with the largest score of each row, of a block that score has just written. Where looking for it
// beside the chains of multiply-adds takes less time than a pass of its own, score does it (gen/score_tops.go).
//
// The first maximaLanes of the maxima are for all rows together: in each lane, of every maximaLanes-th key, the score whose bits are the largest
// unsigned number, which is the least score if one is negative; where one is NaN, it may count or not. Those of each row follow: in each
// lane the largest score, NaN not counting.

const (
	maximaLanes = 8

	// maximaRows is what the rows of a call of scoreMaxima are a multiple of; softmaxMaxima takes up to mostTileRows.
	maximaRows = 6

	// maximaDim is the least dimension: one row of the tile before is looked at in every 8 steps but the last 4.
	maximaDim = 8*maximaRows + 4
)

// hasMaxima reports whether kernels for maxima exist.
func hasMaxima() bool { return tuned.isa == avx2 || tuned.isa == avx512 }

// scoreMaxima is score of whole rows of a tile, which leaves their maxima, too. This one and softmaxMaxima are for tests of their kernels, which
// straight calls.
func scoreMaxima(s, q, k, maxima []float32, rows, d, panels int, next *prefetchQueue) {
	writesRows(s, rows, Block, panels*panel)
	reads(q, rows*d)
	reads(k, panels*d*panel)
	writes(maxima, (1+rows)*maximaLanes)
	if !hasMaxima() {
		scoreMaximaGeneric(s, q, k, maxima, rows, d, panels)
		return
	}
	scoreMaximaSIMD(&s[0], &q[0], &k[0], &maxima[0], rows, d, panels, next)
}

// softmaxMaxima is softmax of scores whose maxima are known.
func softmaxMaxima(s, m, l, alpha, maxima []float32, rows int) (masked bool) {
	updates(s, rows*Block)
	updates(m, rows)
	updates(l, rows)
	writes(alpha, rows)
	reads(maxima, (1+rows)*maximaLanes)
	if !hasMaxima() {
		return softmaxMaximaGeneric(s, m, l, alpha, maxima, rows)
	}
	return softmaxMaximaSIMD(&s[0], &m[0], &l[0], &alpha[0], &maxima[0], rows)
}

// The kernels with 16 lanes are score and accumulate, for so many rows as tuned.leastRows16 says, and softmax, but for one row and
// where score looks for maxima. With AVX-512, all others are those with 8 lanes: they are as fast as memory, or take little
// of the time.

// accumulatePanels does whole panels with 16 lanes, and with 8 the last 8 columns if their number is odd.
func accumulatePanels(o, p, v []float32, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	accumulateAVX512(&o[0], &p[0], &v[0], alpha, rows, oStride, pStride, b)
	whole := b.cols / panel
	if whole*panel == b.cols {
		return
	}
	rest := *b
	rest.cols -= whole * panel
	accumulateSIMD(&o[whole*panel], &p[0], &v[whole*b.panelStride], alpha, rows, oStride, pStride, &rest)
}
