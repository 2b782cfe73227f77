package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/operand"
)

// Kernels over weights in blocks, as GGUF files have them.
//
// Panels of 16 outputs follow each other, and in a panel its blocks in the order of their inputs:
// whoever multiplies reads one stream. A packed block is the blocks of 16 outputs, first their
// scales, then their bytes in words of four: word i of output c is at 4·(16·i + c), so four
// consecutive inputs lie together, as in groups of I8. All numbers are little-endian.
//
//	Q8_0           d as float32; words
//	Q4_0, IQ4_NL   d as F16; words, whose lower halves are inputs 0 to 15 and upper ones 16 to 31
//	MXFP4          d = 2^(e−128) as BF16; words likewise
//	Q4_K           d and dmin as F16; for each 32 inputs 16 scales and 16 minima; words as in the file
//	Q5_K           likewise, with the words of the fifth bits before the others
//	Q6_K           d as float32; for each 32 inputs 16 scales of the first half and of the second;
//	               words of the lower four bits, then those of the upper two
//
// A row of inputs is blockRows, one for each blockInputs.

const (
	blockInputs = 32         // inputs that have a scale
	blockScales = 4 * panel  // where the scales of blocks of 256 begin
	blockWords  = 20 * panel // and where their words do
)

// blockRow is blockInputs inputs of a row as integers, their scale, −128 times their sum, and that
// of each half. A scale that is NaN makes the row's products NaN.
type blockRow struct {
	integers [blockInputs]int8
	scale    float32
	start    int32
	halves   [2]int32
}

// blockRowSize is the bytes of a blockRow.
const blockRowSize = int(unsafe.Sizeof(blockRow{}))

// quantizeBlocks makes blockRows of a row.
func quantizeBlocks(dst []blockRow, x []float32) {
	const most = 64
	var scales [most]float32
	var starts [most]int32
	for len(x) > 0 {
		n := min(most, len(x)/blockInputs)
		bytes := unsafe.Slice(&dst[0].integers[0], n*blockRowSize)
		quantizeRows(bytes, scales[:], starts[:], x, n, blockInputs, blockRowSize, blockInputs)
		for i := range n {
			b := &dst[i]
			half := startOf(b.integers[:blockInputs/2])
			b.scale, b.start, b.halves = scales[i], starts[i], [2]int32{half, starts[i] - half}
		}
		x, dst = x[n*blockInputs:], dst[n:]
	}
}

// decodeBlocks is decodeBlocksGeneric.
func decodeBlocks(t BlockType, dst []float32, packed []byte, first, n int) {
	operand.Writes(dst, n*blockInputs*panel)
	decodeBlocksGeneric(t, dst, packed, first, n)
}

// multiplyBlocks is o_rc = Σ a·b of a panel of outputs and rows of n blockRows, which are aStride
// apart.
func multiplyBlocks(t BlockType, o []float32, a []blockRow, packed []byte, rows, n, oStride,
	aStride int) {
	operand.WritesRows(o, rows, oStride, panel)
	operand.ReadsRows(a, rows, aStride, n)
	operand.Reads(packed, n*blockInputs/t.traits().inputs*t.traits().packed)
	multiplyBlocksGeneric(t, o, a, packed, rows, n, oStride, aStride)
}
