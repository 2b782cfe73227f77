//go:build !purego

package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Levels as kernels take them: for VNNI with 128 added, for AVX2 with so little that products fit
// in 16 bits, or with their sign (gen/blocks_avx2.go).
var (
	bytesQ4    = biased(128, levelsQ4)
	bytesIQ4   = biased(128, levelsIQ4)
	bytesMXFP  = biased(128, levelsMXFP)
	bytesNVFP  = biased(32, levelsMXFP)
	bytesQ4A2  = biased(8, levelsQ4)
	bytesIQA2  = biased(0, levelsIQ4)
	bytesMXFA2 = biased(16, levelsMXFP)
)

// Levels with their sign, for weights as float32.
var (
	signedQ4   = biased(0, levelsQ4)
	signedMXFP = biased(0, levelsMXFP)
)

// biased is levels with a number added.
func biased(bias int, levels [16]int8) (x [16]byte) {
	for i, e := range levels {
		x[i] = byte(int(e) + bias)
	}
	return x
}

// hasProducts reports whether there are kernels of products by blocks.
func hasProducts(cpu *tuning.Row) bool { return cpu.ISA.Integers() }

// vnni reports whether they are those of VNNI with 16 lanes.
func vnni(cpu *tuning.Row) bool { return cpu.ISA.Lanes16() && cpu.DotProduct }

// avxVNNI reports whether they are those of VNNI with 8 lanes.
func avxVNNI(cpu *tuning.Row) bool { return !cpu.ISA.Lanes16() && cpu.DotProduct }

// unpackBlocksStep unpacks n blocks of a panel for multiplyBlocksStep.
func unpackBlocksStep(cpu *tuning.Row, t blocks.Type, dst, packed *byte, n int) {
	switch {
	case avxVNNI(cpu):
		unpackBlocksAVXVNNI(t, dst, packed, n)
		return
	case !vnni(cpu):
		unpackBlocksAVX2(t, dst, packed, n)
		return
	}
	switch t {
	case blocks.Q8_0:
		unpackQ8AVX512(dst, packed, n)
	case blocks.Q4_0:
		unpackNibblesF16AVX512(dst, packed, &bytesQ4[0], n)
	case blocks.IQ4_NL:
		unpackNibblesF16AVX512(dst, packed, &bytesIQ4[0], n)
	case blocks.MXFP4:
		unpackNibblesBF16AVX512(dst, packed, &bytesMXFP[0], n)
	case blocks.Q4_K:
		unpackQ4KAVX512(dst, packed, n)
	case blocks.Q5_K:
		unpackQ5KAVX512(dst, packed, n)
	case blocks.Q6_K:
		unpackQ6KAVX512(dst, packed, n)
	case blocks.Q4_1:
		unpackQ41AVX512(dst, packed, n)
	case blocks.Q5_0:
		unpackQ50AVX512(dst, packed, n)
	case blocks.Q5_1:
		unpackQ51AVX512(dst, packed, n)
	case blocks.Q2_K:
		unpackQ2KAVX512(dst, packed, n)
	case blocks.Q3_K:
		unpackQ3KAVX512(dst, packed, n)
	case blocks.IQ4_XS:
		unpackXSAVX512(dst, packed, &bytesIQ4[0], n)
	case blocks.NVFP4:
		unpackNVFPAVX512(dst, packed, &bytesNVFP[0], n)
	case blocks.TQ1_0:
		unpackTQ1AVX512(dst, packed, n)
	case blocks.TQ2_0:
		unpackTQ2AVX512(dst, packed, n)
	}
}

