//go:build !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

func scoreInt8Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	scoreInt8Dot(s, &q.bytes[at], k, scales, rows, qStride, b)
}

func accumulateInt8Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	at := row * wStride
	if w.bytes != nil {
		multiplyInt8Dot(o, &w.bytes[at], v, f, rows, oStride, wStride, fStride, b)
		return
	}
	accumulateInt8Dot(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
}

// softmaxInt8Step is one online-softmax step in integers. It works like softmaxInt8Generic, but for
// rows whose largest product is NaN, infinite or below 2⁻¹⁰⁰: it reports whether there was such a
// row, of which the integers and their scale are wrong.
func softmaxInt8Step(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64, rows int) (
	masked, rare bool) {
	at := func(x *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(x), 4*i)) }
	for r := range rows {
		var seen *uint64
		if visible != nil {
			seen = (*uint64)(unsafe.Add(unsafe.Pointer(visible), 8*r))
		}
		if floats.SoftmaxStep(&tuned, at(s, r*Block), at(m, r), at(l, r), at(alpha, r), seen, 1, *at(c,
			r)) {
			masked = true
		}
	}
	return masked, weightsInt8Dot(w, f, s, scales, visible, rows)
}

// scoreInt8Dot makes scores of rows of bytes, with SDOT. It works like scoreInt8Generic.
//
//go:noescape
func scoreInt8Dot(s *float32, q *int8, k *byte, scales *float32, rows, qStride int,
	b *kernel.PanelLayout)

// multiplyInt8Dot adds products of rows of bytes, with SDOT. It works like accumulateInt8Generic
// without alpha.
//
//go:noescape
func multiplyInt8Dot(o *float32, a *int8, v *byte, f *float32, rows, oStride, aStride, fStride int,
	b *kernel.PanelLayout)

// accumulateInt8Dot adds weighted values to the output, with SDOT: weights are 0 to 32767. It works
// like accumulateInt8Generic.
//
//go:noescape
func accumulateInt8Dot(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *kernel.PanelLayout)

// weightsInt8Dot makes integers of weights times the scales of their values, and leaves these
// products in the place of the weights. visible may be nil. It works like integersOfProducts, but
// reports whether there was a row whose largest product is NaN, infinite or below 2⁻¹⁰⁰.
//
//go:noescape
func weightsInt8Dot(w *int16, f, s, scales *float32, visible *uint64, rows int) (rare bool)

// quantizeRowsStep has no kernel here: the generic code makes each row.
func quantizeRowsStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int) {
	return 0
}

// quantizeGroupsStep likewise.
func quantizeGroupsStep(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int) {
	return 0
}
