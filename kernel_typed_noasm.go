//go:build !(amd64 || arm64) || purego

package attn

// Stubs of the kernels over fewer bits, where the assembly lacks them. They are never called.

const noTyped = "attn: no kernels over fewer bits in this implementation"

func accumulateF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	panic(noTyped)
}
func accumulateBF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	panic(noTyped)
}
func accumulateI8SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout) {
	panic(noTyped)
}
func widenF16SIMD(dst *float32, v *byte, n int)                { panic(noTyped) }
func widenBF16SIMD(dst *float32, v *byte, n int)               { panic(noTyped) }
func widenI8SIMD(dst *float32, v *byte, steps, stride int)     { panic(noTyped) }
func narrowF16SIMD(dst *uint16, x *float32, n int)             { panic(noTyped) }
func narrowBF16SIMD(dst *uint16, x *float32, n int)            { panic(noTyped) }
func largestSIMD(x *float32, n int) float32                    { panic(noTyped) }
func quantizeSIMD(dst *int8, x *float32, n int, scale float32) { panic(noTyped) }
func scaleColumnsSIMD(s, f *float32, rows, stride, n int)      { panic(noTyped) }
func rotateSIMD(x *float32, n, block int, factor float32)      { panic(noTyped) }
