//go:build !purego

package blockwise

import (
	"encoding/binary"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Blocks are unpacked for SDOT, which takes bytes with sign: nibbles by TBL, and what belongs to
// them eight bytes at a time in Go.

// nibbleValues is the table of nibbles that stay as they are.
var nibbleValues = [16]int8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// hasProducts reports whether there are kernels of products by blocks.
func hasProducts(cpu *tuning.Row, t blocks.Type) bool {
	return cpu.ISA.SIMD() && cpu.DotProduct && hasKernels(t)
}

// hasDecoding reports whether there are kernels for weights as float32.
func hasDecoding(isa tuning.ISA, t blocks.Type) bool { return isa.SIMD() && hasKernels(t) }

// hasKernels reports whether there are kernels of a type.
func hasKernels(t blocks.Type) bool { return t <= blocks.MXFP4 }

// unpackSigned unpacks n blocks of a panel into bytes with sign, as SDOT takes them, too.
func unpackSigned(_ tuning.ISA, t blocks.Type, dst, packed *byte, n int) {
	unpackBlocksStep(nil, t, dst, packed, n)
}

// rowsOfTile is how many rows, or multiples of them, multiplyBlocksStep takes.
func rowsOfTile(*tuning.Row, blocks.Type) int { return 1 }

// Few reports whether MultiplyFew is for so many rows.
func Few(*tuning.Row, int) bool { return false }

func fewRowsStep(*tuning.Row, blocks.Type, *float32, *Row, *byte, uintptr, uintptr, int, int, int,
	int, int, int, bool) {
}

func sumBlocksStep(rows *Row, scales *float32, n int) {
	sumBlocksGeneric(unsafe.Slice(rows, n), unsafe.Slice(scales, n))
}

// unpackBlocksStep unpacks n blocks of a panel for multiplyBlocksStep.
func unpackBlocksStep(_ *tuning.Row, t blocks.Type, dst, packed *byte, n int) {
	of := t.Traits()
	size := unpackedBytes + 4*panel
	if of.Inputs > blocks.Inputs {
		size = of.Inputs / blocks.Inputs * mostUnpacked
	}
	for i := range n {
		to := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(dst), i*size)), size)
		from := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(packed), i*of.Packed)), of.Packed)
		switch t {
		case blocks.Q8_0:
			copy(to, from[2*panel:])
			widenD(to[unpackedBytes:], from)
		case blocks.Q4_0:
			unpackLevels(to, from, &levelsQ4)
		case blocks.IQ4_NL:
			unpackLevels(to, from, &levelsIQ4)
		case blocks.MXFP4:
			unpackLevels(to, from, &levelsMXFP)
			for c := range panel {
				putFloat(to[unpackedBytes:], c, f32.FromBF16(binary.LittleEndian.Uint16(from[2*c:])))
			}
		case blocks.Q4_K, blocks.Q5_K:
			unpackMinima(t, to, from)
		case blocks.Q6_K:
			unpackSixBits(to, from)
		}
	}
}

// putFloat puts number c.
func putFloat(to []byte, c int, x float32) { *(*float32)(unsafe.Pointer(&to[4*c])) = x }

// widenD makes floats of numbers in F16.
func widenD(to, from []byte) {
	narrow.WidenHalves(kernel.F16, (*float32)(unsafe.Pointer(&to[0])), &from[0], panel)
}

// unpackNibbles unpacks 32 nibbles.
func unpackNibbles(to, words []byte, levels *[16]int8) {
	unpackNibblesDot(&to[0], &words[0], (*byte)(unsafe.Pointer(levels)), unpackedBytes/2/16,
		unpackedBytes/2)
}

// unpackLevels unpacks a block of 32 nibbles and its scales in F16.
func unpackLevels(to, from []byte, levels *[16]int8) {
	unpackNibbles(to, from[2*panel:], levels)
	widenD(to[unpackedBytes:], from)
}

// unpackMinima unpacks a block of Q4_K or Q5_K.
func unpackMinima(t blocks.Type, to, from []byte) {
	for b := range 8 {
		block, of := to[b*mostUnpacked:][:mostUnpacked], t.Traits()
		part := from[of.Header()+b*of.Part():][:of.Part()]
		words := part[blocks.PartScales:]
		unpackNibbles(block, words, &nibbleValues)
		if t == blocks.Q5_K {
			for g := range 8 {
				addBits(block[g*4*panel:][:4*panel], words[blocks.BitsAt:], uint64(g), 1, 0)
			}
		}
		scales := block[unpackedBytes:]
		widenD(scales, from)
		for c := range panel {
			putFloat(scales[4*panel:], c, -f32.FromF16(binary.LittleEndian.Uint16(from[2*(panel+c):])))
			putFloat(scales[8*panel:], c, float32(part[c]))
			putFloat(scales[12*panel:], c, float32(part[panel+c]))
		}
	}
}

// unpackSixBits unpacks a block of Q6_K.
func unpackSixBits(to, from []byte) {
	const t = blocks.Q6_K
	for b := range 8 {
		block, of := to[b*mostUnpacked:][:mostUnpacked], t.Traits()
		part := from[of.Header()+b*of.Part():][:of.Part()]
		words := part[blocks.PartScales:]
		unpackNibbles(block, words, &nibbleValues)
		for g := range 8 {
			upper := words[blocks.BitsAt+g/4*4*panel:]
			addBits(block[g*4*panel:][:4*panel], upper, uint64(g%4*2), 3, 32)
		}
		scales := block[unpackedBytes:]
		widenD(scales, from)
		for c := range panel {
			putFloat(scales[4*panel:], c, float32(int8(part[c])))
			putFloat(scales[8*panel:], c, float32(int8(part[panel+c])))
		}
	}
}

// addBits adds to nibbles the upper bits that begin at one of each byte, and takes off less.
func addBits(nibbles, bits []byte, from, mask, less uint64) {
	const each = 0x0101010101010101
	for i := 0; i < len(nibbles); i += 8 {
		x := binary.LittleEndian.Uint64(nibbles[i:])
		x |= binary.LittleEndian.Uint64(bits[i:]) >> from & (mask * each) << 4
		x = (x | 0x80*each) - less*each ^ 0x80*each // no byte takes from the next one
		binary.LittleEndian.PutUint64(nibbles[i:], x)
	}
}

// multiplyBlocksStep adds products of rows and some unpacked blocks to o, in one call.
func multiplyBlocksStep(_ *tuning.Row, t blocks.Type, o *float32, a *Row, w *byte, rows, n,
	oStride, aStride int, overwrite bool) {
	switch t {
	case blocks.Q4_K, blocks.Q5_K:
		multiplyMinimaDot(o, a, w, rows, n, oStride, aStride, overwrite)
	case blocks.Q6_K:
		multiplyHalvesDot(o, a, w, rows, n, oStride, aStride, overwrite)
	default:
		multiplyPlainDot(o, a, w, rows, n, oStride, aStride, overwrite)
	}
}

// unpackNibblesDot looks up nibbles of n vectors in a table.
//
//go:noescape
func unpackNibblesDot(dst, packed, table *byte, n, upper int)

// multiplyPlainDot multiplies rows by blocks with one scale. It works like multiplyBlocksGeneric,
// as the two below do.
//
//go:noescape
func multiplyPlainDot(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyMinimaDot is for Q4_K and Q5_K.
//
//go:noescape
func multiplyMinimaDot(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)

// multiplyHalvesDot is for Q6_K.
//
//go:noescape
func multiplyHalvesDot(o *float32, a *Row, w *byte, rows, blocks, oStride, aStride int,
	overwrite bool)
