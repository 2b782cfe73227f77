//go:build (amd64 || arm64) && !purego

package narrow

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Kernels over keys and values of fewer bits. A key or value is widened in registers, which is
// exact, and enters the same chains of multiply-adds as a float32 would. For more rows than MaxRows
// a block is widened once, and the ordinary kernels read it.
//
// Panels of 16-bit elements have the layout of float32 panels. Elements of 8 bits are in groups of
// four that belong to one product: step k of column c is at c/panel·panelStride + k/4·stride +
// c%panel·4 + k%4, so that one instruction can add integer products of four.
//
// A score is the same chain with the dimension in the place of keys, see kernel.ScoreLayout.

// Accumulate is floats.Accumulate of values in a type of fewer bits: o_rc = o_rc·alpha_r, or 0 if
// b.Overwrite, or unchanged if alpha is nil; then o_rc = FMA(p_rj, v_jc, o_rc) for ascending j.
// Columns are whole panels.
func Accumulate(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte,
	b *kernel.PanelLayout) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	operand.ReadsRows(x.P, x.Rows, x.PStride, b.Keys)
	kernel.ReadsTyped(t, v, b)
	if x.Alpha != nil {
		operand.Reads(x.Alpha, x.Rows)
	}
	if !cpu.ISA.SIMD() {
		accumulateTypedGeneric(t, x, v, b)
		return
	}
	if kernel.ProductsOf(x.Rows, b.Keys*b.Cols) > kernel.CallProducts {
		splitTyped(cpu, t, x, v, b)
		return
	}
	accumulateTypedStep(cpu, t, x, &v[0], b)
}

// splitTyped computes fewer columns at a time, and fewer rows of them.
func splitTyped(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte,
	b *kernel.PanelLayout) {
	rows := x.Rows
	cols := kernel.ColumnsOf(kernel.CallProducts / kernel.ProductsOf(rows, b.Keys))
	step := max(1, min(rows, kernel.CallProducts/(b.Keys*min(cols, b.Cols))))
	part, some := *b, *x // in the loop they would escape to the heap
	for c := 0; c < b.Cols; c += cols {
		part.Cols = min(cols, b.Cols-c)
		for r := 0; r < rows; r += step {
			some = x.From(r, min(step, rows-r), c)
			Accumulate(cpu, t, &some, v[c/kernel.Panel*b.PanelStride*t.Bytes():], &part)
		}
	}
}

// Widen is dst = v in float32, for panels of a number of steps: step k of column c goes to
// c/panel·dstStride + k·panel + c%panel.
func Widen(isa tuning.ISA, t kernel.Format, dst []float32, v []byte, dstStride int,
	b *kernel.PanelLayout) {
	kernel.ReadsTyped(t, v, b)
	for c := 0; c < b.Cols; c = kernel.NextPiece(c, kernel.Panel, b.Cols) {
		to, from := dst[c/kernel.Panel*dstStride:][:b.Keys*kernel.Panel],
			v[c/kernel.Panel*b.PanelStride*t.Bytes():]
		operand.Writes(to, len(to))
		if !isa.SIMD() {
			widenGeneric(t, to, from, b.Keys, b.Stride)
			continue
		}
		switch t {
		case kernel.F16:
			widenF16SIMD(&to[0], &from[0], b.Keys*kernel.Panel)
		case kernel.BF16:
			widenBF16SIMD(&to[0], &from[0], b.Keys*kernel.Panel)
		case kernel.I8:
			widenI8SIMD(&to[0], &from[0], b.Keys, b.Stride)
		}
	}
}

// Narrow is dst = x in F16 or BF16.
func Narrow(isa tuning.ISA, t kernel.Format, dst []uint16, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !isa.SIMD() || len(x) == 0 {
		narrowGeneric(t, dst, x)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		if t == kernel.F16 {
			narrowF16SIMD(&dst[from], &x[from], to-from)
		} else {
			narrowBF16SIMD(&dst[from], &x[from], to-from)
		}
	}
}

// WidenSlice is dst = x in float32, x in F16 or BF16.
func WidenSlice(isa tuning.ISA, t kernel.Format, dst []float32, x []uint16) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	whole := 0
	if isa.SIMD() {
		whole = len(x) / kernel.Panel * kernel.Panel
	}
	for from := 0; from < whole; from = kernel.NextPiece(from, kernel.CallElements, whole) {
		n := min(kernel.CallElements, whole-from)
		WidenHalves(t, &dst[from], &kernel.RawBytes(x[from:])[0], n)
	}
	widenSliceGeneric(t, dst[whole:], x[whole:])
}

// WidenHalves widens n elements of F16 or BF16 of checked operands, whole panels of them.
func WidenHalves(t kernel.Format, dst *float32, v *byte, n int) {
	if t == kernel.F16 {
		widenF16SIMD(dst, v, n)
	} else {
		widenBF16SIMD(dst, v, n)
	}
}

// WidenIntegers widens the steps of a panel of I8 of checked operands.
func WidenIntegers(dst *float32, v *byte, steps, stride int) { widenI8SIMD(dst, v, steps, stride) }
