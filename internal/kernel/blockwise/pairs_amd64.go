//go:build !purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// DecodePairs is decodePairsGeneric of blocks whose scales are finite. Zeros may have another sign,
// which no sum shows. It uses up memory.
func DecodePairs(isa tuning.ISA, t blocks.Type, dst []uint16, packed []byte, n int,
	memory *Memory) {
	of := t.Traits()
	per, size := of.Inputs/blocks.Inputs, unpackedSize(t)
	operand.Writes(dst, n*blocks.Inputs*panel)
	operand.Reads(packed, n/per*of.Packed)
	if !hasDecoding(isa) {
		decodePairsGeneric(t, dst, packed, n, memory.panel(n))
		return
	}
	if of.Codes == blocks.Indices {
		decoded := memory.panel(n)
		Decode(isa, t, decoded, packed, n, memory)
		pairs.OfPanel(isa, dst[:n*blocks.Inputs*panel], decoded)
		return
	}
	bytes := memory.room(chunk * size)
	together, headerStep, partStep := per, 0, of.Part()
	if per == 1 { // all blocks that are unpacked at a time
		together, headerStep, partStep = chunk, of.Packed, of.Packed
	}
	for i := 0; i < n; i += chunk {
		some := min(chunk, n-i)
		unpackLevels(t, &bytes[0], &packed[i/per*of.Packed], some/per)
		for k := 0; k < some; k += together {
			block := packed[(i+k)/per*of.Packed:]
			decodePairsStep(isa, t, &dst[(i+k)*blocks.Inputs*panel], &bytes[k*size], &block[0],
				&block[of.Header()], min(together, some-k), headerStep, partStep,
				int(kernelsOf[t].addedAVX2)*0x01010101)
		}
	}
}

// decodePairsStep makes pairs of n times 32 inputs, which are unpacked to bytes: a number was added
// to each. header has the halves such as d, part the scales, with strides in bytes.
func decodePairsStep(isa tuning.ISA, t blocks.Type, dst *uint16, bytes, header, part *byte,
	n, headerStep, partStep, added int) {
	of := t.Traits()
	if isa.Lanes16() {
		switch {
		case of.PowerOf2:
			decodePairsPowerAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.One:
			decodePairsPlainAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.Offset:
			decodePairsOffsetAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.Scaled:
			decodePairsScaledAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.Minima:
			decodePairsMinimaAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.Halves:
			decodePairsHalvesAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		case of.Scaling == blocks.Pairs:
			decodePairsPairsAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		default:
			decodePairsFloatsAVX512(dst, bytes, header, part, n, headerStep, partStep, added)
		}
		return
	}
	switch {
	case of.PowerOf2:
		decodePairsPowerSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.One:
		decodePairsPlainSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.Offset:
		decodePairsOffsetSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.Scaled:
		decodePairsScaledSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.Minima:
		decodePairsMinimaSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.Halves:
		decodePairsHalvesSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	case of.Scaling == blocks.Pairs:
		decodePairsPairsSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	default:
		decodePairsFloatsSIMD(dst, bytes, header, part, n, headerStep, partStep, added)
	}
}

// decodePairsPlainSIMD is for blocks with d. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsPlainSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsPlainAVX512 is decodePairsPlainSIMD with 16 lanes.
//
//go:noescape
func decodePairsPlainAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsPowerSIMD is for blocks of MXFP4, which may be subnormal. It works like
// decodePairsGeneric.
//
//go:noescape
func decodePairsPowerSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsPowerAVX512 is decodePairsPowerSIMD with 16 lanes.
//
//go:noescape
func decodePairsPowerAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsOffsetSIMD is for blocks with d and m. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsOffsetSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsOffsetAVX512 is decodePairsOffsetSIMD with 16 lanes.
//
//go:noescape
func decodePairsOffsetAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsScaledSIMD is for blocks with a scale. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsScaledSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsScaledAVX512 is decodePairsScaledSIMD with 16 lanes.
//
//go:noescape
func decodePairsScaledAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsMinimaSIMD is for blocks with a scale and a minimum. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsMinimaSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsMinimaAVX512 is decodePairsMinimaSIMD with 16 lanes.
//
//go:noescape
func decodePairsMinimaAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsHalvesSIMD is for blocks with a scale for each half. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsHalvesSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsHalvesAVX512 is decodePairsHalvesSIMD with 16 lanes.
//
//go:noescape
func decodePairsHalvesAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsPairsSIMD is for Q2_K. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsPairsSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsPairsAVX512 is decodePairsPairsSIMD with 16 lanes.
//
//go:noescape
func decodePairsPairsAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsFloatsSIMD is for NVFP4. It works like decodePairsGeneric.
//
//go:noescape
func decodePairsFloatsSIMD(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)

// decodePairsFloatsAVX512 is decodePairsFloatsSIMD with 16 lanes.
//
//go:noescape
func decodePairsFloatsAVX512(dst *uint16, bytes, header, part *byte, n, headerStep, partStep,
	added int)
