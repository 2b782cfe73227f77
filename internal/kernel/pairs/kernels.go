//go:build (amd64 || arm64) && !purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Accumulate adds to outputs the sums over pairs of rows of numbers in bfloat16 and panels of
// inputs, which are whole groups: the last one may have zeros. Outputs begin with +0 if
// b.Overwrite, and else are what Accumulate left. Columns are whole panels. There is no alpha.
// normal says that no number on the way is subnormal, see [Normal]; where it is not known, it may
// be false.
func Accumulate(cpu *tuning.Row, x *kernel.Sums, v []byte, b *kernel.PanelLayout, normal bool) {
	accumulate(cpu, kernel.Pairs, x, v, b, Flushes || normal)
}

// AccumulateLines is Accumulate of inputs that are not pairs but lines of F32 or BF16, b.Stride
// apart, and are rounded as they are read, for few rows. Groups are whole.
func AccumulateLines(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte,
	b *kernel.PanelLayout) {
	accumulate(cpu, t, x, v, b, Flushes)
}

func accumulate(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte, b *kernel.PanelLayout,
	normal bool) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	operand.ReadsRows(x.P, x.Rows, x.PStride, kernel.RoundUp(b.Keys, Group))
	kernel.ReadsTyped(t, v, b)
	if !normal || !cpu.ISA.SIMD() || t == kernel.Pairs && b.Stride != 2*kernel.Panel {
		accumulateGeneric(t, x, v, b)
		return
	}
	if most := callProducts(cpu.ISA); kernel.ProductsOf(x.Rows, b.Keys*b.Cols) > most {
		split(cpu, t, x, v, b, most)
		return
	}
	accumulateStep(cpu.ISA, t, x, &v[0], b)
}

// split goes through fewer columns at a time, and of these fewer rows.
func split(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte, b *kernel.PanelLayout,
	most int) {
	rows := x.Rows
	cols := kernel.ColumnsOf(most / kernel.ProductsOf(rows, b.Keys))
	step := max(1, min(rows, most/(b.Keys*min(cols, b.Cols))))
	part, some := *b, *x // in the loop they would escape to the heap
	for c := 0; c < b.Cols; c += cols {
		part.Cols = min(cols, b.Cols-c)
		for r := 0; r < rows; r += step {
			some = x.From(r, min(step, rows-r), c)
			accumulateStep(cpu.ISA, t, &some, &v[t.Bytes()*(c/kernel.Panel)*b.PanelStride], &part)
		}
	}
}

// putGroups rounds whole groups of numbers to bfloat16, and leaves groups of halves stride apart.
func putGroups(isa tuning.ISA, dst []uint16, x []float32, stride int) {
	operand.Reads(x, len(x))
	operand.WritesRows(dst, len(x)/Group, stride, Group)
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		putSome(isa, dst[from/Group*stride:], x[from:to], stride)
	}
}

// OfPanel makes a panel of pairs of a panel of float32, which has whole pairs of inputs. It rounds
// numbers to bfloat16 like inputs.
func OfPanel(isa tuning.ISA, dst []uint16, x []float32) {
	operand.Reads(x, len(dst))
	operand.Writes(dst, len(dst))
	for from := 0; from < len(dst); from += kernel.CallElements {
		to := min(from+kernel.CallElements, len(dst))
		ofPanel(isa, dst[from:to], x[from:to])
	}
}

// Round rounds numbers to bfloat16: those below 2⁻¹²⁶ become zeros.
func Round(isa tuning.ISA, dst, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		round(isa, dst[from:to], x[from:to])
	}
}
