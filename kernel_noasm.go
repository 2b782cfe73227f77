//go:build !(amd64 || arm64) || purego

package attn

import "github.com/seed-1415985d/attn/internal/kernel"

// Without assembly the generic kernels are the only ones: the dispatchers never call these.

const unreachable = "attn: no assembly on this platform"

// Kernels over fewer bits.

func accumulateTypedStep(t Format, o, p *float32, v *byte, alpha *float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func widenF16SIMD(dst *float32, v *byte, n int)                { panic(unreachable) }
func widenBF16SIMD(dst *float32, v *byte, n int)               { panic(unreachable) }
func widenI8SIMD(dst *float32, v *byte, steps, stride int)     { panic(unreachable) }
func narrowF16SIMD(dst *uint16, x *float32, n int)             { panic(unreachable) }
func narrowBF16SIMD(dst *uint16, x *float32, n int)            { panic(unreachable) }
func largestSIMD(x *float32, n int) float32                    { panic(unreachable) }
func quantizeSIMD(dst *int8, x *float32, n int, scale float32) { panic(unreachable) }
func encodeSIMD(dst *byte, x *float32, n int, scale float32)   { panic(unreachable) }
func lookUpStep(dst, src *byte, rows, vectors, row, step, upper, ahead int) {
	panic(unreachable)
}
func rotateStep(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32) {
	panic(unreachable)
}

// Kernels in integers.

func scoreInt8Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func accumulateInt8Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func scoreInt4Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func accumulateInt4Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func softmaxInt8Step(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64, rows int) (
	masked, rare bool) {
	panic(unreachable)
}

func quantizeRowsStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int) {
	panic(unreachable)
}

func quantizeGroupsStep(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int) {
	panic(unreachable)
}

// Passes over slices.

func dot(a, b []float32) float32 { return dotGeneric(a, b) }

func addProducts(lane *[64]float32, a, b []float32) { addProductsGeneric(lane, a, b) }

func maxOf(x []float32) float32 { return maxOfGeneric(x) }

func exp(dst, x []float32) { expGeneric(dst, x) }

func expSum(dst, x []float32, top float32) float32 { return expSumGeneric(dst, x, top) }

func sumExp(x []float32, top float32) float32 { return sumExpGeneric(x, top) }