// unpackBlocksAVXVNNI has levels as VNNI takes them. What has no sign is as for AVX2.
func unpackBlocksAVXVNNI(t blocks.Type, dst, packed *byte, n int) {
	switch t {
	case blocks.Q8_0:
		unpackQ8VNNISIMD(dst, packed, n)
	case blocks.Q4_0:
		unpackNibblesF16SIMD(dst, packed, &bytesQ4[0], n)
	case blocks.IQ4_NL:
		unpackNibblesF16SIMD(dst, packed, &bytesIQ4[0], n)
	case blocks.MXFP4:
		unpackNibblesBF16SIMD(dst, packed, &bytesMXFP[0], n)
	case blocks.Q5_0:
		unpackQ50VNNISIMD(dst, packed, n)
	case blocks.IQ4_XS:
		unpackXSSIMD(dst, packed, &bytesIQ4[0], n)
	case blocks.NVFP4:
		unpackNVFPSIMD(dst, packed, &bytesNVFP[0], n)
	case blocks.TQ1_0:
		unpackTQ1VNNISIMD(dst, packed, n)
	case blocks.TQ2_0:
		unpackTQ2VNNISIMD(dst, packed, n)
	default:
		unpackBlocksAVX2(t, dst, packed, n)
	}
}

func unpackBlocksAVX2(t blocks.Type, dst, packed *byte, n int) {
	switch t {
	case blocks.Q8_0:
		unpackQ8SIMD(dst, packed, n)
	case blocks.Q4_0:
		unpackNibblesF16SIMD(dst, packed, &bytesQ4A2[0], n)
	case blocks.IQ4_NL:
		unpackNibblesF16SIMD(dst, packed, &bytesIQA2[0], n)
	case blocks.MXFP4:
		unpackNibblesBF16SIMD(dst, packed, &bytesMXFA2[0], n)
	case blocks.Q4_K:
		unpackQ4KSIMD(dst, packed, n)
	case blocks.Q5_K:
		unpackQ5KSIMD(dst, packed, n)
	case blocks.Q6_K:
		unpackQ6KSIMD(dst, packed, n)
	case blocks.Q4_1:
		unpackQ41SIMD(dst, packed, n)
	case blocks.Q5_0:
		unpackQ50SIMD(dst, packed, n)
	case blocks.Q5_1:
		unpackQ51SIMD(dst, packed, n)
	case blocks.Q2_K:
		unpackQ2KSIMD(dst, packed, n)
	case blocks.Q3_K:
		unpackQ3KSIMD(dst, packed, n)
	case blocks.IQ4_XS:
		unpackXSSIMD(dst, packed, &bytesIQA2[0], n)
	case blocks.NVFP4:
		unpackNVFPSIMD(dst, packed, &bytesMXFA2[0], n)
	case blocks.TQ1_0:
		unpackTQ1SIMD(dst, packed, n)
	case blocks.TQ2_0:
		unpackTQ2SIMD(dst, packed, n)
	}
}

// scaleVectors is how many vectors of numbers unpacked bytes have after them.
func scaleVectors(s blocks.Scaling) int {
	switch s {
	case blocks.One:
		return 1
	case blocks.Minima, blocks.Halves:
		return 4
	case blocks.Pairs:
		return 3
	}
	return 2
}

// hasDecoding reports whether there are kernels for weights as float32.
func hasDecoding(isa tuning.ISA) bool { return isa.Integers() }

// unpackSigned unpacks n blocks of a panel into bytes with sign.
func unpackSigned(_ tuning.ISA, t blocks.Type, dst, packed *byte, n int) {
	switch t {
	case blocks.Q4_0:
		unpackNibblesF16SIMD(dst, packed, &signedQ4[0], n)
	case blocks.MXFP4:
		unpackNibblesBF16SIMD(dst, packed, &signedMXFP[0], n)
	case blocks.NVFP4:
		unpackNVFPSIMD(dst, packed, &signedMXFP[0], n)
	default:
		unpackBlocksAVX2(t, dst, packed, n)
		less := addedAVX2(t)
		for i := 0; less > 0 && i < n*t.Traits().Inputs/blocks.Inputs; i++ {
			to := unsafe.Add(unsafe.Pointer(dst), i*unpackedSize(t))
			takeOff((*[unpackedBytes / 8]uint64)(to), less)
		}
	}
}

// addedAVX2 is what unpackBlocksAVX2 adds to integers that it does not look up.
func addedAVX2(t blocks.Type) uint64 {
	switch t {
	case blocks.Q6_K, blocks.Q3_K:
		return 32
	case blocks.Q5_0:
		return 16
	case blocks.TQ1_0, blocks.TQ2_0:
		return 8
	}
	return 0
}

