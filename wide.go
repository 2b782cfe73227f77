package attn

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
