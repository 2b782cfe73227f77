//go:build (amd64 || arm64) && !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Weights of blocks as float32, for products without Integers. Kernels that others have do it, one
// after another in the L1 cache: blocks become bytes with sign, these float32, and then what they
// are multiplied by and what is taken off.

// decodeBlocks is decodeBlocksGeneric. It uses up memory.
func decodeBlocks(t BlockType, dst []float32, packed []byte, n int, memory *blockMemory) {
	of := t.traits()
	per := of.inputs / blockInputs
	operand.Writes(dst, n*blockInputs*panel)
	operand.Reads(packed, n/per*of.packed)
	if !decodingKernels() {
		decodeBlocksGeneric(t, dst, packed, n)
		return
	}
	bytes, size := memory[0][:], blockUnpacked+4*panel
	if per > 1 {
		size = unpackedMost
	}
	var x blockFactors
	for i := range n {
		from := packed[i/per*of.packed:][:of.packed]
		if i%blockChunk == 0 {
			unpackSigned(t, &bytes[0], &from[0], min(blockChunk, n-i)/per)
		}
		if i%per == 0 {
			x.begin(t, from)
		}
		to := dst[i*blockInputs*panel:][:blockInputs*panel]
		narrow.WidenIntegers(&to[0], &bytes[i%blockChunk*size], blockInputs, 4*panel)
		x.apply(t, to, from, i%per)
	}
}

// blockFactors is what makes weights of the integers of a panel: its d and dmin, and these times
// the scales and minima at hand, repeated for factorRows inputs, which kernels take as one row.
type blockFactors struct {
	d      [2 * panel]float32
	scales [factorRows * panel]float32
	less   [factorRows * panel]float32
}

const factorRows = Block / panel

// begin begins with a packed block.
func (x *blockFactors) begin(t BlockType, packed []byte) {
	switch t {
	case Q8_0, Q6_K:
		copy(x.d[:panel], unsafe.Slice((*float32)(unsafe.Pointer(&packed[0])), panel))
	case MXFP4:
		narrow.WidenHalves(kernel.BF16, &x.d[0], &packed[0], panel)
	case Q4_K, Q5_K:
		narrow.WidenHalves(kernel.F16, &x.d[0], &packed[0], 2*panel)
	default:
		narrow.WidenHalves(kernel.F16, &x.d[0], &packed[0], panel)
	}
}

// apply makes weights of the integers of blockInputs, which are a number of the packed block.
func (x *blockFactors) apply(t BlockType, w []float32, packed []byte, block int) {
	switch t {
	case Q4_K, Q5_K:
		at := packed[blockScales+2*panel*block:][:2*panel]
		for c := range panel {
			x.scales[c] = x.d[c] * float32(at[c])
			x.less[c] = -x.d[panel+c] * float32(at[panel+c])
		}
		x.multiply(w)
		repeatFactors(&x.less)
		floats.AddBias(tuned.ISA, w, x.less[:], blockInputs/factorRows, 1, 0, Block, 1)
	case Q6_K:
		at := packed[blockScales+2*panel*block:][:2*panel]
		for half := range 2 {
			for c := range panel {
				x.scales[c] = x.d[c] * float32(int8(at[half*panel+c]))
			}
			x.multiply(w[half*len(w)/2:][:len(w)/2])
		}
	default:
		copy(x.scales[:], x.d[:panel])
		x.multiply(w)
	}
}

// multiply multiplies by the scales.
func (x *blockFactors) multiply(w []float32) {
	repeatFactors(&x.scales)
	floats.ScaleColumns(tuned.ISA, w, x.scales[:], len(w)/Block, Block, Block)
}

// repeatFactors repeats the first panel of factors.
func repeatFactors(x *[factorRows * panel]float32) {
	for r := panel; r < len(x); r *= 2 {
		copy(x[r:], x[:r])
	}
}
