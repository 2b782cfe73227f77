//go:build !purego

package integers

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// int8Lanes16 reports whether kernels of products in integers, and of their weights, have 16 lanes
// for a number of rows. Without VNNI none have: kernels with 8 lanes are as fast.
func int8Lanes16(cpu *tuning.Row, rows int) bool {
	return cpu.ISA.Lanes16() && cpu.DotProduct && rows >= cpu.MinInt8Rows16
}

// scoreInt8Step is Score of checked operands, in one call.
func scoreInt8Step(cpu *tuning.Row, s *float32, q *Rows, row int, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout) {
	if least := leastTileRows(cpu, q, false); q.Bytes != nil && rows >= least {
		n := tileRows(rows, least)
		scoreTiles(s, q, row, k, scales, n, qStride, b)
		if rows -= n; rows == 0 {
			return
		}
		s, row = operand.At(s, n*kernel.Block), row+n
	}
	at := row * qStride
	switch {
	case q.Bytes == nil:
		scoreInt8SIMD(s, &q.Magnitudes[2*at], &q.Starts[row], k, scales, rows, qStride, b)
	case cpu.ISA.Lanes16():
		scoreInt8VNNIAVX512(s, &q.Bytes[at], &q.Starts[row], k, scales, rows, qStride, b)
	default:
		scoreInt8VNNISIMD(s, &q.Bytes[at], &q.Starts[row], k, scales, rows, qStride, b)
	}
}

// groupsTogether: see integerRows.together.
const groupsTogether = true

// accumulateInt8Step is Accumulate of checked operands, in one call.
func accumulateInt8Step(cpu *tuning.Row, w *Rows, x *SumsCall) {
	least := leastTileRows(cpu, w, false)
	if x.Rows >= least && (x.Alpha != nil || x.B.Overwrite) {
		n := tileRows(x.Rows, least)
		accumulateTiles(x, n)
		if n == x.Rows {
			return
		}
		rest := x.from(n, bytesOfWord)
		x = &rest
	}
	switch {
	case int8Lanes16(cpu, x.Rows):
		accumulateInt8VNNIAVX512(x)
	case cpu.DotProduct && !cpu.ISA.Lanes16():
		accumulateInt8VNNISIMD(x)
	default:
		accumulateInt8SIMD(x)
	}
}

// bytesOfWord is the bytes of one of Rows.Words.
const bytesOfWord = 2

// multiplyInt8Step is Multiply of checked operands, in one call. Tiles compute a part of a matrix.
func multiplyInt8Step(cpu *tuning.Row, w *Rows, x *SumsCall) {
	least := leastTileRows(cpu, w, true)
	if x.Rows >= least && x.B.Keys <= 2*Group && x.B.Stride == 4*kernel.Panel {
		n := tileRows(x.Rows, least)
		multiplyTiles(x, n)
		if n == x.Rows {
			return
		}
		rest := x.from(n, 1)
		x = &rest
	}
	switch {
	case w.Bytes == nil:
		multiplyInt8SIMD(x)
	case cpu.ISA.Lanes16():
		multiplyInt8VNNIAVX512(x)
	default:
		multiplyInt8VNNISIMD(x)
	}
}

// scoreInt8SIMD computes scores of integers. It works like scoreInt8Generic.
//
//go:noescape
func scoreInt8SIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt8VNNIAVX512 is scoreInt8SIMD of rows of bytes, with 16 lanes, for CPUs with AVX512_VNNI.
//
//go:noescape
func scoreInt8VNNIAVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt8VNNISIMD is scoreInt8SIMD of rows of bytes, for CPUs with AVX-VNNI.
//
//go:noescape
func scoreInt8VNNISIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// accumulateInt8SIMD adds weighted values to the output. It works like accumulateInt8Generic.
//
//go:noescape
func accumulateInt8SIMD(x *SumsCall)

// accumulateInt8VNNISIMD is accumulateInt8SIMD for CPUs with AVX-VNNI.
//
//go:noescape
func accumulateInt8VNNISIMD(x *SumsCall)

// accumulateInt8VNNIAVX512 is accumulateInt8SIMD with 16 lanes, for CPUs with AVX512_VNNI.
//
//go:noescape
func accumulateInt8VNNIAVX512(x *SumsCall)

// multiplyInt8SIMD is accumulateInt8SIMD for rows of magnitudes, group by group of inputs and
// without alpha. Starts and f have the same stride.
//
//go:noescape
func multiplyInt8SIMD(x *SumsCall)

// multiplyInt8VNNISIMD is multiplyInt8SIMD of rows of bytes, for CPUs with AVX-VNNI.
//
//go:noescape
func multiplyInt8VNNISIMD(x *SumsCall)

// multiplyInt8VNNIAVX512 is multiplyInt8SIMD of rows of bytes, with 16 lanes, for CPUs with
// AVX512_VNNI.
//
//go:noescape
func multiplyInt8VNNIAVX512(x *SumsCall)

// softmaxInt8Step is one online-softmax step in integers. It works like softmaxInt8Generic, but for
// rows whose largest product is NaN, infinite or below 2⁻¹⁰⁰: it reports whether there was such a
// row, whose integers and scale are wrong.
func softmaxInt8Step(cpu *tuning.Row, w *int16, f, s, m, l, alpha, c, scales *float32,
	visible *uint64, rows int) (
	masked, rare bool) {
	if int8Lanes16(cpu, rows) {
		return softmaxInt8AVX512(w, f, s, m, l, alpha, c, scales, visible, rows)
	}
	return softmaxInt8SIMD(w, f, s, m, l, alpha, c, scales, visible, rows)
}

