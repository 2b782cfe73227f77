//go:build (amd64 || arm64) && !purego

package elements

import "github.com/seed-1415985d/attn/internal/tuning"

// vectors reports whether there are kernels.
func vectors(isa tuning.ISA) bool { return isa.SIMD() }

// sumSIMD continues sums of n elements, all calls for one sum but the last with a multiple of 64,
// and returns the lanes' sum. A nil lane is zeros. It works like sumGeneric.
//
//go:noescape
func sumSIMD(lane *[Lanes]float32, x *float32, n int) float32

// sumSquaresSIMD is sumSIMD of squares. It works like sumSquaresGeneric.
//
//go:noescape
func sumSquaresSIMD(lane *[Lanes]float32, x *float32, n int, mean float32) float32

// addSquaresSIMD is sumSIMD of the squares of sums, which it writes. It works like
// addSquaresGeneric.
//
//go:noescape
func addSquaresSIMD(lane *[Lanes]float32, dst, a, b *float32, n int) float32

// scaleSIMD multiplies by a number. It works like scaleGeneric.
//
//go:noescape
func scaleSIMD(dst, x *float32, n int, r float32, xAhead, dstAhead int)

// scaleWeightedSIMD multiplies by a number and by weights. It works like scaleWeightedGeneric.
//
//go:noescape
func scaleWeightedSIMD(dst, x, weight *float32, n int, r float32, xAhead, dstAhead int)

// normalizeSIMD subtracts, multiplies and adds. It works like normalizeGeneric.
//
//go:noescape
func normalizeSIMD(dst, x, weight, bias *float32, n int, mean, r float32, xAhead, dstAhead int)

// addSIMD is sums. It works like addGeneric.
//
//go:noescape
func addSIMD(dst, a, b *float32, n, xAhead, dstAhead int)

// multiplySIMD is products. It works like multiplyGeneric.
//
//go:noescape
func multiplySIMD(dst, a, b *float32, n, xAhead, dstAhead int)

// multiplyAddSIMD adds products. It works like multiplyAddGeneric.
//
//go:noescape
func multiplyAddSIMD(dst, a, b *float32, n int)

// columnMaximaSIMD is maxima of n columns, a multiple of 16. It works like columnMaximaGeneric.
//
//go:noescape
func columnMaximaSIMD(best, x *float32, n, rows, stride int)

// combineSIMD is one sum of rows. It works like combineGeneric.
//
//go:noescape
func combineSIMD(x *combineCall)

// combineFourSIMD is four sums of rows. It works like combineGeneric.
//
//go:noescape
func combineFourSIMD(x *combineCall)

// gateClampedSIMD is the clamped gate. It works like gateClampedGeneric.
//
//go:noescape
func gateClampedSIMD(dst, gate, up *float32, n int, alpha, limit float32, xAhead, dstAhead int)

// siluGateSIMD is SwiGLU. It works like siluGateGeneric.
//
//go:noescape
func siluGateSIMD(dst, x, up *float32, n, xAhead, dstAhead int)

// rotateHalvesSIMD turns n pairs, by sines of a sign that flip changes. It works like
// rotateHalvesGeneric.
//
//go:noescape
func rotateHalvesSIMD(dst, x, c, s *float32, n, half int, flip float32)

// rotatePairsSIMD is rotateHalvesSIMD of neighbours. It works like rotatePairsGeneric.
//
//go:noescape
func rotatePairsSIMD(dst, x, c, s *float32, n int, flip float32)

// The activations work like activateGeneric.

//go:noescape
func siluSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func sigmoidSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func reluSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func reluSquaredSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func tanhSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func expAllSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func geluSIMD(dst, x *float32, n, xAhead, dstAhead int)

//go:noescape
func geluTanhSIMD(dst, x *float32, n, xAhead, dstAhead int)
