//go:build !purego

package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products by tiles of AMX: one instruction multiplies 16 rows of 32 inputs by 16 outputs. Sums of
// integers are exact, so the bits equal the other kernels' bits. Each call of assembly configures
// the tiles and releases them.

// rowsOfAMX is the rows of a tile, sumBytes the bytes of its sums of the blocks of a chunk.
const (
	rowsOfAMX = 16
	sumBytes  = chunk * rowsOfAMX * panel * 4
)

// tileRows returns how many of the rows are multiplied by tiles: whole tiles, for types whose
// blocks have one sum. Other types are slower by tiles than with VNNI.
func tileRows(cpu *tuning.Row, t blocks.Type, rows int) int {
	s := t.Traits().Scaling
	if !cpu.AMX || rows < cpu.MinAMXBlockRows || s == blocks.Halves || s == blocks.Floats ||
		s == blocks.Odd || s == blocks.Single {
		return 0
	}
	return rows / rowsOfAMX * rowsOfAMX
}

// tileMemory is the bytes that multiplyTiles needs for sums, and before them for whole lines.
const tileMemory = sumBytes + 64

// multiplyTiles adds products of the first rows, of inputs from k on, by all panels, whose unpacked
// blocks are in the call. It overwrites memory.
func multiplyTiles(p *Product, x *blockCall, memory []byte, k, rows int) {
	// A tile needs up to 160 cycles at 1.5 GHz for a block, which has 8192 products.
	const most = 4 * kernel.CallIntegers
	step := max(1, most/(rowsOfAMX*p.Panels*x.blocks*unpackedBytes)) * rowsOfAMX
	call := *x // (operands that go through a pointer would escape)
	call.sums = &memory[-uintptr(unsafe.Pointer(&memory[0]))%64]
	for r := 0; r < rows; r += step {
		call.o, call.a, call.rows = &p.O[r*p.OStride], &p.A[r*p.AStride+k], min(step, rows-r)
		multiplyAMX(p.Type.Traits().Scaling, &call)
	}
}