// softmaxInt8SIMD is softmaxInt8Step.
//
//go:noescape
func softmaxInt8SIMD(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64,
	rows int) (masked, rare bool)

// softmaxInt8AVX512 is softmaxInt8SIMD with 16 lanes.
//
//go:noescape
func softmaxInt8AVX512(w *int16, f, s, m, l, alpha, c, scales *float32, visible *uint64,
	rows int) (masked, rare bool)

// quantizeRowsStep works like QuantizeRows without kernels. It stops at, or up to three rows
// before, a row whose largest magnitude is not between 2⁻¹⁰⁰ and 2⁸⁰. starts may be nil.
func quantizeRowsStep(isa tuning.ISA, dst *int8, scales *float32, starts *int32, x *float32, rows,
	n, dstStride,
	xStride int) (done int) {
	if isa.Lanes16() {
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

// quantizesRotated reports whether quantizeRotatedStep has a kernel that rotates and quantizes such
// rows.
func quantizesRotated(cpu *tuning.Row, n, rotation int) bool {
	return n >= leastRotated && n <= mostRotated && rotation == n && n&(n-1) == 0 &&
		cpu.ISA.Lanes16() && cpu.DotProduct
}

// leastRotated to mostRotated, powers of two, are the elements of rows of quantizeRotatedStep.
const leastRotated, mostRotated = 32, 128

// quantizeRotatedStep is rotateStep and then quantizeRowsStep for a multiple of panel rows. If
// starts is nil, integers have the layout of keys in panels.
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
func quantizeGroupsStep(isa tuning.ISA, dst *int8, scales, x *float32, rows, n, cols,
	xStride int) (done int) {
	if isa.Lanes16() {
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

// magnitudes splits a row into groups of four magnitudes and signs, see Rows, and returns the start
// of its sums. The padding of the last four elements is 0.
func magnitudes(isa tuning.ISA, dst, row []int8) (start int32) {
	operand.Writes(dst, 2*kernel.RoundUp(len(row), 4))
	operand.Reads(row, len(row))
	const vector = 32
	if whole := len(row) / vector * vector; whole > 0 && isa.Integers() {
		start = magnitudesSIMD(&dst[0], &row[0], whole)
		dst, row = dst[2*whole:], row[whole:]
	}
	return start + magnitudesGeneric(dst, row)
}

// CopyRows brings rows of n elements together.
func CopyRows(isa tuning.ISA, dst, x []float32, rows, n, stride int) {
	operand.Writes(dst, rows*n)
	operand.ReadsRows(x, rows, stride, n)
	step := max(1, kernel.CallCopies/n)
	for r := 0; r < rows; r = kernel.NextPiece(r, step, rows) {
		if m := min(step, rows-r); isa.Integers() && n <= kernel.CallCopies {
			copyRowsSIMD(&dst[r*n], &x[r*stride], m, n, stride)
		} else {
			copyRowsGeneric(dst[r*n:], x[r*stride:], m, n, stride)
		}
	}
}

// Interleave brings n rows of some columns, whole panels, to the order of a block's values: of
// four rows the elements of a column follow each other.
func Interleave(isa tuning.ISA, dst, src []byte, cols, n int) {
	operand.Writes(dst, n*cols)
	operand.Reads(src, n*cols)
	step := 4 * kernel.CallCopies / cols / 4 * 4 // whole fours of rows
	if !isa.Integers() || step == 0 {
		interleaveGeneric(dst, src, cols, n)
		return
	}
	for j := 0; j < n; j = kernel.NextPiece(j, step, n) {
		interleaveSIMD(&dst[j*cols], &src[j*cols], cols, min(step, n-j))
	}
}

// QuantizeRotated rotates rows by blocks and quantizes them like QuantizeRows. It does so for the
// first rows only and returns their number, which may be 0. Rows of integers are contiguous if
// starts is not nil; else they are groups of four in panels of rows, like packed keys.
func QuantizeRotated(cpu *tuning.Row, dst []int8, scales []float32, starts []int32, x []float32,
	rows, n, xStride,
	block int) (done int) {
	if rows = rows / kernel.Panel * kernel.Panel; rows == 0 || !quantizesRotated(cpu, n, block) {
		return 0
	}
	operand.Writes(dst, rows*n)
	operand.Writes(scales, rows)
	operand.ReadsRows(x, rows, xStride, n)
	if starts != nil {
		operand.Writes(starts, rows)
	}
	for step := kernel.CallElements / n; done < rows; {
		var start *int32
		if starts != nil {
			start = &starts[done]
		}
		want := min(step, rows-done)
		made := quantizeRotatedStep(&dst[done*n], &scales[done], start, &x[done*xStride], want, n,
			xStride)
		if done += made; made < want {
			break
		}
	}
	return done
}

// rotateStep transforms rows of blocks of at least 2 elements from x to dst, which may be the same.
// It works like rotateGeneric.
func rotateStep(isa tuning.ISA, dst, x *float32, rows, n, dstStride, xStride, block int,
	factor float32) {
	if isa.Lanes16() && block >= 16 {
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
