//go:build !purego

package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products by tiles of AMX: 16 rows of 32 inputs times those of 16 outputs are one instruction.
// Sums of integers are exact, so the bits are those of the other kernels. Each call of assembly
// configures the tiles and releases them.

// rowsOfAMX is the rows of a tile, sumBytes the bytes of its sums of the blocks of a chunk.
const (
	rowsOfAMX = 16
	sumBytes  = chunk * rowsOfAMX * panel * 4
)

// tileRows is how many of some rows go through tiles: whole tiles, of types whose blocks have one
// sum. The others' take longer than with VNNI.
func tileRows(cpu *tuning.Row, t blocks.Type, rows int) int {
	s := t.Traits().Scaling
	if !cpu.AMX || rows < cpu.MinAMXBlockRows || s == blocks.Halves || s == blocks.Floats {
		return 0
	}
	return rows / rowsOfAMX * rowsOfAMX
}

// tileMemory is the bytes that multiplyTiles needs for sums, and before them for whole lines.
const tileMemory = sumBytes + 64

// multiplyTiles adds products of rows and n unpacked blocks of each panel, which are wStride bytes
// apart, to o. It uses up memory.
func multiplyTiles(t blocks.Type, o []float32, a []Row, w, memory []byte, panels, rows, n, oStride,
	aStride, wStride int, overwrite bool) {
	// For a block, which has 8192 products, a tile takes up to 160 cycles at 1.5 GHz.
	const most = 4 * kernel.CallIntegers
	step := max(1, most/(rowsOfAMX*panels*n*unpackedBytes)) * rowsOfAMX
	sums := &memory[-uintptr(unsafe.Pointer(&memory[0]))%64]
	for r := 0; r < rows; r += step {
		o, a, w, rows := &o[r*oStride], &a[r*aStride], &w[0], min(step, rows-r)
		switch t.Traits().Scaling {
		case blocks.Minima:
			multiplyMinimaAMX(o, a, w, sums, rows, panels, n, oStride, aStride, wStride, overwrite)
		case blocks.Offset:
			multiplyOffsetAMX(o, a, w, sums, rows, panels, n, oStride, aStride, wStride, overwrite)
		case blocks.Scaled:
			multiplyScaledAMX(o, a, w, sums, rows, panels, n, oStride, aStride, wStride, overwrite)
		case blocks.Pairs:
			multiplyPairsAMX(o, a, w, sums, rows, panels, n, oStride, aStride, wStride, overwrite)
		default:
			multiplyPlainAMX(o, a, w, sums, rows, panels, n, oStride, aStride, wStride, overwrite)
		}
	}
}

// multiplyPlainAMX multiplies whole tiles of rows by unpacked blocks of some panels, which have one
// scale. It works like multiplyBlocksGeneric, as those below do for other types.
//
//go:noescape
func multiplyPlainAMX(o *float32, a *Row, w, sums *byte, rows, panels, blocks, oStride, aStride,
	wStride int, overwrite bool)

// multiplyMinimaAMX is for Q4_K and Q5_K.
//
//go:noescape
func multiplyMinimaAMX(o *float32, a *Row, w, sums *byte, rows, panels, blocks, oStride, aStride,
	wStride int, overwrite bool)

// multiplyOffsetAMX is for Q4_1 and Q5_1.
//
//go:noescape
func multiplyOffsetAMX(o *float32, a *Row, w, sums *byte, rows, panels, blocks, oStride, aStride,
	wStride int, overwrite bool)

// multiplyScaledAMX is for IQ4_XS.
//
//go:noescape
func multiplyScaledAMX(o *float32, a *Row, w, sums *byte, rows, panels, blocks, oStride, aStride,
	wStride int, overwrite bool)

// multiplyPairsAMX is for Q2_K.
//
//go:noescape
func multiplyPairsAMX(o *float32, a *Row, w, sums *byte, rows, panels, blocks, oStride, aStride,
	wStride int, overwrite bool)
