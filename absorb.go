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
	if tuned.fusedSoftmax && tuned.isa != avx512 && b.cols >= fusedCols {
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
