//go:build !purego

package blockwise

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
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

// multiplyBlocksStep adds products of rows and some unpacked blocks to o, in one call.
func multiplyBlocksStep(cpu *tuning.Row, t blocks.Type, o *float32, a *Row, w *byte, rows, n,
	oStride, aStride int, overwrite bool) {
	switch {
	case avxVNNI(cpu):
		multiplyBlocksAVXVNNI(t, o, a, w, rows, n, oStride, aStride, overwrite)
		return
	case !vnni(cpu):
		multiplyBlocksAVX2(t, o, a, w, rows, n, oStride, aStride, overwrite)
		return
	}
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		multiplyMinimaVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyHalvesVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.IQ4_XS:
		multiplyScaledVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q2_K:
		multiplyPairsVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.NVFP4:
		multiplyFloatsVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	default:
		multiplyPlainVNNIAVX512(o, a, w, rows, n, oStride, aStride, overwrite)
	}
}

func multiplyBlocksAVXVNNI(t blocks.Type, o *float32, a *Row, w *byte, rows, n, oStride,
	aStride int, overwrite bool) {
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		multiplyMinimaVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyHalvesVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.IQ4_XS:
		multiplyScaledVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q2_K:
		multiplyPairsVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.NVFP4:
		multiplyFloatsVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	default:
		multiplyPlainVNNISIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	}
}

func multiplyBlocksAVX2(t blocks.Type, o *float32, a *Row, w *byte, rows, n, oStride,
	aStride int, overwrite bool) {
	switch t {
	case blocks.Q4_0, blocks.TQ1_0, blocks.TQ2_0:
		multiplyNibblesSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.MXFP4, blocks.Q5_0:
		multiplyLevelsSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q4_K:
		multiplyQ4KSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q5_K:
		multiplyQ5KSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q6_K, blocks.Q3_K:
		multiplyQ6KSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q4_1, blocks.Q5_1:
		multiplyOffsetSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.IQ4_XS:
		multiplyScaledSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q2_K:
		multiplyPairsSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.NVFP4:
		multiplyFloatsSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
	default:
		multiplyBytesSIMD(o, a, w, rows, n, oStride, aStride, overwrite)
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
			blocks.Q5_0:
			return 8
		}
	}
	return min(4, rows)
}

