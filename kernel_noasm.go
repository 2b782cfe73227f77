//go:build !(amd64 || arm64) || purego

package attn

import "github.com/seed-1415985d/attn/internal/kernel"

// Without assembly the generic kernels are the only ones: the dispatchers never call these.

const unreachable = "attn: no assembly on this platform"

const inPlaceKeys = panel

func packKeysSIMD(dst, k *float32, stride, n, d int,
	inOrder bool) {
	panic(unreachable)
}
func packValuesSIMD(dst, v *float32, stride, n, d int,
	inOrder bool) {
	panic(unreachable)
}
func scoreSIMD(s, q, k *float32, rows, d, panels int,
	next *kernel.PrefetchQueue) {
	panic(unreachable)
}
func scoreRowsSIMD(s, q, k *float32, rows, d, stride, n int, next *kernel.PrefetchQueue) {
	panic(unreachable)
}
func softmaxSIMD(s, m, l, alpha *float32, rows int, c float32) (masked bool) { panic(unreachable) }
func softmaxMaskedSIMD(s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool) {
	panic(unreachable)
}
func accumulateSIMD(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func accumulateMaskedSIMD(o, p, v, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout) {
	panic(unreachable)
}
func scaleSIMD(dst, x *float32, n int, f float32)                        { panic(unreachable) }
func mergeSIMD(o, b *float32, n int, x, y float32)                       { panic(unreachable) }
func mergeSumsSIMD(m, l, m2, l2, x, y *float32, n int, c float32)        { panic(unreachable) }
func softcapSIMD(s *float32, n int, limit, factor float32)               { panic(unreachable) }
func alibiSIMD(s *float32, n int, slope float32, first int)              { panic(unreachable) }
func addBiasSIMD(s, bias *float32, rows, step, stride, n int, u float32) { panic(unreachable) }
func maskBiasSIMD(bias *float32, visible *uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	panic(unreachable)
}
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64) {
	panic(unreachable)
}
func weightsSIMD(dst, s *float32, n int, m, r, c float32, visible uint64) { panic(unreachable) }
func allFiniteSIMD(x *float32, n int) bool                                { panic(unreachable) }
func dotSIMD(a, b *float32, n int) float32                                { panic(unreachable) }
func addProductsSIMD(lane *[64]float32, a, b *float32, n int)             { panic(unreachable) }
func maxOfSIMD(x *float32, n int) float32                                 { panic(unreachable) }
func expSIMD(dst, x *float32, n int)                                      { panic(unreachable) }
func expSumSIMD(dst, x *float32, n int, top float32) float32              { panic(unreachable) }
func sumExpSIMD(x *float32, n int, top float32) float32                   { panic(unreachable) }

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
func scaleColumnsSIMD(s, f *float32, rows, stride, n int) { panic(unreachable) }
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

func magnitudesSIMD(dst, src *int8, n int) (start int32) { panic(unreachable) }

func copyRowsSIMD(dst, x *float32, rows, n, stride int) { panic(unreachable) }

func interleaveSIMD(dst, src *byte, cols, n int) { panic(unreachable) }

func scoreStep(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	panic(unreachable)
}
func softmaxStep(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool) {
	panic(unreachable)
}
func accumulateStep(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	panic(unreachable)
}
func normalizeStep(dst, o, l *float32, rows, n, dstStride, oStride int) { panic(unreachable) }
func transposeFloatsStep(dst, k *float32, stride, squares, panels int)  { panic(unreachable) }
func (t *fullTile) add(q, m, l, o *float32, rows int) (masked bool)     { panic(unreachable) }
