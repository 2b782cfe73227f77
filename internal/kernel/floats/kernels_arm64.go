//go:build !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// inPlaceKeys is how many keys scoreRows takes together.
const inPlaceKeys = 16

// addBiasRowSIMD adds a bias to one row of n ≤ Block scores.
//
//go:noescape
func addBiasRowSIMD(s, bias *float32, n int, u float32)

// maskBiasRowSIMD returns bits of n ≤ Block keys: those that a bias does not mask, and those to
// which it adds something.
//
//go:noescape
func maskBiasRowSIMD(bias *float32, n int) (visible, adds uint64)

// maskRowSIMD returns a bit for each true element of n ≤ Block.
//
//go:noescape
func maskRowSIMD(mask *bool, n int) (visible uint64)

// normalizeStep goes row by row. It works like normalizeGeneric.
func normalizeStep(dst, o, l *float32, rows, n, dstStride, oStride int) {
	for r := range rows {
		to, sum := operand.At(dst, r*dstStride), *operand.At(l, r)
		if sum == 0 {
			clear(unsafe.Slice(to, n))
			continue
		}
		scaleSIMD(to, operand.At(o, r*oStride), n, 1/sum)
	}
}

// addBiasSIMD goes row by row. It works like addBiasGeneric.
func addBiasSIMD(s, bias *float32, rows, step, stride, n int, u float32) {
	for r := range rows {
		addBiasRowSIMD(operand.At(s, r*step*Block), operand.At(bias, r*stride), n, u)
	}
}

// maskBiasSIMD goes row by row. It works like maskBiasGeneric.
func maskBiasSIMD(bias *float32, visible *uint64, rows, step, stride, lo,
	n int) (hides, adds bool) {
	hidden, added := uint64(0), uint64(0)
	for r := range rows {
		seen, more := maskBiasRowSIMD(operand.At(bias, r*stride), n)
		*operand.At(visible, r*step) &^= (lowBits(n) &^ seen) << lo
		hidden |= lowBits(n) &^ seen
		added |= more
	}
	return hidden != 0, added != 0
}

// maskKeysSIMD goes row by row. It works like maskKeysGeneric.
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		bits := maskRowSIMD(operand.At(mask, r*stride), n)
		row := operand.At(visible, r*step)
		*row &^= (lowBits(n) &^ bits) << lo
		every &= *row
	}
	return every
}

// scoreStep is scorePrefetch of checked operands, in one call.
func scoreStep(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	scoreSIMD(s, q, k, rows, d, panels, next)
}

// softmaxStep is softmax of checked operands, in one call. A nil visible is for rows that see all.
func softmaxStep(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool) {
	if visible == nil {
		return softmaxSIMD(s, m, l, alpha, rows, c)
	}
	return softmaxMaskedSIMD(s, m, l, alpha, visible, rows, c)
}

// accumulateStep is accumulate of checked operands, in one call.
func accumulateStep(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	accumulateSIMD(o, p, v, alpha, rows, oStride, pStride, b)
}

// add takes rows of queries through score, softmax and accumulate. It reports whether some row has
// still seen nothing above −Inf.
func (t *fullTile) add(q, m, l, o *float32, rows int) (masked bool) {
	scoreSIMD(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
	masked = softmaxSIMD(t.s, m, l, t.alpha, rows, t.c)
	accumulateSIMD(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
	return masked
}

// transposeFloatsStep transposes squares as keys are packed, a call for each.
func transposeFloatsStep(dst, k *float32, stride, squares, panels int) {
	for p := range panels {
		for j := range squares {
			to, from := operand.At(dst, (p*Block+j*panel)*panel), operand.At(k, p*panel*panel+j*stride)
			packKeysSIMD(to, from, panel, panel, panel, false)
		}
	}
}

// accumulateTypedStep is accumulateTyped of checked operands, in one call.
func accumulateTypedStep(t Format, o, p *float32, v *byte, alpha *float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	switch t {
	case F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case BF16:
		accumulateBF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case I8:
		accumulateI8SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}

// rotateStep transforms rows of blocks, of which dst has those of x afterwards. Both may be the
// same.
func rotateStep(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32) {
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

// lookUpStep looks up codes of checked operands, in one call.
func lookUpStep(dst, src *byte, rows, vectors, row, step, upper, ahead int) {
	lookUpSIMD(dst, src, rows, vectors, row, step, upper, ahead)
}

// Kernels in integers are those of products of four bytes.

const noIntegers = "attn: there is no such kernel in integers for NEON"

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

func scoreInt4Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	scoreInt4Dot(s, &q.bytes[at], k, scales, rows, qStride, b)
}

func accumulateInt4Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	at := row * wStride
	accumulateInt4Dot(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
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
		if softmaxStep(at(s, r*Block), at(m, r), at(l, r), at(alpha, r), seen, 1, *at(c, r)) {
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

// scoreInt4Dot is scoreInt8Dot of codes. It works like scoreInt4Generic.
//
//go:noescape
func scoreInt4Dot(s *float32, q *int8, k *byte, scales *float32, rows, qStride int,
	b *kernel.PanelLayout)

// accumulateInt4Dot is accumulateInt8Dot of codes. It works like accumulateInt4Generic.
//
//go:noescape
func accumulateInt4Dot(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *kernel.PanelLayout)

// weightsInt8Dot makes integers of weights times the scales of their values, and leaves these
// products in the place of the weights. visible may be nil. It works like integersOfProducts, but
// reports whether there was a row whose largest product is NaN, infinite or below 2⁻¹⁰⁰.
//
//go:noescape
func weightsInt8Dot(w *int16, f, s, scales *float32, visible *uint64, rows int) (rare bool)

func quantizeRowsStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int) {
	panic(noIntegers)
}

func quantizeGroupsStep(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int) {
	panic(noIntegers)
}

func copyRowsSIMD(dst, x *float32, rows, n, stride int) { panic(noIntegers) }

func magnitudesSIMD(dst, src *int8, n int) (start int32) { panic(noIntegers) }

func interleaveSIMD(dst, src *byte, cols, n int) { panic(noIntegers) }
