//go:build !amd64 || purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
)

// transposeHalves is transposeFloats for elements of 16 bits.
func transposeHalves(dst, k []uint16, d, cols, n int) {
	transposes(dst, k, d, cols, n)
	transposeGeneric(dst, k, d, cols, n)
}

// transposeGroups is transposeFloats for integers in groups of four, see kernel_typed.go: groups of
// four channels of one key become groups of four keys of one channel. Values have width columns;
// those that are no channel become 0.
func transposeGroups(dst, k []byte, d, cols, width, n int) {
	panels, row := roundUp(n, panel)/panel, roundUp(d, 4)*panel
	operand.ReadsRows(k, panels, row, roundUp(cols, 4)*panel)
	operand.Writes(dst, panels*panel*width)
	for j := range panels {
		transposeGroupsGeneric(dst[j*panel*width:][:panel*width], k[j*row:], 0, cols, width)
	}
}

// softmaxScaled is softmax of one row that sees all keys of a block, whose scores are multiplied by
// the scales of their keys before, and whose weights by those of their values after.
func softmaxScaled(s, m, l, alpha, keys, values []float32, c float32) (masked bool) {
	scaleColumns(s, keys, 1, Block, Block)
	masked = softmax(s, m, l, alpha, nil, 1, c)
	scaleColumns(s, values, 1, Block, Block)
	return masked
}
