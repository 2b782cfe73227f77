//go:build !purego

package attn

// typed16Lanes reports whether rows take 16 lanes. One row of I8 always does, because with these it
// is widened another way.
func typed16Lanes(t Format, rows int) bool {
	if rows == 1 {
		return tuned.ISA.Lanes16() && t == I8
	}
	return chooseKernels(rows, 0, 0).lanes16
}

func accumulateF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout) {
	if typed16Lanes(F16, rows) {
		accumulateF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	accumulateF16AVX2(o, p, v, alpha, rows, oStride, pStride, b)
}

func accumulateBF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout) {
	if typed16Lanes(BF16, rows) {
		accumulateBF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	accumulateBF16AVX2(o, p, v, alpha, rows, oStride, pStride, b)
}

func accumulateI8SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout) {
	if typed16Lanes(I8, rows) {
		accumulateI8AVX512(o, p, v, alpha, rows, oStride, pStride, b)
		return
	}
	accumulateI8AVX2(o, p, v, alpha, rows, oStride, pStride, b)
}

// accumulateF16AVX2 adds weighted values to the output. It works like accumulateTypedGeneric of
// F16.
//
//go:noescape
func accumulateF16AVX2(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

// accumulateF16AVX512 is accumulateF16AVX2 with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

// accumulateBF16AVX2 adds weighted values to the output. It works like accumulateTypedGeneric of
// BF16.
//
//go:noescape
func accumulateBF16AVX2(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

// accumulateBF16AVX512 is accumulateBF16AVX2 with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateBF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

// accumulateI8AVX2 adds weighted values to the output. It works like accumulateTypedGeneric of I8.
//
//go:noescape
func accumulateI8AVX2(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

// accumulateI8AVX512 is accumulateI8AVX2 with 16 lanes.
//
//go:noescape
func accumulateI8AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *panelLayout)

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

// scaleColumnsSIMD multiplies each column by a factor. It works like scaleColumnsGeneric.
//
//go:noescape
func scaleColumnsSIMD(s, f *float32, rows, stride, n int)

// rotateStep transforms the blocks of one row, at least 2 elements each. It works like
// rotateGeneric.
func rotateStep(x *float32, n, block int, factor float32) {
	if tuned.ISA.Lanes16() && block >= 16 {
		rotateAVX512(x, n, block, factor)
		return
	}
	rotateSIMD(x, n, block, factor)
}

// rotateAVX512 is rotateStep with 16 lanes, for blocks of at least 16 elements.
//
//go:noescape
func rotateAVX512(x *float32, n, block int, factor float32)

// rotateSIMD is rotateStep with 8 lanes.
//
//go:noescape
func rotateSIMD(x *float32, n, block int, factor float32)
