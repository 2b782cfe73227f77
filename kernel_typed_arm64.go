//go:build !purego

package attn

// Stubs of the kernels over fewer bits. The dispatchers in kernel_typed.go have checked all lengths; pointers are to the first
// element and every count is at least 1.

// accumulateF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric.
//
//go:noescape
func accumulateF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout)

// accumulateBF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric.
//
//go:noescape
func accumulateBF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout)

// accumulateI8SIMD adds weighted values to the output. It works like accumulateTypedGeneric.
//
//go:noescape
func accumulateI8SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int, b *panelLayout)

// widenF16SIMD widens n elements, a multiple of panel. It works like widenGeneric.
//
//go:noescape
func widenF16SIMD(dst *float32, v *byte, n int)

// widenBF16SIMD widens n elements, a multiple of panel. It works like widenGeneric.
//
//go:noescape
func widenBF16SIMD(dst *float32, v *byte, n int)

// widenI8SIMD widens steps of a panel. It works like widenGeneric.
//
//go:noescape
func widenI8SIMD(dst *float32, v *byte, steps, stride int)

// narrowF16SIMD rounds to 16 bits. It works like narrowGeneric.
//
//go:noescape
func narrowF16SIMD(dst *uint16, x *float32, n int)

// narrowBF16SIMD rounds to 16 bits. It works like narrowGeneric.
//
//go:noescape
func narrowBF16SIMD(dst *uint16, x *float32, n int)

// largestSIMD is the largest magnitude. It works like largestGeneric.
//
//go:noescape
func largestSIMD(x *float32, n int) float32

// quantizeSIMD divides by a scale that is not 0 and rounds to integers. It works like quantizeGeneric.
//
//go:noescape
func quantizeSIMD(dst *int8, x *float32, n int, scale float32)

// scaleColumnsSIMD multiplies each column by its factor. It works like scaleColumnsGeneric.
//
//go:noescape
func scaleColumnsSIMD(s, f *float32, rows, stride, n int)

// rotateSIMD rotates one row by blocks of at least 2. It works like rotateGeneric.
//
//go:noescape
func rotateSIMD(x *float32, n, block int, factor float32)
