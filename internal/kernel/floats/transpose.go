package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
)

// Keys to values: where values are part of keys, what keys have side by side, 16 keys of one
// channel, values have one after another, and 16 channels of one key side by side. So squares of
// 16 × 16 elements are transposed.

// transposeFloats brings the first cols channels of n packed keys of d dimensions, in whole panels,
// to the order of packed values: channel c of key j goes from k[(j/panel*d + c)*panel + j%panel] to
// dst[(c/panel*Block + j)*panel + c%panel]. What completes the last panel of channels is 0.
func transposeFloats(dst, k []float32, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !tuned.ISA.SIMD() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = kernel.CallCopies / Block / panel
	squares, whole := roundUp(n, panel)/panel, cols/panel
	for c := 0; c < whole; c = kernel.NextPiece(c, step, whole) {
		transposeFloatsStep(&dst[c*panel*Block], &k[c*panel*panel], d*panel, squares, min(step, whole-c))
	}
	if last := whole * panel; last < cols {
		transposeGeneric(dst[last*Block:], k[last*panel:], d, cols-last, n)
	}
}