// fewRowsStep adds products of fewTile rows and some panels to o, in one call, and requests
// memory from request on, before blocks, and then from next on.
func fewRowsStep(cpu *tuning.Row, t blocks.Type, o *float32, a *Row, w *byte, request, next uintptr,
	rows, panels, n, oStride, aStride, before int, overwrite bool) {
	switch {
	case avxVNNI(cpu):
		fewRowsAVXVNNI(t, o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
		return
	case !vnni(cpu):
		fewRowsAVX2(t, o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
		return
	}
	switch t {
	case blocks.Q8_0:
		fewQ8VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q4_0:
		fewNibblesVNNIAVX512(o, a, w, &bytesQ4[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.IQ4_NL:
		fewNibblesVNNIAVX512(o, a, w, &bytesIQ4[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.MXFP4:
		fewMXFPVNNIAVX512(o, a, w, &bytesMXFP[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.Q4_K:
		fewQ4KVNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q5_K:
		fewQ5KVNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q6_K:
		fewQ6KVNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q4_1:
		fewQ41VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q5_0:
		fewQ50VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q5_1:
		fewQ51VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q2_K:
		fewQ2KVNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q3_K:
		fewQ3KVNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.IQ4_XS:
		fewXSVNNIAVX512(o, a, w, &bytesIQ4[0], request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.NVFP4:
		fewNVFPVNNIAVX512(o, a, w, &bytesNVFP[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.TQ1_0:
		fewTQ1VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.TQ2_0:
		fewTQ2VNNIAVX512(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	}
}

// fewRowsAVXVNNI has kernels for some types only.
func fewRowsAVXVNNI(t blocks.Type, o *float32, a *Row, w *byte, request, next uintptr,
	rows, panels, n, oStride, aStride, before int, overwrite bool) {
	switch t {
	case blocks.Q8_0:
		fewQ8VNNISIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q4_0:
		fewNibblesVNNISIMD(o, a, w, &bytesQ4[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.IQ4_NL:
		fewNibblesVNNISIMD(o, a, w, &bytesIQ4[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.Q4_K:
		fewQ4KVNNISIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q6_K:
		fewQ6KVNNISIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	default:
		fewRowsAVX2(t, o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	}
}

func fewRowsAVX2(t blocks.Type, o *float32, a *Row, w *byte, request, next uintptr,
	rows, panels, n, oStride, aStride, before int, overwrite bool) {
	switch t {
	case blocks.Q8_0:
		fewQ8SIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q4_0:
		fewNibblesSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.IQ4_NL:
		fewLevelsSIMD(o, a, w, &bytesIQA2[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.MXFP4:
		fewMXFPSIMD(o, a, w, &bytesMXFA2[0], request, next, rows, panels, n, oStride, aStride, before,
			overwrite)
	case blocks.Q4_K:
		fewQ4KSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q5_K:
		fewQ5KSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q6_K:
		fewQ6KSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q4_1:
		fewQ41SIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q5_0:
		fewQ50SIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q5_1:
		fewQ51SIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q2_K:
		fewQ2KSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.Q3_K:
		fewQ3KSIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	case blocks.IQ4_XS:
		fewXSSIMD(o, a, w, &bytesIQA2[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.NVFP4:
		fewNVFPSIMD(o, a, w, &bytesMXFA2[0], request, next, rows, panels, n, oStride, aStride,
			before, overwrite)
	case blocks.TQ1_0:
		for r := range rows {
			fewTQ1SIMD((*float32)(unsafe.Add(unsafe.Pointer(o), 4*r*oStride)),
				(*Row)(unsafe.Add(unsafe.Pointer(a), rowSize*r*aStride)), w, request, next, 1, panels, n,
				oStride, aStride, before, overwrite)
		}
	case blocks.TQ2_0:
		fewTQ2SIMD(o, a, w, request, next, rows, panels, n, oStride, aStride, before, overwrite)
	}
}

// Kernels of few rows with AVX-VNNI, of the types that most files have: few rows wait for memory,
// and each kernel is 10 KB of text.

//go:noescape
func fewQ8VNNISIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewNibblesVNNISIMD(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ4KVNNISIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ6KVNNISIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

func sumBlocksStep(rows *Row, scales *float32, n int) { sumBlocksSIMD(rows, scales, n) }

// sumBlocksSIMD works like sumBlocksGeneric.
//
//go:noescape
func sumBlocksSIMD(rows *Row, scales *float32, n int)

// multiplyPlainVNNISIMD multiplies rows by blocks with one scale, as those of VNNI below do, with 8
// lanes, for CPUs with AVX-VNNI.
//
//go:noescape
func multiplyPlainVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyMinimaVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyHalvesVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyOffsetVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyScaledVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyPairsVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyFloatsVNNISIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyPlainVNNIAVX512 multiplies rows by blocks with one scale. It works like
// multiplyBlocksGeneric, as the two below do.
//
//go:noescape
func multiplyPlainVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyMinimaVNNIAVX512 is for Q4_K and Q5_K.
//
//go:noescape
func multiplyMinimaVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyHalvesVNNIAVX512 is for Q6_K and Q3_K.
//
//go:noescape
func multiplyHalvesVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyOffsetVNNIAVX512 is for Q4_1 and Q5_1.
//
//go:noescape
func multiplyOffsetVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyScaledVNNIAVX512 is for IQ4_XS.
//
//go:noescape
func multiplyScaledVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyPairsVNNIAVX512 is for Q2_K.
//
//go:noescape
func multiplyPairsVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyFloatsVNNIAVX512 is for NVFP4.
//
//go:noescape
func multiplyFloatsVNNIAVX512(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyNibblesSIMD is for Q4_0, TQ1_0 and TQ2_0. Those with AVX2 differ in how many products fit
// in 16 bits.
//
//go:noescape
func multiplyNibblesSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyLevelsSIMD is for MXFP4 and Q5_0.
//
//go:noescape
func multiplyLevelsSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyBytesSIMD is for Q8_0 and IQ4_NL.
//
//go:noescape
func multiplyBytesSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyQ4KSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyQ5KSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

//go:noescape
func multiplyQ6KSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyOffsetSIMD is for Q4_1 and Q5_1.
//
//go:noescape
func multiplyOffsetSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyScaledSIMD is for IQ4_XS.
//
//go:noescape
func multiplyScaledSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyPairsSIMD is for Q2_K.
//
//go:noescape
func multiplyPairsSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyFloatsSIMD is for NVFP4.
//
//go:noescape
func multiplyFloatsSIMD(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

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
func fewQ8VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewNibblesVNNIAVX512(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewMXFPVNNIAVX512(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ4KVNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ5KVNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ6KVNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ8SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewNibblesSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewLevelsSIMD(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewMXFPSIMD(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ4KSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ5KSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ6KSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels, blocks,
	oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ41VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ50VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ51VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ2KVNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ3KVNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewXSVNNIAVX512(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewNVFPVNNIAVX512(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewTQ1VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewTQ2VNNIAVX512(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ41SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ50SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ51SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ2KSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewQ3KSIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewXSSIMD(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewNVFPSIMD(o *float32, a *Row, w, table *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

// fewTQ1SIMD is for one row.
//
//go:noescape
func fewTQ1SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)

//go:noescape
func fewTQ2SIMD(o *float32, a *Row, w *byte, request, next uintptr, rows, panels,
	blocks, oStride, aStride, before int, overwrite bool)
