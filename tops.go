package attn

// Softmax begins with the largest score of each row, of a block that score has just written. Where looking for it
// beside the chains of multiply-adds takes less time than a pass of its own, score does it (gen/score_tops.go).
//
// The first topLanes of the tops are for all rows together: in each lane, of every topLanes-th key, the score whose bits are the largest
// unsigned number, which is the least score if one is negative; where one is NaN, it may count or not. Those of each row follow: in each
// lane the largest score, NaN not counting.

const (
	topLanes = 8

	// topRows is what the rows of a call of scoreTops are a multiple of; softmaxTops takes up to mostTileRows.
	topRows = 6

	// topDim is the least dimension: one row of the tile before is looked at in every 8 steps but the last 4.
	topDim = 8*topRows + 4
)

// hasTops reports whether kernels for tops exist.
func hasTops() bool { return active == avx2 || active == avx512 }

// scoreTops is score of whole rows of a tile, which leaves their tops, too. This one and softmaxTops are for tests of their kernels, which
// straight calls.
func scoreTops(s, q, k, tops []float32, rows, d, panels int, next *ahead) {
	writesRows(s, rows, Block, panels*panel)
	reads(q, rows*d)
	reads(k, panels*d*panel)
	writes(tops, (1+rows)*topLanes)
	if !hasTops() {
		scoreTopsGeneric(s, q, k, tops, rows, d, panels)
		return
	}
	scoreTopsSIMD(&s[0], &q[0], &k[0], &tops[0], rows, d, panels, next)
}

// softmaxTops is softmax of scores whose tops are known.
func softmaxTops(s, m, l, alpha, tops []float32, rows int) (dead bool) {
	updates(s, rows*Block)
	updates(m, rows)
	updates(l, rows)
	writes(alpha, rows)
	reads(tops, (1+rows)*topLanes)
	if !hasTops() {
		return softmaxTopsGeneric(s, m, l, alpha, tops, rows)
	}
	return softmaxTopsSIMD(&s[0], &m[0], &l[0], &alpha[0], &tops[0], rows)
}
