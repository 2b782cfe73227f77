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

// multiplyTiles adds products of some first rows, of inputs from k on, and of all panels, of which
// the call has the unpacked blocks. It uses up memory.
func multiplyTiles(p *Product, x *blockCall, memory []byte, k, rows int) {
	// For a block, which has 8192 products, a tile takes up to 160 cycles at 1.5 GHz.
	const most = 4 * kernel.CallIntegers
	step := max(1, most/(rowsOfAMX*p.Panels*x.blocks*unpackedBytes)) * rowsOfAMX
	call := *x // (operands that go through a pointer would escape)
	call.sums = &memory[-uintptr(unsafe.Pointer(&memory[0]))%64]
	for r := 0; r < rows; r += step {
		call.o, call.a, call.rows = &p.O[r*p.OStride], &p.A[r*p.AStride+k], min(step, rows-r)
		multiplyAMX(p.Type.Traits().Scaling, &call)
	}
}
