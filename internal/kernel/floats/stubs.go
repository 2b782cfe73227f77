//go:build (amd64 || arm64) && !purego

package attn

import "github.com/seed-1415985d/attn/internal/kernel"

// Stubs of the kernels that each architecture's assembly has: their names end in SIMD. (On arm64
// normalizeSIMD, addBiasSIMD, maskBiasSIMD and maskKeysSIMD are Go around kernels of one row.)
// Those of one architecture are in its file, and names that end in Step there choose between
// kernels. Whoever calls them has checked all lengths; pointers are to the first element and every
// count is at least 1.

// packKeysSIMD transposes keys into panels. It works like packKeysGeneric.
//
//go:noescape
func packKeysSIMD(dst, k *float32, stride, n, d int, inOrder bool)

// packValuesSIMD copies values into panels. It works like packValuesGeneric.
//
//go:noescape
func packValuesSIMD(dst, v *float32, stride, n, d int, inOrder bool)

// scoreSIMD multiplies queries by packed keys and prefetches what comes next. It
// works like scoreGeneric.
//
//go:noescape
func scoreSIMD(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// scoreRowsSIMD multiplies queries by keys in rows and may prefetch what comes next. It works like
// scoreRowsGeneric.
//
//go:noescape
func scoreRowsSIMD(s, q, k *float32, rows, d, stride, n int, next *kernel.PrefetchQueue)

// softmaxSIMD is one online-softmax step. It works like softmaxGeneric.
//
//go:noescape
func softmaxSIMD(s, m, l, alpha *float32, rows int, c float32) (masked bool)

// softmaxMaskedSIMD is one online-softmax step over visible keys. It works like
// softmaxMaskedGeneric.
//
//go:noescape
func softmaxMaskedSIMD(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool)

// accumulateSIMD adds weighted values to the output. It works like accumulateGeneric.
//
//go:noescape
func accumulateSIMD(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout)

// accumulateMaskedSIMD adds weighted visible values to the output. It works like
// accumulateMaskedGeneric.
//
//go:noescape
func accumulateMaskedSIMD(o, p, v, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// scaleSIMD multiplies by a factor. It works like scaleGeneric.
//
//go:noescape
func scaleSIMD(dst, x *float32, n int, f float32)

// mergeSIMD puts two outputs together. It works like mergeGeneric.
//
//go:noescape
func mergeSIMD(o, b *float32, n int, x, y float32)

// mergeSumsSIMD puts maxima and sums of two states together. It works like mergeSumsGeneric.
//
//go:noescape
func mergeSumsSIMD(m, l, m2, l2, x, y *float32, n int, c float32)

// softcapSIMD caps scores. It works like softcapGeneric.
//
//go:noescape
func softcapSIMD(s *float32, n int, limit, factor float32)

// alibiSIMD adds a linear bias by distance. It works like alibiGeneric.
//
//go:noescape
func alibiSIMD(s *float32, n int, slope float32, first int)

// weightsSIMD writes softmax probabilities. It works like weightsGeneric.
//
//go:noescape
func weightsSIMD(dst, s *float32, n int, m, r, c float32, visible uint64)

// allFiniteSIMD looks for NaN and infinity. It works like allFiniteGeneric.
//
//go:noescape
func allFiniteSIMD(x *float32, n int) bool

// dotSIMD is a dot product. It works like dotGeneric.
//
//go:noescape
func dotSIMD(a, b *float32, n int) float32

// addProductsSIMD goes on with the chains of a dot product for n elements, a
// multiple of 64. It works like addProductsGeneric.
//
//go:noescape
func addProductsSIMD(lane *[64]float32, a, b *float32, n int)

// maxOfSIMD is the largest element. It works like maxOfGeneric.
//
//go:noescape
func maxOfSIMD(x *float32, n int) float32

// expSIMD is the exponential function. It works like expGeneric.
//
//go:noescape
func expSIMD(dst, x *float32, n int)

// expSumSIMD is exponentials and their sum. It works like expSumGeneric.
//
//go:noescape
func expSumSIMD(dst, x *float32, n int, top float32) float32

// sumExpSIMD is the sum of exponentials. It works like sumExpGeneric.
//
//go:noescape
func sumExpSIMD(x *float32, n int, top float32) float32

// Over fewer bits.

// accumulateF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric of
// F16.
//
//go:noescape
func accumulateF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateBF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric of
// BF16.
//
//go:noescape
func accumulateBF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI8SIMD adds weighted values to the output. It works like accumulateTypedGeneric of I8.
//
//go:noescape
func accumulateI8SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// widenF16SIMD widens n elements, whole panels of them. It works like widenGeneric of F16.
//
//go:noescape
func widenF16SIMD(dst *float32, v *byte, n int)

// widenBF16SIMD widens n elements, whole panels of them. It works like widenGeneric of BF16.
//
//go:noescape
func widenBF16SIMD(dst *float32, v *byte, n int)

// widenI8SIMD widens the steps of a panel. It works like widenGeneric of I8.
//
//go:noescape
func widenI8SIMD(dst *float32, v *byte, steps, stride int)

// narrowF16SIMD rounds to half precision. It works like narrowGeneric of F16.
//
//go:noescape
func narrowF16SIMD(dst *uint16, x *float32, n int)

// narrowBF16SIMD rounds to the upper half of a float32. It works like narrowGeneric of BF16.
//
//go:noescape
func narrowBF16SIMD(dst *uint16, x *float32, n int)

// largestSIMD is the largest magnitude. It works like largestGeneric.
//
//go:noescape
func largestSIMD(x *float32, n int) float32

// quantizeSIMD rounds multiples of a scale. It works like quantizeGeneric of a scale that is not 0.
//
//go:noescape
func quantizeSIMD(dst *int8, x *float32, n int, scale float32)

// encodeSIMD makes codes of I4. It works like encodeGeneric of a scale that is not 0.
//
//go:noescape
func encodeSIMD(dst *byte, x *float32, n int, scale float32)

// lookUpSIMD makes levels of codes, of rows of vectors of 64 bytes, and prefetches what is some
// bytes ahead of them. It works like lookUpGeneric.
//
//go:noescape
func lookUpSIMD(dst, src *byte, rows, vectors, row, step, upper, ahead int)

// scaleColumnsSIMD multiplies each column by a factor. It works like scaleColumnsGeneric.
//
//go:noescape
func scaleColumnsSIMD(s, f *float32, rows, stride, n int)
