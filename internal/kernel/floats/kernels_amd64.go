//go:build !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// inPlaceKeys is how many keys scoreRows takes together.
const inPlaceKeys = 8

// scoreMaximaSIMD multiplies queries, maximaRows at a time and of at least maximaDim dimensions, by
// packed keys, and prefetches what comes next. It works like scoreMaximaGeneric.
//
//go:noescape
func scoreMaximaSIMD(s, q, k, maxima *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// softmaxMaximaSIMD is one online-softmax step. It works like softmaxMaximaGeneric.
//
//go:noescape
func softmaxMaximaSIMD(s, m, l, alpha, maxima *float32, rows int, c float32) (masked bool)

// scoreAVX512 is scoreSIMD for AVX-512 and at least 2 rows.
//
//go:noescape
func scoreAVX512(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue)

// accumulateAVX512 is accumulateSIMD for AVX-512, at least 2 rows and whole panels: it
// leaves out the last 8 columns if their number is odd.
//
//go:noescape
func accumulateAVX512(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout)

// softmaxAVX512 is softmaxSIMD for AVX-512.
//
//go:noescape
func softmaxAVX512(s, m, l, alpha *float32, rows int, c float32) (masked bool)

// softmaxMaskedAVX512 is softmaxMaskedSIMD for AVX-512.
//
//go:noescape
func softmaxMaskedAVX512(s, m, l, alpha *float32, visible *uint64, rows int,
	c float32) (masked bool)

// normalizeSIMD divides rows by their sums. It works like normalizeGeneric.
//
//go:noescape
func normalizeSIMD(dst, o, l *float32, rows, n, dstStride, oStride int)

// normalizeAVX512 is normalizeSIMD with 16 lanes.
//
//go:noescape
func normalizeAVX512(dst, o, l *float32, rows, n, dstStride, oStride int)

// addBiasSIMD adds biases. It works like addBiasGeneric.
//
//go:noescape
func addBiasSIMD(s, bias *float32, rows, step, stride, n int, u float32)

// maskBiasSIMD finds keys that a bias masks. It works like maskBiasGeneric.
//
//go:noescape
func maskBiasSIMD(bias *float32, visible *uint64, rows, step, stride, lo,
	n int) (hides, adds bool)

// maskKeysSIMD packs booleans into bits. It works like maskKeysGeneric.
//
//go:noescape
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64)

// scoreStep is scorePrefetch of checked operands, in one call.
func scoreStep(s, q, k *float32, rows, d, panels int, next *kernel.PrefetchQueue) {
	if chooseKernels(rows, d, next != nil && next.Packed).lanes16 {
		scoreAVX512(s, q, k, rows, d, panels, next)
		return
	}
	scoreSIMD(s, q, k, rows, d, panels, next)
}

// softmaxStep is softmax of checked operands, in one call. A nil visible is for rows that see all.
func softmaxStep(s, m, l, alpha *float32, visible *uint64, rows int, c float32) (masked bool) {
	switch {
	case visible == nil && chooseKernels(rows, 0, false).softmax16:
		return softmaxAVX512(s, m, l, alpha, rows, c)
	case visible == nil:
		return softmaxSIMD(s, m, l, alpha, rows, c)
	case tuned.ISA.Lanes16():
		return softmaxMaskedAVX512(s, m, l, alpha, visible, rows, c)
	}
	return softmaxMaskedSIMD(s, m, l, alpha, visible, rows, c)
}