// takeOff takes a number off bytes of less than 128, of which none then takes from the next one.
func takeOff(x *[unpackedBytes / 8]uint64, less uint64) {
	const each = 0x0101010101010101
	less *= each
	for i := 0; i < len(x); i += 4 {
		y := (*[4]uint64)(x[i:])
		y[0] = (y[0] | 0x80*each) - less ^ 0x80*each
		y[1] = (y[1] | 0x80*each) - less ^ 0x80*each
		y[2] = (y[2] | 0x80*each) - less ^ 0x80*each
		y[3] = (y[3] | 0x80*each) - less ^ 0x80*each
	}
}

// multiplyBlocksStep adds products of rows and some unpacked blocks to outputs, in one call.
func multiplyBlocksStep(cpu *tuning.Row, t blocks.Type, x *blockCall) {
	switch {
	case avxVNNI(cpu):
		multiplyBlocksAVXVNNI(t, x)
		return
	case !vnni(cpu):
		multiplyBlocksAVX2(t, x)
		return
	}
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		multiplyMinimaVNNIAVX512(x)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyHalvesVNNIAVX512(x)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetVNNIAVX512(x)
	case blocks.IQ4_XS:
		multiplyScaledVNNIAVX512(x)
	case blocks.Q2_K:
		multiplyPairsVNNIAVX512(x)
	case blocks.NVFP4:
		multiplyFloatsVNNIAVX512(x)
	default:
		multiplyPlainVNNIAVX512(x)
	}
}

func multiplyBlocksAVXVNNI(t blocks.Type, x *blockCall) {
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		multiplyMinimaVNNISIMD(x)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyHalvesVNNISIMD(x)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetVNNISIMD(x)
	case blocks.IQ4_XS:
		multiplyScaledVNNISIMD(x)
	case blocks.Q2_K:
		multiplyPairsVNNISIMD(x)
	case blocks.NVFP4:
		multiplyFloatsVNNISIMD(x)
	default:
		multiplyPlainVNNISIMD(x)
	}
}

func multiplyBlocksAVX2(t blocks.Type, x *blockCall) {
	switch t {
	case blocks.Q4_0, blocks.TQ1_0, blocks.TQ2_0:
		multiplyNibblesSIMD(x)
	case blocks.MXFP4, blocks.Q5_0:
		multiplyLevelsSIMD(x)
	case blocks.Q4_K:
		multiplyQ4KSIMD(x)
	case blocks.Q5_K:
		multiplyQ5KSIMD(x)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyQ6KSIMD(x)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetSIMD(x)
	case blocks.IQ4_XS:
		multiplyScaledSIMD(x)
	case blocks.Q2_K:
		multiplyPairsSIMD(x)
	case blocks.NVFP4:
		multiplyFloatsSIMD(x)
	default:
		multiplyBytesSIMD(x)
	}
}

// rowsOfTile is how many rows, or multiples of them, multiplyBlocksStep takes.
func rowsOfTile(cpu *tuning.Row, t blocks.Type) int {
	switch {
	case vnni(cpu):
		return 4
	case avxVNNI(cpu):
		if t.Traits().Scaling == blocks.Halves { // whose sums take more registers
			return 3
		}
		return 4
	}
	switch t {
	case blocks.Q8_0, blocks.Q4_0, blocks.Q4_K, blocks.IQ4_NL, blocks.IQ4_XS, blocks.TQ1_0,
		blocks.TQ2_0:
		return 4
	}
	return 3
}

// Few reports whether MultiplyFew is for a type and a number of rows.
func Few(cpu *tuning.Row, _ blocks.Type, rows int) bool {
	return rows <= fewRows && hasProducts(cpu)
}

