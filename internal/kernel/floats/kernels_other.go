//go:build !amd64 || purego

package floats

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// AddDistant is plain Go.
func AddDistant(_ tuning.ISA, x *Distant) {
	x.names()
	addDistantGeneric(x)
}

// TransposeHalves is TransposeFloats for elements of 16 bits.
func TransposeHalves(isa tuning.ISA, dst, k []uint16, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	transposeGeneric(dst, k, d, cols, n)
}

// TransposeGroups is TransposeFloats for integers in groups of four, see package narrow: groups of
// four channels of one key become groups of four keys of one channel. Values have width columns;
// columns after the last channel become 0.
func TransposeGroups(isa tuning.ISA, dst, k []byte, d, cols, width, n int) {
	panels, row := kernel.RoundUp(n, kernel.Panel)/kernel.Panel, kernel.RoundUp(d, 4)*kernel.Panel
	operand.ReadsRows(k, panels, row, kernel.RoundUp(cols, 4)*kernel.Panel)
	operand.Writes(dst, panels*kernel.Panel*width)
	for j := range panels {
		transposeGroupsGeneric(dst[j*kernel.Panel*width:][:kernel.Panel*width], k[j*row:], 0, cols, width)
	}
}

// SoftmaxScaled is softmax of one row that sees all keys of a block. Scores are first multiplied by
// the scales of their keys, and weights afterwards by the scales of their values.
func SoftmaxScaled(cpu *tuning.Row, s, m, l, alpha, keys, values []float32,
	c float32) (masked bool) {
	ScaleColumns(cpu.ISA, s, keys, 1, kernel.Block, kernel.Block)
	masked = Softmax(cpu, s, m, l, alpha, nil, 1, c)
	ScaleColumns(cpu.ISA, s, values, 1, kernel.Block, kernel.Block)
	return masked
}