// accumulateStep is accumulate of checked operands, in one call.
func accumulateStep(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	switch lanes16 := b.Cols >= panel && chooseKernels(rows, 0, b.Packed).lanes16; {
	case lanes16 && b.Cols%panel == 0:
		accumulateAVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case lanes16:
		accumulatePanels(o, p, v, alpha, rows, oStride, pStride, b)
	default:
		accumulateSIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}

// normalizeStep is normalize of checked operands, in one call.
func normalizeStep(dst, o, l *float32, rows, n, dstStride, oStride int) {
	if tuned.ISA.Lanes16() {
		normalizeAVX512(dst, o, l, rows, n, dstStride, oStride)
		return
	}
	normalizeSIMD(dst, o, l, rows, n, dstStride, oStride)
}

// add takes rows of queries through score, softmax and accumulate. It reports whether some row has
// still seen nothing above −Inf.
func (t *fullTile) add(q, m, l, o *float32, rows int) (masked bool) {
	use := chooseKernels(rows, t.d, t.layout.Packed)
	switch {
	case use.lanes16 && t.layout.Cols >= panel:
		scoreAVX512(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxAVX512(t.s, m, l, t.alpha, rows, t.c)
		if t.layout.Cols%panel == 0 {
			accumulateAVX512(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
		} else {
			accumulatePanels(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
		}
		return masked
	case use.maxima:
		scoreMaximaSIMD(t.s, q, t.k, t.maxima, rows, t.d, Block/panel, t.queue)
		masked = softmaxMaximaSIMD(t.s, m, l, t.alpha, t.maxima, rows, t.c)
	case use.softmax16:
		scoreSIMD(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxAVX512(t.s, m, l, t.alpha, rows, t.c)
	default:
		scoreSIMD(t.s, q, t.k, rows, t.d, Block/panel, t.queue)
		masked = softmaxSIMD(t.s, m, l, t.alpha, rows, t.c)
	}
	accumulateSIMD(o, t.s, t.v, t.alpha, rows, t.oStride, Block, t.layout)
	return masked
}

// accumulatePanels is accumulate of at least one panel: whole panels with 16 lanes, and the last 8
// columns, if their number is odd, with 8.
func accumulatePanels(o, p, v, alpha *float32, rows, oStride, pStride int, b *kernel.PanelLayout) {
	accumulateAVX512(o, p, v, alpha, rows, oStride, pStride, b)
	whole := b.Cols / panel
	if whole*panel == b.Cols {
		return
	}
	rest := *b
	rest.Cols -= whole * panel
	accumulateSIMD(operand.At(o, whole*panel), p, operand.At(v, whole*b.PanelStride), alpha, rows,
		oStride, pStride, &rest)
}

// Keys to values.

// softmaxScaled is softmax of one row that sees all keys of a block, whose scores are multiplied by
// the scales of their keys before, and whose weights by those of their values after.
func softmaxScaled(s, m, l, alpha, keys, values []float32, c float32) (masked bool) {
	operand.Updates(s, Block)
	operand.Updates(m, 1)
	operand.Updates(l, 1)
	operand.Writes(alpha, 1)
	operand.Reads(keys, Block)
	operand.Reads(values, Block)
	if !tuned.ISA.SIMD() {
		scaleColumns(s, keys, 1, Block, Block)
		masked = softmax(s, m, l, alpha, nil, 1, c)
		scaleColumns(s, values, 1, Block, Block)
		return masked
	}
	return softmaxScaledSIMD(&s[0], &m[0], &l[0], &alpha[0], &keys[0], &values[0], c)
}

// transposeHalves is transposeFloats for elements of 16 bits.
func transposeHalves(dst, k []uint16, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	if !tuned.ISA.SIMD() {
		transposeGeneric(dst, k, d, cols, n)
		return
	}
	const step = kernel.CallCopies / Block / panel
	squares, whole := roundUp(n, panel)/panel, cols/panel
	for c := 0; c < whole; c = kernel.NextPiece(c, step, whole) {
		transposeHalvesSIMD(&dst[c*panel*Block], &k[c*panel*panel], d*panel, squares, min(step, whole-c))
	}
	if last := whole * panel; last < cols {
		transposeGeneric(dst[last*Block:], k[last*panel:], d, cols-last, n)
	}
}

// transposeGroups is transposeFloats for integers in groups of four, see kernel_typed.go: groups of
// four channels of one key become groups of four keys of one channel. Values have width columns;
// those that are no channel become 0.
func transposeGroups(dst, k []byte, d, cols, width, n int) {
	panels, row := roundUp(n, panel)/panel, roundUp(d, 4)*panel
	operand.ReadsRows(k, panels, row, roundUp(cols, 4)*panel)
	operand.Writes(dst, panels*panel*width)
	whole := 0
	if tuned.ISA.SIMD() {
		whole = cols / 4
	}
	const step = kernel.CallCopies / Block
	for j := range panels {
		from, to := k[j*row:], dst[j*panel*width:][:panel*width]
		for g := 0; g < whole; g = kernel.NextPiece(g, step, whole) {
			transposeGroupsSIMD(&to[g*16], &from[g*64], 4*width, min(step, whole-g))
		}
		transposeGroupsGeneric(to, from, 4*whole, cols, width)
	}
}

// transposeFloatsStep transposes whole panels of channels. It works like transposeGeneric, for so
// many squares of 16 keys, which are stride apart.
func transposeFloatsStep(dst, k *float32, stride, squares, panels int) {
	if tuned.ISA.Lanes16() {
		transposeFloatsAVX512(dst, k, stride, squares, panels)
		return
	}
	transposeFloatsSIMD(dst, k, stride, squares, panels)
}

// transposeFloatsAVX512 is transposeFloatsStep with registers of 16 keys.
//
//go:noescape
func transposeFloatsAVX512(dst, k *float32, stride, squares, panels int)

// transposeFloatsSIMD is transposeFloatsStep with registers of 8 channels.
//
//go:noescape
func transposeFloatsSIMD(dst, k *float32, stride, squares, panels int)

// transposeHalvesSIMD is transposeFloatsSIMD for elements of 16 bits.
//
//go:noescape
func transposeHalvesSIMD(dst, k *uint16, stride, squares, panels int)

// transposeGroupsSIMD transposes whole groups of channels of 16 keys. It works like
// transposeGroupsGeneric, with groups of keys stride apart.
//
//go:noescape
func transposeGroupsSIMD(dst, k *byte, stride, groups int)

// Over fewer bits.

// accumulateTypedStep is accumulateTyped of checked operands, in one call.
func accumulateTypedStep(t Format, o, p *float32, v *byte, alpha *float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	wide, _ := kernel.TypedKernel(&tuned, kernel.Format(t), rows)
	switch {
	case t == I4:
		accumulateI4AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == F16 && wide:
		accumulateF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case t == BF16 && wide:
		accumulateBF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == BF16:
		accumulateBF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case wide:
		accumulateI8AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	default:
		accumulateI8SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}

// accumulateF16AVX512 is accumulateF16SIMD with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateBF16AVX512 is accumulateBF16SIMD with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateBF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI8AVX512 is accumulateI8SIMD with 16 lanes.
//
//go:noescape
func accumulateI8AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI4AVX512 is accumulateI8AVX512 of codes, for up to codeRows rows.
//
//go:noescape
func accumulateI4AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// softmaxScaledSIMD is one online-softmax step of a row, whose scores and weights are multiplied by
// scales. It works like softmaxScaledGeneric.
//
//go:noescape
func softmaxScaledSIMD(s, m, l, alpha, keyScales, scales *float32, c float32) (masked bool)

// rotateStep transforms rows of blocks, at least 2 elements each, of which dst has those of x
// afterwards. Both may be the same. It works like rotateGeneric.
func rotateStep(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32) {
	if tuned.ISA.Lanes16() && block >= 16 {
		rotateRowsAVX512(dst, x, rows, n, dstStride, xStride, block, factor)
		return
	}
	rotateRowsSIMD(dst, x, rows, n, dstStride, xStride, block, factor)
}

// rotateRowsSIMD is rotateStep with 8 lanes.
//
//go:noescape
func rotateRowsSIMD(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32)

// rotateRowsAVX512 is rotateStep with 16 lanes, for blocks of at least 16 elements.
//
//go:noescape
func rotateRowsAVX512(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32)

// lookUpStep looks up codes of checked operands, in one call.
func lookUpStep(dst, src *byte, rows, vectors, row, step, upper, ahead int) {
	if tuned.ISA.Lanes16() {
		lookUpAVX512(dst, src, rows, vectors, row, step, upper, ahead)
		return
	}
	lookUpSIMD(dst, src, rows, vectors, row, step, upper, ahead)
}

// lookUpAVX512 is lookUpSIMD with vectors of 64 bytes.
//
//go:noescape
func lookUpAVX512(dst, src *byte, rows, vectors, row, step, upper, ahead int)

// scoreInt4Step is scoreInt4 of checked operands, in one call.
func scoreInt4Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	if q.bytes != nil {
		scoreInt4VNNIAVX512(s, &q.bytes[at], &q.starts[row], k, scales, rows, qStride, b)
		return
	}
	scoreInt4SIMD(s, &q.magnitudes[2*at], &q.starts[row], k, scales, rows, qStride, b)
}

// accumulateInt4Step is accumulateInt4 of checked operands, in one call.
func accumulateInt4Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	at := row * wStride
	if tuned.DotProduct && tuned.ISA.Lanes16() {
		accumulateInt4VNNIAVX512(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
		return
	}
	accumulateInt4SIMD(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
}

// scoreInt4SIMD makes scores of integers and codes. It works like scoreInt4Generic.
//
//go:noescape
func scoreInt4SIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt4VNNIAVX512 is scoreInt4SIMD of rows of bytes, for CPUs with AVX512_VNNI.
//
//go:noescape
func scoreInt4VNNIAVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// accumulateInt4SIMD adds weighted values to the output. It works like accumulateInt4Generic.
//
//go:noescape
func accumulateInt4SIMD(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *kernel.PanelLayout)

// accumulateInt4VNNIAVX512 is accumulateInt4SIMD with 16 lanes, for CPUs with AVX512_VNNI.
//
//go:noescape
func accumulateInt4VNNIAVX512(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout)

// In integers.

// int8Lanes16 reports whether kernels in integers have 16 lanes for a number of rows.
func int8Lanes16(rows int) bool { return tuned.ISA.Lanes16() && rows >= tuned.MinInt8Rows16 }

// scoreInt8Step is scoreInt8 of checked operands, in one call.
func scoreInt8Step(s *float32, q *integerRows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	switch {
	case q.bytes != nil:
		scoreInt8VNNIAVX512(s, &q.bytes[at], &q.starts[row], k, scales, rows, qStride, b)
	case int8Lanes16(rows):
		scoreInt8AVX512(s, &q.magnitudes[2*at], &q.starts[row], k, scales, rows, qStride, b)
	default:
		scoreInt8SIMD(s, &q.magnitudes[2*at], &q.starts[row], k, scales, rows, qStride, b)
	}
}

// groupsTogether: see integerRows.together.
const groupsTogether = true

// accumulateInt8Step is accumulateInt8 of checked operands, in one call.
func accumulateInt8Step(o *float32, w *integerRows, row int, v *byte, alpha, f *float32, rows,
	oStride, wStride, fStride int, b *kernel.PanelLayout) {
	at, start := row*wStride, row*fStride
	switch {
	case w.bytes != nil:
		multiplyInt8VNNIAVX512(o, &w.bytes[at], &w.starts[start], v, f, rows, oStride, wStride, fStride,
			b)
	case w.magnitudes != nil && int8Lanes16(rows):
		multiplyInt8AVX512(o, &w.magnitudes[2*at], &w.starts[start], v, f, rows, oStride, wStride,
			fStride, b)
	case w.magnitudes != nil:
		multiplyInt8SIMD(o, &w.magnitudes[2*at], &w.starts[start], v, f, rows, oStride, wStride,
			fStride, b)
	case tuned.DotProduct && int8Lanes16(rows):
		accumulateInt8VNNIAVX512(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
	case int8Lanes16(rows):
		accumulateInt8AVX512(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
	default:
		accumulateInt8SIMD(o, &w.words[at], v, alpha, f, rows, oStride, wStride, fStride, b)
	}
}

// scoreInt8SIMD makes scores of integers. It works like scoreInt8Generic.
//
//go:noescape
func scoreInt8SIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt8AVX512 is scoreInt8SIMD with 16 lanes.
//
//go:noescape
func scoreInt8AVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt8VNNIAVX512 is scoreInt8AVX512 of rows of bytes, for CPUs with AVX512_VNNI.
//
//go:noescape
func scoreInt8VNNIAVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// accumulateInt8SIMD adds weighted values to the output. It works like accumulateInt8Generic.
//
//go:noescape
func accumulateInt8SIMD(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *kernel.PanelLayout)

// accumulateInt8AVX512 is accumulateInt8SIMD with 16 lanes.
//
//go:noescape
func accumulateInt8AVX512(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride, wStride,
	fStride int, b *kernel.PanelLayout)

// accumulateInt8VNNIAVX512 is accumulateInt8AVX512 for CPUs with AVX512_VNNI.
//
//go:noescape
func accumulateInt8VNNIAVX512(o *float32, w *int16, v *byte, alpha, f *float32, rows, oStride,
	wStride, fStride int, b *kernel.PanelLayout)

// multiplyInt8SIMD is accumulateInt8SIMD of rows of magnitudes, group by group of inputs and
// without alpha. starts and f have the same stride.
//
//go:noescape
func multiplyInt8SIMD(o *float32, a *int8, starts *int32, v *byte, f *float32, rows, oStride,
	aStride, fStride int, b *kernel.PanelLayout)

// multiplyInt8AVX512 is multiplyInt8SIMD with 16 lanes.
//
//go:noescape
func multiplyInt8AVX512(o *float32, a *int8, starts *int32, v *byte, f *float32, rows, oStride,
	aStride, fStride int, b *kernel.PanelLayout)

// multiplyInt8VNNIAVX512 is multiplyInt8AVX512 of rows of bytes.
//
//go:noescape
func multiplyInt8VNNIAVX512(o *float32, a *int8, starts *int32, v *byte, f *float32, rows, oStride,
	aStride, fStride int, b *kernel.PanelLayout)

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

// quantizeRowsStep works like quantizeRows without kernels. It stops where a row is near whose
// largest magnitude is not between 2⁻¹⁰⁰ and 2⁸⁰. starts may be nil.
func quantizeRowsStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int) {
	if tuned.ISA.Lanes16() {
		return quantizeRowsAVX512(dst, scales, starts, x, rows, n, dstStride, xStride)
	}
	done = quantizeRowsSIMD(dst, scales, x, rows, n, dstStride, xStride)
	if starts != nil {
		for r := range done {
			*operand.At(starts, r) = startOf(unsafe.Slice(operand.At(dst, r*dstStride), n))
		}
	}
	return done
}

// quantizeRowsSIMD is quantizeRowsStep without starts.
//
//go:noescape
func quantizeRowsSIMD(dst *int8, scales, x *float32, rows, n, dstStride, xStride int) (done int)

// quantizeRowsAVX512 is quantizeRowsStep with 16 lanes.
//
//go:noescape
func quantizeRowsAVX512(dst *int8, scales *float32, starts *int32, x *float32, rows, n, dstStride,
	xStride int) (done int)

// quantizesRotated reports whether there is a kernel that rotates such rows and makes integers of
// them, quantizeRotatedStep.
func quantizesRotated(n, rotation int) bool {
	return (n == rotatedElements || n == 2*rotatedElements) && rotation == n &&
		tuned.ISA.Lanes16() && tuned.DotProduct
}

// rotatedElements, and twice as many, are the elements of rows of quantizeRotatedStep.
const rotatedElements = 64

// quantizeRotatedStep is rotateStep and then quantizeRowsStep of a multiple of panel rows, whose
// integers lie as keys do in panels if starts is nil.
func quantizeRotatedStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n,
	xStride int) (done int) {
	return quantizeRotatedVNNIAVX512(dst, scales, starts, x, rows, n, xStride)
}

// quantizeRotatedVNNIAVX512 is quantizeRotatedStep for CPUs with AVX512_VNNI.
//
//go:noescape
func quantizeRotatedVNNIAVX512(dst *int8, scales *float32, starts *int32, x *float32, rows, n,
	xStride int) (done int)

// quantizeGroupsStep works like quantizeFourRows for groups of four rows. It stops at a group with
// a row whose largest magnitude is not between 2⁻¹⁰⁰ and 2⁸⁰.
func quantizeGroupsStep(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int) {
	if tuned.ISA.Lanes16() {
		return quantizeGroupsAVX512(dst, scales, x, rows, n, cols, xStride)
	}
	return quantizeGroupsSIMD(dst, scales, x, rows, n, cols, xStride)
}

// quantizeGroupsSIMD is quantizeGroupsStep with 8 lanes.
//
//go:noescape
func quantizeGroupsSIMD(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int)

// quantizeGroupsAVX512 is quantizeGroupsStep with 16 lanes.
//
//go:noescape
func quantizeGroupsAVX512(dst *int8, scales, x *float32, rows, n, cols, xStride int) (done int)

// magnitudesSIMD works like magnitudesGeneric, for multiples of 32 elements.
//
//go:noescape
func magnitudesSIMD(dst, src *int8, n int) (start int32)

// interleaveSIMD works like interleaveGeneric, for multiples of 16 columns and 4 rows.
//
//go:noescape
func interleaveSIMD(dst, src *byte, cols, n int)

// copyRowsSIMD works like copyRowsGeneric.
//
//go:noescape
func copyRowsSIMD(dst, x *float32, rows, n, stride int)