// fewTile is how many of some rows fewRowsStep takes: unpacking is half of the work for four.
func fewTile(cpu *tuning.Row, t blocks.Type, rows int) int {
	if rows >= 8 && vnni(cpu) {
		switch t {
		case blocks.Q8_0, blocks.Q4_0, blocks.IQ4_NL, blocks.Q4_K, blocks.Q5_K, blocks.Q6_K,
			blocks.Q5_0, blocks.MXFP4, blocks.IQ4_XS, blocks.Q4_1, blocks.Q5_1:
			return 8
		}
	}
	return min(4, rows)
}

// fewRowsStep adds products of fewTile rows and some panels to outputs, in one call.
func fewRowsStep(cpu *tuning.Row, t blocks.Type, x *blockCall) {
	switch {
	case avxVNNI(cpu):
		fewRowsAVXVNNI(t, x)
		return
	case !vnni(cpu):
		fewRowsAVX2(t, x)
		return
	}
	switch t {
	case blocks.Q8_0:
		fewQ8VNNIAVX512(x)
	case blocks.Q4_0:
		fewNibblesVNNIAVX512(x.with(&bytesQ4))
	case blocks.IQ4_NL:
		fewNibblesVNNIAVX512(x.with(&bytesIQ4))
	case blocks.MXFP4:
		fewMXFPVNNIAVX512(x.with(&bytesMXFP))
	case blocks.Q4_K:
		fewQ4KVNNIAVX512(x)
	case blocks.Q5_K:
		fewQ5KVNNIAVX512(x)
	case blocks.Q6_K:
		fewQ6KVNNIAVX512(x)
	case blocks.Q4_1:
		fewQ41VNNIAVX512(x)
	case blocks.Q5_0:
		fewQ50VNNIAVX512(x)
	case blocks.Q5_1:
		fewQ51VNNIAVX512(x)
	case blocks.Q2_K:
		fewQ2KVNNIAVX512(x)
	case blocks.Q3_K:
		fewQ3KVNNIAVX512(x)
	case blocks.IQ4_XS:
		fewXSVNNIAVX512(x.with(&bytesIQ4))
	case blocks.NVFP4:
		fewNVFPVNNIAVX512(x.with(&bytesNVFP))
	case blocks.TQ1_0:
		fewTQ1VNNIAVX512(x)
	case blocks.TQ2_0:
		fewTQ2VNNIAVX512(x)
	}
}

// fewRowsAVXVNNI has kernels for some types only.
func fewRowsAVXVNNI(t blocks.Type, x *blockCall) {
	switch t {
	case blocks.Q8_0:
		fewQ8VNNISIMD(x)
	case blocks.Q4_0:
		fewNibblesVNNISIMD(x.with(&bytesQ4))
	case blocks.IQ4_NL:
		fewNibblesVNNISIMD(x.with(&bytesIQ4))
	case blocks.Q4_K:
		fewQ4KVNNISIMD(x)
	case blocks.Q6_K:
		fewQ6KVNNISIMD(x)
	default:
		fewRowsAVX2(t, x)
	}
}

func fewRowsAVX2(t blocks.Type, x *blockCall) {
	switch t {
	case blocks.Q8_0:
		fewQ8SIMD(x)
	case blocks.Q4_0:
		fewNibblesSIMD(x)
	case blocks.IQ4_NL:
		fewLevelsSIMD(x.with(&bytesIQA2))
	case blocks.MXFP4:
		fewMXFPSIMD(x.with(&bytesMXFA2))
	case blocks.Q4_K:
		fewQ4KSIMD(x)
	case blocks.Q5_K:
		fewQ5KSIMD(x)
	case blocks.Q6_K:
		fewQ6KSIMD(x)
	case blocks.Q4_1:
		fewQ41SIMD(x)
	case blocks.Q5_0:
		fewQ50SIMD(x)
	case blocks.Q5_1:
		fewQ51SIMD(x)
	case blocks.Q2_K:
		fewQ2KSIMD(x)
	case blocks.Q3_K:
		fewQ3KSIMD(x)
	case blocks.IQ4_XS:
		fewXSSIMD(x.with(&bytesIQA2))
	case blocks.NVFP4:
		fewNVFPSIMD(x.with(&bytesMXFA2))
	case blocks.TQ1_0:
		one := *x // a kernel of one row
		one.rows = 1
		for r := range x.rows {
			one.o, one.a = operand.At(x.o, r*x.oStride), operand.At(x.a, r*x.aStride)
			fewTQ1SIMD(&one)
		}
	case blocks.TQ2_0:
		fewTQ2SIMD(x)
	}
}

