//go:build (amd64 || arm64) && !purego

package int4

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// I4: an element is a code of four bits for one of 16 levels, which are integers of I8. Kernels of
// integers and of I8 read levels, so codes are looked up while they are loaded.
//
// Codes lie so that a look-up of 64 bytes gives two vectors of I8: the lower halves of bytes are
// the codes of a group of four steps of 16 columns (see package narrow), the upper halves the codes
// of the next group. Step k of column c is in byte c/panel·panelStride + k/8·stride + c%panel·4 +
// k%4.

// Encode is dst = the codes of x/scale, rounded once; all codes are 0 if the scale is.
func Encode(isa tuning.ISA, dst []byte, x []float32, scale float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !isa.SIMD() || len(x) == 0 || scale == 0 {
		encodeGeneric(dst, x, scale)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		encodeSIMD(&dst[from], &x[from], to-from, scale)
	}
}

// Score is integers.Score of few rows by keys that are codes.
func Score(cpu *tuning.Row, s []float32, q *integers.Rows, row int, k []byte, scales []float32,
	rows, d, n,
	ahead int, inOrder bool) {
	var b kernel.PanelLayout
	b.OfKeys(kernel.I4, d, kernel.RoundUp(n, kernel.Panel))
	b.Set(cpu, ahead, ahead, inOrder)
	stride := kernel.RoundUp(d, 4)
	q.Reads(row, rows, stride, 1, stride, 1)
	operand.Reads(scales, b.Cols)
	operand.Writes(s, (rows-1)*kernel.Block+b.Cols)
	operand.Reads(k, b.Cols/kernel.Panel*b.PanelStride)
	if !(cpu.ISA.Integers() || q.Bytes != nil) {
		scoreInt4Generic(s, q.Words[row*stride:], k, scales, rows, &b)
		return
	}
	all, cols := b.Cols, b.Cols
	if d*cols > kernel.CallIntegers {
		cols = kernel.Panel
	}
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c)
		scoreInt4Step(cpu, &s[c], q, row, &k[c/kernel.Panel*b.PanelStride], &scales[c], rows, stride, &b)
	}
}

// Accumulate is integers.Accumulate of few rows of words that weigh values that are codes, with an
// alpha.
func Accumulate(cpu *tuning.Row, x *integers.Sums, v []byte, b *kernel.PanelLayout) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	x.W.Reads(0, x.Rows, x.WStride, x.FStride, kernel.RoundUp(b.Keys, 4), 1)
	operand.ReadsRows(x.F, x.Rows, x.FStride, 1)
	operand.Reads(x.Alpha, x.Rows)
	operand.Reads(v, (b.Keys-1)/8*b.Stride+b.Cols*4)
	if !integers.Products(cpu) {
		accumulateInt4Generic(x, v, b)
		return
	}
	var call integers.SumsCall
	call.Begin(x)
	call.B = b
	call.Alpha, call.F = &x.Alpha[0], &x.F[0]
	call.W, _ = x.W.At(0, 0)
	all := b.Cols
	cols := max(8*kernel.Panel, kernel.ColumnsOf(kernel.CallIntegers/(x.Rows*b.Keys)))
	for c := 0; c < all; c += cols {
		b.Cols = min(cols, all-c) // and no copy of b, see prefetchHint.set
		call.O, call.V = &x.O[c], &v[c/kernel.Panel*b.PanelStride]
		accumulateInt4Step(cpu, &call)
	}
	b.Cols = all
}

// LookUp sets dst to the levels of src, row by row. Levels of upper halves after the end of a row
// may be written before the next row is. src is prefetched some bytes ahead.
func LookUp(isa tuning.ISA, dst, src []byte, l *LevelLayout, ahead int) {
	n := l.Rows * l.Vectors * 64
	operand.Reads(src, n)
	last := (l.Rows-1)*l.Row + (l.Vectors-1)*l.Step + l.Upper + 64
	operand.Writes(dst, last)
	if !isa.SIMD() {
		lookUpGeneric(dst, src, l)
		return
	}
	rows, vectors := l.Rows, l.Vectors // of a call
	if rows*vectors > kernel.CallElements {
		rows, vectors = 1, min(vectors, kernel.CallElements)
	}
	for r := 0; r < l.Rows; r += rows {
		for i := 0; i < l.Vectors; i += vectors {
			lookUpStep(isa, &dst[r*l.Row+i*l.Step], &src[(r*l.Vectors+i)*64], rows, min(vectors,
				l.Vectors-i),
				l.Row, l.Step, l.Upper, ahead)
		}
	}
}
