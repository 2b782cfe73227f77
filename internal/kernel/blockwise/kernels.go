//go:build (amd64 || arm64) && !purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// sumRows sets the scales of rows, and the sums of their integers.
func sumRows(cpu *tuning.Row, dst []Row, scales []float32) {
	operand.Updates(dst, len(dst))
	operand.Reads(scales, len(dst))
	if !hasProducts(cpu) {
		sumBlocksGeneric(dst, scales)
		return
	}
	sumBlocksStep(&dst[0], &scales[0], len(dst))
}

// Multiply computes a product of up to PanelsFor panels. It uses up memory.
func Multiply(cpu *tuning.Row, x *Product, memory *Memory) {
	x.operands()
	if !hasProducts(cpu) {
		multiplyBlocksGeneric(x)
		return
	}
	unit := rowsOfTile(cpu, x.Type)
	rows := x.Rows / unit * unit
	if rows < x.Rows { // the remaining rows are few
		few := x.from(rows)
		MultiplyFew(cpu, &few, nil)
	}
	if rows == 0 { // nothing to unpack for
		return
	}
	step := kernel.CallIntegers / (chunk * unpackedBytes) / unit * unit
	if x.Panels > 1 {
		tiles := max(1, (rows+Tile-1)/Tile)
		step = max(unit, (rows/unit+tiles-1)/tiles*unit)
	}
	tiled := tileRows(cpu, x.Type, rows)
	per, size, bytes := x.perBlock(), x.Type.Traits().Packed, x.PanelBytes()
	var call blockCall
	call.panels, call.oStride, call.aStride = x.Panels, x.OStride, x.AStride
	call.wStride = chunk * unpackedSize(x.Type)
	unpacked := memory.room(x.Panels*call.wStride + tileMemory)
	for k := 0; k < x.N; k += chunk {
		call.blocks, call.overwrite = min(chunk, x.N-k), k == 0
		for p := range x.Panels {
			unpackBlocksStep(cpu, x.Type, &unpacked[p*call.wStride], &x.Packed[p*bytes+k/per*size],
				call.blocks/per)
		}
		if tiled > 0 {
			call.w = &unpacked[0]
			multiplyTiles(x, &call, unpacked[x.Panels*call.wStride:], k, tiled)
		}
		for r := tiled; r < rows; r += step {
			call.a, call.rows = &x.A[r*x.AStride+k], min(step, rows-r)
			for p := range x.Panels {
				call.o, call.w = &x.O[r*x.OStride+p*panel], &unpacked[p*call.wStride]
				multiplyBlocksStep(cpu, x.Type, &call)
			}
		}
	}
}

// MultiplyFew is Multiply of few rows and any number of panels, without memory for unpacked blocks.
// Such calls wait for memory: it is read in one stream and prefetched, towards the end from next,
// which is read after this, or nil.
func MultiplyFew(cpu *tuning.Row, x *Product, next []byte) {
	x.operands()
	size, per := x.Type.Traits().Packed, x.perBlock()
	whole := x.N / per // packed blocks of a panel
	if len(next) == 0 {
		next = x.Packed
	}
	ahead := cpu.PrefetchBlocks / size // whole blocks
	most, length := max(1, fewBlocks/x.N), min(whole, fewBlocks/per)
	var call blockCall
	call.oStride, call.aStride, call.next = x.OStride, x.AStride, operand.Address(next, 0)
	for p := 0; p < x.Panels; p += most {
		call.panels = min(most, x.Panels-p)
		for k := 0; k < whole; k += length {
			at := p*whole + k
			call.w, call.blocks, call.overwrite = &x.Packed[at*size], min(length, whole-k), k == 0
			call.before = x.Panels*whole - at - ahead
			call.request = operand.Address(x.Packed, at*size) + uintptr(cpu.PrefetchBlocks)
			if call.before <= 0 {
				call.request = call.next + uintptr(-call.before*size)
			}
			for r := 0; r < x.Rows; r += call.rows {
				call.rows = fewTile(cpu, x.Type, x.Rows-r)
				call.o, call.a = &x.O[r*x.OStride+p*panel], &x.A[r*x.AStride+k*per]
				fewRowsStep(cpu, x.Type, &call)
			}
		}
	}
}

// unpackedSize is the bytes of 32 inputs that are unpacked, and of vectors of their scales.
func unpackedSize(t blocks.Type) int {
	return unpackedBytes + scaleVectors(t.Traits().Scaling)*4*panel
}
