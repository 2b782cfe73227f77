//go:build (amd64 || arm64) && !purego

package floats

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Keys to values, where values are part of keys: packed keys have 16 keys of one channel side by
// side, packed values 16 channels of one key. So squares of 16 × 16 elements are transposed.

// TransposeFloats brings the first cols channels of n packed keys of d dimensions, in whole panels,
// to the order of packed values: channel c of key j goes from k[(j/panel*d + c)*panel + j%panel] to
// dst[(c/panel*Block + j)*panel + c%panel]. The padding of the last panel of channels is 0.
func TransposeFloats(isa tuning.ISA, dst, k []float32, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !isa.SIMD() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = kernel.CallCopies / kernel.Block / kernel.Panel
	squares, whole := kernel.RoundUp(n, kernel.Panel)/kernel.Panel, cols/kernel.Panel
	for c := 0; c < whole; c = kernel.NextPiece(c, step, whole) {
		transposeFloatsStep(isa, &dst[c*kernel.Panel*kernel.Block], &k[c*kernel.Panel*kernel.Panel],
			d*kernel.Panel, squares, min(step, whole-c))
	}
	if last := whole * kernel.Panel; last < cols {
		transposeGeneric(dst[last*kernel.Block:], k[last*kernel.Panel:], d, cols-last, n)
	}
}
