//go:build (amd64 || arm64) && !purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// sumRows gives rows their scales, and what follows from their integers.
func sumRows(cpu *tuning.Row, dst []Row, scales []float32) {
	operand.Updates(dst, len(dst))
	operand.Reads(scales, len(dst))
	if !hasProducts(cpu) {
		sumBlocksGeneric(dst, scales)
		return
	}
	sumBlocksStep(&dst[0], &scales[0], len(dst))
}

// Multiply is o_rc = Σ a·b of up to Panels panels of outputs, and rows of n times 32 inputs, which
// are aStride apart. It uses up memory.
func Multiply(cpu *tuning.Row, t blocks.Type, o []float32, a []Row, packed []byte, panels, rows, n,
	oStride, aStride int, memory *Memory) {
	operand.WritesRows(o, rows, oStride, panels*panel)
	operand.ReadsRows(a, rows, aStride, n)
	of := t.Traits()
	per := of.Inputs / blocks.Inputs
	size := n / per * of.Packed
	operand.Reads(packed, panels*size)
	if !hasProducts(cpu) {
		for p := range panels {
			multiplyBlocksGeneric(t, o[p*panel:], a, packed[p*size:], rows, n, oStride, aStride)
		}
		return
	}
	step := kernel.CallIntegers / (chunk * unpackedBytes)
	if panels > 1 {
		step = Tile
	}
	for k := 0; k < n; k += chunk {
		count := min(chunk, n-k)
		for p := range panels {
			unpackBlocksStep(cpu, t, &memory[p][0], &packed[p*size+k/per*of.Packed], count/per)
		}
		for r := 0; r < rows; r += step {
			for p := range panels {
				multiplyBlocksStep(cpu, t, &o[r*oStride+p*panel], &a[r*aStride+k], &memory[p][0],
					min(step, rows-r), count, oStride, aStride, k == 0)
			}
		}
	}
}
