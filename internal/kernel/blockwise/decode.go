//go:build (amd64 || arm64) && !purego

package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Weights of blocks as float32, for products without Integers. Kernels of other packages do it, one
// after another in the L1 cache: blocks become signed bytes, these become float32, are multiplied
// by scales, and minima are subtracted.

// Decode is decodeBlocksGeneric. It uses up memory.
func Decode(isa tuning.ISA, t blocks.Type, dst []float32, packed []byte, n int, memory *Memory) {
	of := t.Traits()
	per := of.Inputs / blocks.Inputs
	operand.Writes(dst, n*blocks.Inputs*panel)
	operand.Reads(packed, n/per*of.Packed)
	if !hasDecoding(isa) {
		decodeBlocksGeneric(t, dst, packed, n)
		return
	}
	size := unpackedSize(t)
	bytes := memory.room(chunk * size)
	var x factors
	for i := range n {
		from := packed[i/per*of.Packed:][:of.Packed]
		if i%chunk == 0 {
			unpackSigned(isa, t, &bytes[0], &from[0], min(chunk, n-i)/per)
		}
		if i%per == 0 {
			x.setBlock(t, from)
		}
		to := dst[i*blocks.Inputs*panel:][:blocks.Inputs*panel]
		narrow.WidenIntegers(&to[0], &bytes[i%chunk*size], blocks.Inputs, 4*panel)
		if of.Codes == blocks.Indices {
			x.applyOdd(isa, to, bytes[i%chunk*size+unpackedBytes:])
			continue
		}
		x.apply(isa, t, to, from, i%per)
	}
}

// factors converts the integers of a panel to weights: its d and dmin, and their products with the
// current scales and minima, repeated for factorRows inputs, which kernels read as one row.
type factors struct {
	d      [2 * panel]float32
	scales [factorRows * panel]float32
	less   [factorRows * panel]float32
}

const factorRows = kernel.Block / panel

// setBlock begins with a packed block.
func (x *factors) setBlock(t blocks.Type, packed []byte) {
	format := kernel.F16
	if t.Traits().PowerOf2 {
		format = kernel.BF16
	}
	if n := t.Traits().Header() / 2; n > 0 {
		narrow.WidenHalves(format, &x.d[0], &packed[0], n)
	}
}

// apply converts the integers of 32 inputs, whose number in the packed block is block, to weights.
func (x *factors) apply(isa tuning.ISA, t blocks.Type, w []float32, packed []byte, block int) {
	of := t.Traits()
	at := packed[of.Header()+block*of.Part():][:of.Scales()]
	halves := [2][]float32{w[:len(w)/2], w[len(w)/2:]}
	switch of.Scaling {
	case blocks.One:
		copy(x.scales[:], x.d[:panel])
		x.multiply(isa, w)
	case blocks.Offset:
		copy(x.scales[:], x.d[:panel])
		x.multiply(isa, w)
		copy(x.less[:], x.d[panel:])
		x.add(isa, w)
	case blocks.Scaled:
		for c, e := range at {
			x.scales[c] = x.d[c] * float32(int8(e))
		}
		x.multiply(isa, w)
	case blocks.Minima:
		for c := range panel {
			x.scales[c] = x.d[c] * float32(at[c])
			x.less[c] = -x.d[panel+c] * float32(at[panel+c])
		}
		x.multiply(isa, w)
		x.add(isa, w)
	case blocks.Halves:
		for half, part := range halves {
			for c := range panel {
				x.scales[c] = x.d[c] * float32(int8(at[half*panel+c]))
			}
			x.multiply(isa, part)
		}
	case blocks.Pairs: // integers are multiplied by their scales
		for half, part := range halves {
			copy(x.scales[:], x.d[:panel])
			for c := range panel {
				x.less[c] = -x.d[panel+c] * float32(at[half*panel+c]>>4)
			}
			x.multiply(isa, part)
			x.add(isa, part)
		}
	case blocks.Floats:
		for half, part := range halves {
			for c := range panel {
				x.scales[c] = blocks.HalfOfFloat(at[half*panel+c])
			}
			x.multiply(isa, part)
		}
	}
}

// applyOdd is apply for types of indices: d and the scales of halves are with the unpacked bytes.
func (x *factors) applyOdd(isa tuning.ISA, w []float32, vectors []byte) {
	d := floatsAt(vectors)
	for half, part := range [2][]float32{w[:len(w)/2], w[len(w)/2:]} {
		for c, s := range floatsAt(vectors[(1+half)*4*panel:]) {
			x.scales[c] = d[c] * oddScale(isa, s)
		}
		x.multiply(isa, part)
	}
}

// floatsAt is a panel of numbers.
func floatsAt(x []byte) *[panel]float32 { return (*[panel]float32)(unsafe.Pointer(&x[0])) }

// add adds the term that is the same for all inputs.
func (x *factors) add(isa tuning.ISA, w []float32) {
	repeatFactors(&x.less)
	floats.AddBias(isa, w, x.less[:], len(w)/kernel.Block, 1, 0, kernel.Block, 1)
}

// multiply multiplies by the scales.
func (x *factors) multiply(isa tuning.ISA, w []float32) {
	repeatFactors(&x.scales)
	floats.ScaleColumns(isa, w, x.scales[:], len(w)/kernel.Block, kernel.Block, kernel.Block)
}

// repeatFactors repeats the first panel of factors.
func repeatFactors(x *[factorRows * panel]float32) {
	for r := panel; r < len(x); r *= 2 {
		copy(x[r:], x[:r])
	}
}
