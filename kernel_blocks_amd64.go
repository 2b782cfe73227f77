//go:build !purego

package attn

// Levels with 128 added, as VNNI takes them.
var (
	bytesQ4   = biased(128, [16]int8{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7})
	bytesIQ4  = biased(128, levelsIQ4)
	bytesMXFP = biased(128, levelsMXFP)
)

// biased is levels with a number added.
func biased(bias int, levels [16]int8) (x [16]byte) {
	for i, e := range levels {
		x[i] = byte(int(e) + bias)
	}
	return x
}

// blockKernels reports whether there are kernels of products by blocks.
func blockKernels() bool { return tuned.ISA.Lanes16() && tuned.DotProduct }

// unpackBlocksStep unpacks n blocks of a panel for multiplyBlocksStep.
func unpackBlocksStep(t BlockType, dst, packed *byte, n int) {
	switch t {
	case Q8_0:
		unpackQ8AVX512(dst, packed, n)
	case Q4_0:
		unpackNibblesF16AVX512(dst, packed, &bytesQ4[0], n)
	case IQ4_NL:
		unpackNibblesF16AVX512(dst, packed, &bytesIQ4[0], n)
	case MXFP4:
		unpackNibblesBF16AVX512(dst, packed, &bytesMXFP[0], n)
	case Q4_K:
		unpackQ4KAVX512(dst, packed, n)
	case Q5_K:
		unpackQ5KAVX512(dst, packed, n)
	case Q6_K:
		unpackQ6KAVX512(dst, packed, n)
	}
}

// multiplyBlocksStep adds products of rows and some unpacked blocks to o, in one call.
func multiplyBlocksStep(t BlockType, o *float32, a *blockRow, w *byte, rows, n, oStride, aStride int,
	overwrite bool) {
	switch t.unpacked() {
	case unpackedPlain:
		multiplyPlainVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case unpackedMinima:
		multiplyMinimaVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	default:
		multiplyHalvesVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	}
}

// multiplyPlainVNNIAVX512 multiplies rows by blocks with one scale. It works like
// multiplyBlocksGeneric, as the two below do.
//
//go:noescape
func multiplyPlainVNNIAVX512(o *float32, a *blockRow, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyMinimaVNNIAVX512 is for Q4_K and Q5_K.
//
//go:noescape
func multiplyMinimaVNNIAVX512(o *float32, a *blockRow, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyHalvesVNNIAVX512 is for Q6_K.
//
//go:noescape
func multiplyHalvesVNNIAVX512(o *float32, a *blockRow, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// Kernels that unpack n blocks for VNNI.

//go:noescape
func unpackQ8AVX512(dst, packed *byte, n int)

//go:noescape
func unpackNibblesF16AVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackNibblesBF16AVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackQ4KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ5KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ6KAVX512(dst, packed *byte, n int)

// Kernels that unpack n blocks for AVX2.

//go:noescape
func unpackQ8SIMD(dst, packed *byte, n int)

//go:noescape
func unpackNibblesF16SIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackNibblesBF16SIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackQ4KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ5KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ6KSIMD(dst, packed *byte, n int)