// Kernels of few rows with AVX-VNNI, of the types that most files have: few rows wait for memory,
// and each kernel is 10 KB of text.

//go:noescape
func fewQ8VNNISIMD(x *blockCall)

//go:noescape
func fewNibblesVNNISIMD(x *blockCall)

//go:noescape
func fewQ4KVNNISIMD(x *blockCall)

//go:noescape
func fewQ6KVNNISIMD(x *blockCall)

func sumBlocksStep(rows *Row, scales *float32, n int) { sumBlocksSIMD(rows, scales, n) }

// sumBlocksSIMD works like sumBlocksGeneric.
//
//go:noescape
func sumBlocksSIMD(rows *Row, scales *float32, n int)

// multiplyPlainVNNISIMD multiplies rows by blocks with one scale, as those of VNNI below do, with 8
// lanes, for CPUs with AVX-VNNI.
//
//go:noescape
func multiplyPlainVNNISIMD(x *blockCall)

//go:noescape
func multiplyMinimaVNNISIMD(x *blockCall)

//go:noescape
func multiplyHalvesVNNISIMD(x *blockCall)

//go:noescape
func multiplyOffsetVNNISIMD(x *blockCall)

//go:noescape
func multiplyScaledVNNISIMD(x *blockCall)

//go:noescape
func multiplyPairsVNNISIMD(x *blockCall)

//go:noescape
func multiplyFloatsVNNISIMD(x *blockCall)

// multiplyPlainVNNIAVX512 multiplies rows by blocks with one scale. It works like
// multiplyBlocksGeneric, as the two below do.
//
//go:noescape
func multiplyPlainVNNIAVX512(x *blockCall)

// multiplyMinimaVNNIAVX512 is for Q4_K and Q5_K.
//
//go:noescape
func multiplyMinimaVNNIAVX512(x *blockCall)

// multiplyHalvesVNNIAVX512 is for Q6_K and Q3_K.
//
//go:noescape
func multiplyHalvesVNNIAVX512(x *blockCall)

// multiplyOffsetVNNIAVX512 is for Q4_1 and Q5_1.
//
//go:noescape
func multiplyOffsetVNNIAVX512(x *blockCall)

// multiplyScaledVNNIAVX512 is for IQ4_XS.
//
//go:noescape
func multiplyScaledVNNIAVX512(x *blockCall)

// multiplyPairsVNNIAVX512 is for Q2_K.
//
//go:noescape
func multiplyPairsVNNIAVX512(x *blockCall)

// multiplyFloatsVNNIAVX512 is for NVFP4.
//
//go:noescape
func multiplyFloatsVNNIAVX512(x *blockCall)

// multiplyNibblesSIMD is for Q4_0, TQ1_0 and TQ2_0. Those with AVX2 differ in how many products fit
// in 16 bits.
//
//go:noescape
func multiplyNibblesSIMD(x *blockCall)

// multiplyLevelsSIMD is for MXFP4 and Q5_0.
//
//go:noescape
func multiplyLevelsSIMD(x *blockCall)

// multiplyBytesSIMD is for Q8_0 and IQ4_NL.
//
//go:noescape
func multiplyBytesSIMD(x *blockCall)

//go:noescape
func multiplyQ4KSIMD(x *blockCall)

//go:noescape
func multiplyQ5KSIMD(x *blockCall)

//go:noescape
func multiplyQ6KSIMD(x *blockCall)

// multiplyOffsetSIMD is for Q4_1 and Q5_1.
//
//go:noescape
func multiplyOffsetSIMD(x *blockCall)

// multiplyScaledSIMD is for IQ4_XS.
//
//go:noescape
func multiplyScaledSIMD(x *blockCall)

// multiplyPairsSIMD is for Q2_K.
//
//go:noescape
func multiplyPairsSIMD(x *blockCall)

