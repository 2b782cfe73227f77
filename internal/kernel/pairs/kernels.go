//go:build (amd64 || arm64) && !purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Accumulate adds to outputs the sums over pairs of rows of numbers in bfloat16 and a panel's
// inputs, which are whole groups: the last one may have zeros. Outputs begin with +0 if b.Overwrite
// and are no other subnormal numbers; columns are whole panels. There is no alpha.
func Accumulate(cpu *tuning.Row, x *kernel.Sums, v []byte, b *kernel.PanelLayout) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	operand.ReadsRows(x.P, x.Rows, x.PStride, kernel.RoundUp(b.Keys, Group))
	kernel.ReadsTyped(kernel.Pairs, v, b)
	accumulateGeneric(x, v, b)
}

// Round rounds numbers to bfloat16: those below 2⁻¹²⁶ become zeros.
func Round(isa tuning.ISA, dst, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	roundGeneric(dst, x)
}
