package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Kernels of maxima are called by fullTile.add only. These functions are for tests of the kernels.

// scoreMaxima is score of whole rows of a tile, which leaves their maxima, too.

func scoreMaxima(s, q, k, maxima []float32, rows, d, panels int, next *prefetchQueue) {
	operand.WritesRows(s, rows, Block, panels*panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*panel)
	operand.Writes(maxima, rows*maximaLanes)
	if tuned.ISA != tuning.AVX2 && tuned.ISA != tuning.AVX512 {
		scoreMaximaGeneric(s, q, k, maxima, rows, d, panels)
		return
	}
	scoreMaximaSIMD(&s[0], &q[0], &k[0], &maxima[0], rows, d, panels, next)
}

// softmaxMaxima is softmax of scores whose maxima are known.
func softmaxMaxima(s, m, l, alpha, maxima []float32, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(maxima, rows*maximaLanes)
	if tuned.ISA != tuning.AVX2 && tuned.ISA != tuning.AVX512 {
		return softmaxMaximaGeneric(s, m, l, alpha, maxima, rows, c)
	}
	return softmaxMaximaSIMD(&s[0], &m[0], &l[0], &alpha[0], &maxima[0], rows, c)
}
