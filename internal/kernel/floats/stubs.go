//go:build (amd64 || arm64) && !purego

package floats

import "github.com/seed-1415985d/attn/internal/kernel"

// Stubs of the kernels that each architecture's assembly has: their names end in SIMD. (On arm64
// normalizeSIMD, addBiasSIMD, maskBiasSIMD and maskKeysSIMD are Go around kernels of one row.)
// Stubs of one architecture are in its file, and functions there whose names end in Step choose
// between kernels. Callers have checked all lengths; pointers point to the first element and every
// count is at least 1.

// packKeysSIMD transposes keys into panels. It works like packKeysGeneric.
//
//go:noescape
func packKeysSIMD(dst, k *float32, stride, n, d int, inOrder bool)

// packValuesSIMD copies values into panels. It works like packValuesGeneric.
//
//go:noescape
func packValuesSIMD(dst, v *float32, stride, n, d int, inOrder bool)

// scoreSIMD multiplies queries by packed keys and prefetches. It works like scoreGeneric.
//
//go:noescape
func scoreSIMD(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// scoreRowsSIMD multiplies queries by keys in rows and may prefetch. It works like
// scoreRowsGeneric.
//
//go:noescape
func scoreRowsSIMD(s, q, k *float32, rows, d, stride, n int, next *kernel.PrefetchQueue)

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

// Over fewer bits.

// scaleColumnsSIMD multiplies each column by a factor. It works like scaleColumnsGeneric.
//
//go:noescape
func scaleColumnsSIMD(s, f *float32, rows, stride, n int)

// addColumnsSIMD adds a number to each column. It works like addColumnsGeneric.
//
//go:noescape
func addColumnsSIMD(s, bias *float32, rows, stride, n int)

// scaleAddColumnsSIMD is scaleColumnsSIMD and then addColumnsSIMD. It works like
// scaleAddColumnsGeneric.
//
//go:noescape
func scaleAddColumnsSIMD(s, f, bias *float32, rows, stride, n int)
