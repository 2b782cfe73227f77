//go:build !purego

package attn

// int8Lanes16 reports whether kernels in integers have 16 lanes for so many rows.
func int8Lanes16(rows int) bool { return tuned.ISA.Lanes16() && rows >= tuned.MinInt8Rows16 }

func scoreInt8SIMD(s *float32, q integerRows, k *byte, scales *float32, rows, qStride int,
	b *panelLayout) {
	switch {
	case q.bytes != nil:
		scoreInt8VNNIAVX512(s, &q.bytes[0], &q.starts[0], k, scales, rows, qStride, b)
	case int8Lanes16(rows):
		scoreInt8AVX512(s, &q.words[0], k, scales, rows, qStride, b)
	default:
		scoreInt8AVX2(s, &q.words[0], k, scales, rows, qStride, b)
	}
}

func accumulateInt8SIMD(o *float32, w integerRows, v *byte, alpha, f *float32, rows, oStride,
	wStride, fStride int, b *panelLayout) {
	switch {
	case w.bytes != nil:
		multiplyInt8VNNIAVX512(o, &w.bytes[0], &w.starts[0], v, f, rows, oStride, wStride, fStride, b)
	case tuned.DotProduct && int8Lanes16(rows):
		accumulateInt8VNNIAVX512(o, &w.words[0], v, alpha, f, rows, oStride, wStride, fStride, b)
	case int8Lanes16(rows):
		accumulateInt8AVX512(o, &w.words[0], v, alpha, f, rows, oStride, wStride, fStride, b)
	default:
		accumulateInt8AVX2(o, &w.words[0], v, alpha, f, rows, oStride, wStride, fStride, b)
	}
}

// scoreInt8AVX2 makes scores of integers. It works like scoreInt8Generic.
//
//go:noescape
func scoreInt8AVX2(s *float32, q *int16, k *byte, scales *float32, rows, qStride int,
	b *panelLayout)

// scoreInt8AVX512 is scoreInt8AVX2 with 16 lanes.
//
//go:noescape
func scoreInt8AVX512(s *float32, q *int16, k *byte, scales *float32, rows, qStride int,
	b *panelLayout)

// scoreInt8VNNIAVX512 is scoreInt8AVX512 of rows of bytes, for CPUs with AVX512_VNNI.
//
//go:noescape
func scoreInt8VNNIAVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *panelLayout)

// accumulateInt8AVX2 adds weighted values to the output. It works like accumulateInt8Generic.
//
//go:noescape
func accumulateInt8AVX2(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *panelLayout)

// accumulateInt8AVX512 is accumulateInt8AVX2 with 16 lanes.
//
//go:noescape
func accumulateInt8AVX512(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *panelLayout)

// accumulateInt8VNNIAVX512 is accumulateInt8AVX512 for CPUs with AVX512_VNNI.
//
//go:noescape
func accumulateInt8VNNIAVX512(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride,
	wStride, fStride int, b *panelLayout)

// multiplyInt8VNNIAVX512 is accumulateInt8VNNIAVX512 of rows of bytes, without alpha. starts and f
// have the same stride.
//
//go:noescape
func multiplyInt8VNNIAVX512(o *float32, a *int8, starts *int32, v *byte, f *float32, rows, oStride,
	aStride, fStride int, b *panelLayout)

// softmaxInt8Step is one online-softmax step in integers. It works like softmaxInt8Generic, but for
// rows whose largest product is NaN, infinite or below 2⁻¹⁰⁰: it reports whether there was such a
// row, of which the integers and their scale are wrong.
func softmaxInt8Step(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64, rows int) (
	masked, rare bool) {
	switch lanes16 := int8Lanes16(rows); {
	case visible == nil && lanes16:
		return softmaxInt8AVX512(w, f, s, m, l, alpha, c, scales, rows)
	case visible == nil:
		return softmaxInt8SIMD(w, f, s, m, l, alpha, c, scales, rows)
	case lanes16:
		return softmaxInt8MaskedAVX512(w, f, s, m, l, alpha, c, scales, visible, rows)
	}
	return softmaxInt8MaskedSIMD(w, f, s, m, l, alpha, c, scales, visible, rows)
}

// softmaxInt8SIMD is softmaxInt8Step without a mask.
//
//go:noescape
func softmaxInt8SIMD(w *int16, f, s, m, l, alpha, c, scales *float32, rows int) (masked, rare bool)

// softmaxInt8MaskedSIMD is softmaxInt8Step with a mask.
//
//go:noescape
func softmaxInt8MaskedSIMD(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64,
	rows int) (masked, rare bool)

// softmaxInt8AVX512 is softmaxInt8SIMD with 16 lanes.
//
//go:noescape
func softmaxInt8AVX512(w *int16, f, s, m, l, alpha, c, scales *float32, rows int) (
	masked, rare bool)

// softmaxInt8MaskedAVX512 is softmaxInt8MaskedSIMD with 16 lanes.
//
//go:noescape
func softmaxInt8MaskedAVX512(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64,
	rows int) (masked, rare bool)

// quantizeRowsSIMD works like quantizeRows without it, and stops at rows whose largest magnitude is
// not between 2⁻¹⁰⁰ and 2¹²⁰. starts may be nil.
//
//go:noescape
func quantizeRowsSIMD(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int)

// interleaveSIMD works like interleaveGeneric, for multiples of 16 columns and 4 rows.
//
//go:noescape
func interleaveSIMD(dst, src *byte, cols, n int)

// copyRowsSIMD works like copyRowsGeneric.
//
//go:noescape
func copyRowsSIMD(dst, x *float32, rows, n, stride int)
