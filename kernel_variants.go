package attn

import "github.com/seed-1415985d/attn/internal/operand"

// Some kernels exist in several variants, which return the same bits: with 8 or 16 lanes, softmax
// with the maxima that score has found, softmax fused with the product of weights and values. This
// file chooses between them.

// fullTile is what the tiles of a block have in common whose rows see all of its keys, with scores
// that are products and nothing more. They go through the kernels one after another, with
// operands that are checked once for all tiles.
type fullTile struct {
	s, alpha, maxima *float32 // scratch: scores, factors and maxima of the rows of one tile
	k, v             *float32 // packed keys; values as layout says
	d, oStride       int
	c                float32 // u·log₂e, u being the unit of scores
	layout           *panelLayout
	queue            *prefetchQueue
}

// add takes rows of queries through score, softmax and accumulate. It reports whether some row has
// still seen nothing above −Inf.
func (t *fullTile) add(q, m, l, o *float32, rows int) (masked bool) {
	use := chooseKernels(rows, t.d, t.layout.cols)
	switch {
	case use.lanes16 && t.layout.cols >= panel:
		scoreAVX512(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxAVX512(t.s, m, l, t.alpha, rows, t.c)
		accumulatePanels(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
		return masked
	case use.maxima:
		scoreMaximaSIMD(t.s, q, t.k, t.maxima, rows, t.d, Block/panel, t.queue)
		masked = softmaxMaximaSIMD(t.s, m, l, t.alpha, t.maxima, rows, t.c)
	case use.softmax16:
		scoreSIMD(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxAVX512(t.s, m, l, t.alpha, rows, t.c)
	default:
		scoreSIMD(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxSIMD(t.s, m, l, t.alpha, rows, t.c)
	}
	accumulateSIMD(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
	return masked
}

// softmaxValues is softmax and accumulate, for a block whose keys all exist.
func softmaxValues(s, m, l, alpha, o, v []float32, rows, oStride int, b *panelLayout,
	c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.UpdatesRows(o, rows, oStride, b.cols)
	b.reads(v)
	if !tuned.ISA.SIMD() {
		return softmaxValuesGeneric(s, m, l, alpha, o, v, rows, oStride, b, c)
	}
	fused := 0
	if chooseKernels(rows, 0, b.cols).fused {
		fused = rows / fusedRows * fusedRows
		masked = softmaxValuesFused(s, m, l, alpha, o, v, fused, oStride, b, c)
	}
	if fused < rows {
		s, m, l, alpha = s[fused*Block:], m[fused:], l[fused:], alpha[fused:]
		masked = softmax(s, m, l, alpha, rows-fused, c) || masked
		accumulate(o[fused*oStride:], s, v, alpha, rows-fused, oStride, Block, b)
	}
	return masked
}

// softmaxValuesFused is softmaxValues of a multiple of fusedRows rows.
func softmaxValuesFused(s, m, l, alpha, o, v []float32, rows, oStride int, b *panelLayout,
	c float32) (masked bool) {
	for r := 0; r < rows; r += minTileRows {
		n := min(minTileRows, rows-r)
		masked = softmaxValuesSIMD(&s[r*Block], &m[r], &l[r], &alpha[r], &o[r*oStride], &v[0], n, oStride,
			b, c) || masked
	}
	if b.cols > fusedCols {
		rest := *b
		rest.cols -= fusedCols
		accumulate(o[fusedCols:], s, v[fusedCols/panel*b.panelStride:], alpha, rows, oStride, Block,
			&rest)
	}
	return masked
}

// accumulatePanels is accumulate of at least one panel: whole panels with 16 lanes, and the last 8
// columns, if their number is odd, with 8.
func accumulatePanels(o, p, v, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	accumulateAVX512(o, p, v, alpha, rows, oStride, pStride, b)
	whole := b.cols / panel
	if whole*panel == b.cols {
		return
	}
	rest := *b
	rest.cols -= whole * panel
	accumulateSIMD(operand.At(o, whole*panel), p, operand.At(v, whole*b.panelStride), alpha, rows,
		oStride, pStride, &rest)
}
