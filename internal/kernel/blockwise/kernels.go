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

// Multiply is o_rc = Σ a·b of up to PanelsFor panels of outputs, and rows of n times 32 inputs,
// which are aStride apart. It uses up memory.
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
	unit := rowsOfTile(cpu, t) // what is left over is few rows
	if rest := rows % unit; rest > 0 {
		rows -= rest
		MultiplyFew(cpu, t, o[rows*oStride:], a[rows*aStride:], packed, nil, panels, rest, n, oStride,
			aStride)
	}
	step := kernel.CallIntegers / (chunk * unpackedBytes) / unit * unit
	if panels > 1 {
		tiles := max(1, (rows+Tile-1)/Tile)
		step = max(unit, (rows/unit+tiles-1)/tiles*unit)
	}
	tiled := tileRows(cpu, t, rows)
	stride := chunk * unpackedSize(t)
	unpacked := memory.room(panels*stride + tileMemory)
	for k := 0; k < n; k += chunk {
		count := min(chunk, n-k)
		for p := range panels {
			unpackBlocksStep(cpu, t, &unpacked[p*stride], &packed[p*size+k/per*of.Packed], count/per)
		}
		if tiled > 0 {
			multiplyTiles(t, o, a[k:], unpacked, unpacked[panels*stride:], panels, tiled, count, oStride,
				aStride, stride, k == 0)
		}
		for r := tiled; r < rows; r += step {
			for p := range panels {
				multiplyBlocksStep(cpu, t, &o[r*oStride+p*panel], &a[r*aStride+k], &unpacked[p*stride],
					min(step, rows-r), count, oStride, aStride, k == 0)
			}
		}
	}
}

// MultiplyFew is Multiply of few rows and any number of panels, without memory for unpacked blocks.
// Such calls wait for memory: it is read in one stream and requested ahead, towards the end that of
// next, which is read after this, or nil.
func MultiplyFew(cpu *tuning.Row, t blocks.Type, o []float32, a []Row, packed, next []byte, panels,
	rows, n, oStride, aStride int) {
	operand.WritesRows(o, rows, oStride, panels*panel)
	operand.ReadsRows(a, rows, aStride, n)
	of := t.Traits()
	per := of.Inputs / blocks.Inputs
	whole := n / per // packed blocks of a panel
	operand.Reads(packed, panels*whole*of.Packed)
	if len(next) == 0 {
		next = packed
	}
	ahead := cpu.PrefetchBlocks / of.Packed // whole blocks
	most, length := max(1, fewBlocks/n), min(whole, fewBlocks/per)
	for p := 0; p < panels; p += most {
		for k := 0; k < whole; k += length {
			at := p*whole + k
			before := panels*whole - at - ahead
			request := operand.Address(packed, at*of.Packed) + uintptr(cpu.PrefetchBlocks)
			if before <= 0 {
				request = operand.Address(next, 0) + uintptr(-before*of.Packed)
			}
			for r, count := 0, 0; r < rows; r += count {
				count = fewTile(cpu, t, rows-r)
				fewRowsStep(cpu, t, &o[r*oStride+p*panel], &a[r*aStride+k*per], &packed[at*of.Packed],
					request, operand.Address(next, 0), count, min(most, panels-p),
					min(length, whole-k), oStride, aStride, before, k == 0)
			}
		}
	}
}

// unpackedSize is the bytes of 32 inputs that are unpacked, and of vectors of their scales.
func unpackedSize(t blocks.Type) int {
	return unpackedBytes + scaleVectors(t.Traits().Scaling)*4*panel
}
