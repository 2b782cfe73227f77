//go:build (amd64 || arm64) && !purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// sumBlocks gives blockRows their scales, and what follows from their integers.
func sumBlocks(dst []blockRow, scales []float32) {
	operand.Updates(dst, len(dst))
	operand.Reads(scales, len(dst))
	if !blockKernels() {
		sumBlocksGeneric(dst, scales)
		return
	}
	sumBlocksStep(&dst[0], &scales[0], len(dst))
}

// multiplyBlocks is o_rc = Σ a·b of up to blockPanels panels of outputs, and rows of n blockRows,
// which are aStride apart. It uses up memory.
func multiplyBlocks(t BlockType, o []float32, a []blockRow, packed []byte, panels, rows, n, oStride,
	aStride int, memory *blockMemory) {
	operand.WritesRows(o, rows, oStride, panels*panel)
	operand.ReadsRows(a, rows, aStride, n)
	of := t.traits()
	per := of.inputs / blockInputs
	size := n / per * of.packed
	operand.Reads(packed, panels*size)
	if !blockKernels() {
		for p := range panels {
			multiplyBlocksGeneric(t, o[p*panel:], a, packed[p*size:], rows, n, oStride, aStride)
		}
		return
	}
	step := kernel.CallIntegers / (blockChunk * blockUnpacked)
	if panels > 1 {
		step = blockTile
	}
	for k := 0; k < n; k += blockChunk {
		blocks := min(blockChunk, n-k)
		for p := range panels {
			unpackBlocksStep(t, &memory[p][0], &packed[p*size+k/per*of.packed], blocks/per)
		}
		for r := 0; r < rows; r += step {
			for p := range panels {
				multiplyBlocksStep(t, &o[r*oStride+p*panel], &a[r*aStride+k], &memory[p][0],
					min(step, rows-r), blocks, oStride, aStride, k == 0)
			}
		}
	}
}
