package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

const panel = blocks.Outputs // of a packed block, as many as other panels have columns

var _ [panel]struct{} = [kernel.Panel]struct{}{}

// Row is 32 inputs of a row as integers, and their scale; a NaN scale makes the row's products NaN.
// The other fields are derived from the integers, for kernels that multiply by bytes with a number
// added. (The size of Row is no power of 2, so that rows do not compete for the same sets of a
// cache.)
type Row struct {
	integers [blocks.Inputs]int8
	scale    float32
	start    int32    // −128 times the sum
	halves   [2]int32 // −32 times the sum of each half
	sum      int32
	eighths  [2]int16 // −8 times the sum of each half
}

// rowSize is the bytes of a Row.
const rowSize = int(unsafe.Sizeof(Row{}))

// Quantize quantizes a row, 32 inputs at a time.
func Quantize(cpu *tuning.Row, dst []Row, x []float32) {
	const most = 64
	var scales [most]float32
	for len(x) > 0 {
		n := min(most, len(x)/blocks.Inputs)
		bytes := unsafe.Slice(&dst[0].integers[0], n*rowSize)
		integers.QuantizeRows(cpu.ISA, bytes, scales[:], nil, x, n, blocks.Inputs, rowSize,
			blocks.Inputs)
		sumRows(cpu, dst[:n], scales[:n])
		x, dst = x[n*blocks.Inputs:], dst[n:]
	}
}

// fewRows rows are the most that are multiplied by blocks as they lie in memory, fewTile of them in
// a call, by fewBlocks blocks of 32 inputs of a panel or of several: a call reads 136 KiB.
const (
	fewRows   = 12
	fewBlocks = 256
)

// Kernels multiply by unpacked blocks: bytes in groups of four inputs, followed by scales.

// unpackedBytes is the bytes of 32 inputs of 16 outputs, unpacked.
const unpackedBytes = blocks.Inputs * panel

// chunk blocks of a panel are unpacked at a time, and for more than Tile rows the blocks of several
// panels, which stay in the L1 cache, so that few rows are read once for all of them. Tiles of AMX
// read them from the L2 cache, and rows from L1.
const (
	chunk      = 16
	fewPanels  = 2
	manyPanels = 16
	Tile       = 12
)

// PanelsFor returns the most panels of a Multiply for some rows: one for few rows, so that one
// stream is read.
func PanelsFor(cpu *tuning.Row, t blocks.Type, rows int) int {
	switch {
	case rows <= Tile:
		return 1
	case tileRows(cpu, t, rows) > 0:
		return manyPanels
	}
	return fewPanels
}

// Memory is memory for unpacked blocks.
type Memory struct {
	bytes  []byte
	floats []float32 // of a panel, where pairs have no kernels
}

// room is n bytes of it.
func (m *Memory) room(n int) []byte {
	if len(m.bytes) < n {
		m.bytes = make([]byte, n)
	}
	return m.bytes
}

// panel is memory for weights of n times 32 inputs as float32.
func (m *Memory) panel(n int) []float32 {
	m.floats = kernel.Grow(m.floats, n*blocks.Inputs*panel)
	return m.floats
}
