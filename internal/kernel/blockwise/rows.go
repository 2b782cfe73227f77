package attn

import "unsafe"

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
//	Q4_K           d and dmin as F16; for each 32 inputs 16 scales, 16 minima; words as in the file
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

// blockRow is blockInputs inputs of a row as integers, and their scale; one that is NaN makes the
// row's products NaN. What follows is of the integers and for kernels that multiply by bytes to
// which something was added, or whose signs were changed. (Its size is no power of 2, so that rows
// do not meet in the same sets of a cache.)
type blockRow struct {
	integers [blockInputs]int8
	scale    float32
	start    int32    // −128 times the sum
	halves   [2]int32 // −128 times the sum of each half
	sum      int32
	below    int32    // minus the sum of those below 0
	eighths  [2]int16 // −8 times the sum of each half
}

// blockRowSize is the bytes of a blockRow.
const blockRowSize = int(unsafe.Sizeof(blockRow{}))

// Kernels multiply by unpacked blocks: bytes in groups of four inputs, followed by scales.

// blockUnpacked is the bytes of blockInputs of 16 outputs, unpacked.
const blockUnpacked = blockInputs * panel

// unpackedMost is the size of the largest unpacked block, with four numbers for each output.
const unpackedMost = blockUnpacked + 4*4*panel

// blockChunk blocks of a panel are unpacked at a time, and of more than blockTile rows those of
// blockPanels panels, which stay in the L1 cache: so few rows are read once for all of them.
const (
	blockChunk  = 16
	blockPanels = 2
	blockTile   = 12
)

// blockMemory is memory for them.
type blockMemory [blockPanels][blockChunk * unpackedMost]byte
