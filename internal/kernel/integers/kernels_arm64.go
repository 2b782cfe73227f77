//go:build !purego

package integers

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func scoreInt8Step(cpu *tuning.Row, s *float32, q *Rows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	scoreInt8Dot(s, &q.Bytes[at], k, scales, rows, qStride, b)
}

func accumulateInt8Step(_ *tuning.Row, _ *Rows, x *SumsCall) { accumulateInt8Dot(x) }

func multiplyInt8Step(_ *tuning.Row, _ *Rows, x *SumsCall) { multiplyInt8Dot(x) }

// softmaxInt8Step is one online-softmax step in integers. It works like softmaxInt8Generic, but for
// rows whose largest product is NaN, infinite or below 2⁻¹⁰⁰: it reports whether there was such a
// row, whose integers and scale are wrong.
func softmaxInt8Step(cpu *tuning.Row, w *int16, f, s, m, l, alpha, c, scales *float32,
	visible *uint64, rows int) (
	masked, rare bool) {
	at := func(x *float32, i int) *float32 { return (*float32)(unsafe.Add(unsafe.Pointer(x), 4*i)) }
	for r := range rows {
		var seen *uint64
		if visible != nil {
			seen = (*uint64)(unsafe.Add(unsafe.Pointer(visible), 8*r))
		}
		if floats.SoftmaxStep(cpu, at(s, r*kernel.Block), at(m, r), at(l, r), at(alpha, r), seen, 1,
			*at(c,
				r)) {
			masked = true
		}
	}
	return masked, weightsInt8Dot(w, f, s, scales, visible, rows)
}

// scoreInt8Dot computes scores of rows of bytes, with SDOT. It works like scoreInt8Generic.
//
//go:noescape
func scoreInt8Dot(s *float32, q *int8, k *byte, scales *float32, rows, qStride int,
	b *kernel.PanelLayout)

// multiplyInt8Dot adds products of rows of bytes, with SDOT. It works like accumulateInt8Generic
// without alpha.
//
//go:noescape
func multiplyInt8Dot(x *SumsCall)

// accumulateInt8Dot adds weighted values to the output, with SDOT: weights are 0 to 32767. It works
// like accumulateInt8Generic.
//
//go:noescape
func accumulateInt8Dot(x *SumsCall)

// weightsInt8Dot replaces weights by their products with the scales of their values, and quantizes
// these. visible may be nil. It works like integersOfProducts, but reports whether there was a row
// whose largest product is NaN, infinite or below 2⁻¹⁰⁰.
//
//go:noescape
func weightsInt8Dot(w *int16, f, s, scales *float32, visible *uint64, rows int) (rare bool)

// quantizeRowsStep has no kernel here: the generic code computes each row.
func quantizeRowsStep(isa tuning.ISA, dst *int8, scales *float32, starts *int32, x *float32, rows,
	n, dstStride,
	xStride int) (done int) {
	return 0
}

// quantizeGroupsStep likewise.
func quantizeGroupsStep(isa tuning.ISA, dst *int8, scales, x *float32, rows, n, cols,
	xStride int) (done int) {
	return 0
}

// rotateStep transforms rows of blocks from x to dst, which may be the same.
func rotateStep(isa tuning.ISA, dst, x *float32, rows, n, dstStride, xStride, block int,
	factor float32) {
	for r := range rows {
		row := operand.At(dst, r*dstStride)
		if dst != x {
			copy(unsafe.Slice(row, n), unsafe.Slice(operand.At(x, r*xStride), n))
		}
		rotateSIMD(row, n, block, factor)
	}
}

// rotateSIMD transforms the blocks of one row, at least 2 elements each. It works like
// rotateGeneric.
//
//go:noescape
func rotateSIMD(x *float32, n, block int, factor float32)