// multiplyFloatsSIMD is for NVFP4.
//
//go:noescape
func multiplyFloatsSIMD(x *blockCall)

// Kernels that unpack n blocks for AVX-VNNI where what AVX2 takes is less.

//go:noescape
func unpackQ8VNNISIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ50VNNISIMD(dst, packed *byte, n int)

//go:noescape
func unpackTQ1VNNISIMD(dst, packed *byte, n int)

//go:noescape
func unpackTQ2VNNISIMD(dst, packed *byte, n int)

// Kernels that unpack n blocks for VNNI.

//go:noescape
func unpackQ8AVX512(dst, packed *byte, n int)

//go:noescape
func unpackNibblesF16AVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackNibblesBF16AVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackQ4KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ5KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ6KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ41AVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ50AVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ51AVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ2KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackQ3KAVX512(dst, packed *byte, n int)

//go:noescape
func unpackXSAVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackNVFPAVX512(dst, packed, table *byte, n int)

//go:noescape
func unpackTQ1AVX512(dst, packed *byte, n int)

//go:noescape
func unpackTQ2AVX512(dst, packed *byte, n int)

// Kernels that unpack n blocks for AVX2.

//go:noescape
func unpackQ8SIMD(dst, packed *byte, n int)

//go:noescape
func unpackNibblesF16SIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackNibblesBF16SIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackQ4KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ5KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ6KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ41SIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ50SIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ51SIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ2KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackQ3KSIMD(dst, packed *byte, n int)

//go:noescape
func unpackXSSIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackNVFPSIMD(dst, packed, table *byte, n int)

//go:noescape
func unpackTQ1SIMD(dst, packed *byte, n int)

//go:noescape
func unpackTQ2SIMD(dst, packed *byte, n int)

// Kernels for few rows.

//go:noescape
func fewQ8VNNIAVX512(x *blockCall)

//go:noescape
func fewNibblesVNNIAVX512(x *blockCall)

//go:noescape
func fewMXFPVNNIAVX512(x *blockCall)

//go:noescape
func fewQ4KVNNIAVX512(x *blockCall)

//go:noescape
func fewQ5KVNNIAVX512(x *blockCall)

//go:noescape
func fewQ6KVNNIAVX512(x *blockCall)

//go:noescape
func fewQ8SIMD(x *blockCall)

//go:noescape
func fewNibblesSIMD(x *blockCall)

//go:noescape
func fewLevelsSIMD(x *blockCall)

//go:noescape
func fewMXFPSIMD(x *blockCall)

//go:noescape
func fewQ4KSIMD(x *blockCall)

//go:noescape
func fewQ5KSIMD(x *blockCall)

//go:noescape
func fewQ6KSIMD(x *blockCall)

//go:noescape
func fewQ41VNNIAVX512(x *blockCall)

//go:noescape
func fewQ50VNNIAVX512(x *blockCall)

//go:noescape
func fewQ51VNNIAVX512(x *blockCall)

//go:noescape
func fewQ2KVNNIAVX512(x *blockCall)

//go:noescape
func fewQ3KVNNIAVX512(x *blockCall)

//go:noescape
func fewXSVNNIAVX512(x *blockCall)

//go:noescape
func fewNVFPVNNIAVX512(x *blockCall)

//go:noescape
func fewTQ1VNNIAVX512(x *blockCall)

//go:noescape
func fewTQ2VNNIAVX512(x *blockCall)

//go:noescape
func fewQ41SIMD(x *blockCall)

//go:noescape
func fewQ50SIMD(x *blockCall)

//go:noescape
func fewQ51SIMD(x *blockCall)

//go:noescape
func fewQ2KSIMD(x *blockCall)

//go:noescape
func fewQ3KSIMD(x *blockCall)

//go:noescape
func fewXSSIMD(x *blockCall)

//go:noescape
func fewNVFPSIMD(x *blockCall)

// fewTQ1SIMD is for one row.
//
//go:noescape
func fewTQ1SIMD(x *blockCall)

//go:noescape
func fewTQ2SIMD(x *blockCall)
