package attn

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
