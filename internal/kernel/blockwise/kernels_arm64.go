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

// Blocks are unpacked for SDOT, which multiplies signed bytes: nibbles by TBL, other bits and
// scales eight bytes at a time in Go.

// nibbleValues is the table of nibbles that stay as they are.
var nibbleValues = blocks.Levels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// hasProducts reports whether there are kernels of products by blocks.
func hasProducts(cpu *tuning.Row) bool { return cpu.ISA.SIMD() && cpu.DotProduct }

// hasDecoding reports whether there are kernels for weights as float32.
func hasDecoding(isa tuning.ISA) bool { return isa.SIMD() }

// unpackSigned unpacks n blocks of a panel into bytes with sign, as SDOT multiplies them, too.
func unpackSigned(_ tuning.ISA, t blocks.Type, dst, packed *byte, n int) {
	unpackBlocksStep(nil, t, dst, packed, n)
}

// rowsOfTile is how many rows, or multiples of them, multiplyBlocksStep multiplies.
func rowsOfTile(_ *tuning.Row, t blocks.Type) int {
	s := t.Traits().Scaling
	switch {
	case fewRowsOf[t] == 0:
		return 1
	case s == blocks.Halves || s == blocks.Scaled:
		return 2
	}
	return 4
}

// Few reports whether MultiplyFew is for a type and a number of rows.
func Few(cpu *tuning.Row, t blocks.Type, rows int) bool {
	return rows <= fewRows && fewRowsOf[t] > 0 && hasProducts(cpu)
}

// fewTile is how many of some rows fewRowsStep multiplies.
func fewTile(_ *tuning.Row, t blocks.Type, rows int) int {
	if rows >= 4 {
		return 4
	}
	return min(int(fewRowsOf[t]), rows)
}

// fewRowsStep adds products of fewTile rows and some panels to outputs, in one call.
func fewRowsStep(_ *tuning.Row, t blocks.Type, x *blockCall) { fewDot(t, x) }

func sumBlocksStep(rows *Row, scales *float32, n int) {
	sumBlocksGeneric(unsafe.Slice(rows, n), unsafe.Slice(scales, n))
}

// unpackBlocksStep unpacks n blocks of a panel for multiplyBlocksStep.
func unpackBlocksStep(_ *tuning.Row, t blocks.Type, dst, packed *byte, n int) {
	of, size := t.Traits(), unpackedSize(t)
	if of.Codes == blocks.Indices {
		unpackBooks(t, dst, packed, fieldsOf(t), n)
		return
	}
	per := of.Inputs / blocks.Inputs
	for i := range n * per {
		to := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(dst), i*size)), size)
		at := i / per * of.Packed
		from := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(packed), at)), of.Packed)
		part := from[of.Header()+i%per*of.Part():]
		unpackCodes(of, to, part[of.Scales():], i%per)
		if of.Scaling == blocks.Pairs {
			timesScales(to, part)
		}
		unpackScales(of, to[unpackedBytes:], from, part)
	}
}

// unpackCodes unpacks the codes of 32 inputs with a number in their block.
func unpackCodes(of *blocks.Traits, to, words []byte, block int) {
	group := func(g int) []byte { return to[g*4*panel:][:4*panel] }
	less := uint64(of.Less)
	switch of.Codes {
	case blocks.EightBits:
		copy(to, words[:unpackedBytes])
	case blocks.FourBits:
		unpackFourBits(of, to, words)
	case blocks.FiveBits:
		unpackNibbles(to, words, &nibbleValues)
		for g := range 8 {
			addBits(group(g), words[blocks.BitsAt:], uint64(g), 1, less)
		}
	case blocks.SixBits:
		unpackNibbles(to, words, &nibbleValues)
		for g := range 8 {
			addBits(group(g), words[blocks.BitsAt+g/4*4*panel:], uint64(g%4*2), 3, less)
		}
	case blocks.OneBit:
		for g := range 8 {
			unpackOneBit(group(g), words, g, less)
		}
	case blocks.TwoBits:
		for g := range 8 {
			unpackPairs(group(g), words, nil, g, less)
		}
	case blocks.ThreeBits:
		for g := range 8 {
			unpackPairs(group(g), words, words[2*4*panel:], g, less)
		}
	case blocks.Trits:
		for g := range 8 {
			unpackTrits(group(g), words, block, g)
		}
	}
}

// unpackFourBits unpacks nibbles; with Floats, first the nibbles of the first 16 inputs.
func unpackFourBits(of *blocks.Traits, to, words []byte) {
	levels := of.Levels
	if levels == nil {
		levels = &nibbleValues
	}
	if of.Scaling != blocks.Floats {
		unpackNibbles(to, words, levels)
		return
	}
	for half := range 2 {
		unpackNibblesDot(&to[half*unpackedBytes/2], &words[half*8*panel],
			(*byte)(unsafe.Pointer(levels)), 8*panel/16, unpackedBytes/4)
	}
}

// unpackScales computes the factors of sums, in the order of kernels.
func unpackScales(of *blocks.Traits, to, from, part []byte) {
	vector := func(v int, number func(c int) float32) {
		for c := range panel {
			putFloat(to[v*4*panel:], c, number(c))
		}
	}
	one := func(int) float32 { return 1 }
	half := func(c int) float32 { return f32.FromF16(binary.LittleEndian.Uint16(from[2*(panel+c):])) }
	signed := func(c int) float32 { return float32(int8(part[c])) }
	switch {
	case of.Scaling == blocks.Floats:
		vector(0, func(c int) float32 { return blocks.HalfOfFloat(part[c]) })
		vector(1, func(c int) float32 { return blocks.HalfOfFloat(part[panel+c]) })
		return
	case of.PowerOf2:
		vector(0, func(c int) float32 { return f32.FromBF16(binary.LittleEndian.Uint16(from[2*c:])) })
		return
	}
	widenD(to, from)
	switch of.Scaling {
	case blocks.Offset: // as minima of −m
		vector(1, half)
		vector(2, one)
		vector(3, one)
	case blocks.Minima:
		vector(1, func(c int) float32 { return -half(c) })
		vector(2, func(c int) float32 { return float32(part[c]) })
		vector(3, func(c int) float32 { return float32(part[panel+c]) })
	case blocks.Scaled: // as halves with the same scale
		vector(1, signed)
		vector(2, signed)
	case blocks.Halves:
		vector(1, signed)
		vector(2, func(c int) float32 { return signed(panel + c) })
	case blocks.Pairs:
		vector(1, func(c int) float32 { return -half(c) })
		vector(2, func(c int) float32 { return float32(part[c]>>4) / -32 })
		vector(3, func(c int) float32 { return float32(part[panel+c]>>4) / -32 })
	}
}

// putFloat puts number c.
func putFloat(to []byte, c int, x float32) { *(*float32)(unsafe.Pointer(&to[4*c])) = x }

// widenD widens numbers in F16 to float32.
func widenD(to, from []byte) {
	narrow.WidenHalves(kernel.F16, (*float32)(unsafe.Pointer(&to[0])), &from[0], panel)
}

// oddScale is a scale of a type of indices.
func oddScale(_ tuning.ISA, x float32) float32 { return x }

// unpackNibbles unpacks 32 nibbles.
func unpackNibbles(to, words []byte, levels *blocks.Levels) {
	unpackNibblesDot(&to[0], &words[0], (*byte)(unsafe.Pointer(levels)), unpackedBytes/2/16,
		unpackedBytes/2)
}

// addBits adds to nibbles the upper bits, from bit from of each byte on, and subtracts less.
func addBits(nibbles, bits []byte, from, mask, less uint64) {
	const each = 0x0101010101010101
	for i := 0; i < len(nibbles); i += 8 {
		x := binary.LittleEndian.Uint64(nibbles[i:])
		x |= binary.LittleEndian.Uint64(bits[i:]) >> from & (mask * each) << 4
		x = (x | 0x80*each) - less*each ^ 0x80*each // no byte borrows from the next one
		binary.LittleEndian.PutUint64(nibbles[i:], x)
	}
}

// unpackPairs unpacks pairs of bits of a group, with third bits if there are any, and subtracts
// less.
func unpackPairs(to, words, bits []byte, g int, less uint64) {
	const each = 0x0101010101010101
	words = words[g/4*4*panel:]
	for i := 0; i < len(to); i += 8 {
		x := binary.LittleEndian.Uint64(words[i:]) >> (g % 4 * 2) & (3 * each)
		if bits != nil {
			x |= binary.LittleEndian.Uint64(bits[i:]) >> g & each << 2
		}
		x = (x | 0x80*each) - less*each ^ 0x80*each // no byte borrows from the next one
		binary.LittleEndian.PutUint64(to[i:], x)
	}
}

// unpackOneBit unpacks the bits of a group to 0 and 2, and subtracts less.
func unpackOneBit(to, words []byte, g int, less uint64) {
	const each = 0x0101010101010101
	for i := 0; i < len(to); i += 8 {
		x := binary.LittleEndian.Uint64(words[i:]) >> g & each << 1
		x = (x | 0x80*each) - less*each ^ 0x80*each // no byte borrows from the next one
		binary.LittleEndian.PutUint64(to[i:], x)
	}
}

// unpackTrits unpacks the digits of a group of a block with a number, less 1.
func unpackTrits(to, words []byte, block, g int) {
	const each, lower = 0x0101010101010101, 0x00ff00ff00ff00ff
	word, digit := g, block
	switch {
	case block == 7 && g >= 4:
		word, digit = 12, g-4
	case block == 7:
		word, digit = 8+g, 4
	case block >= 5:
		word, digit = 8+g%4, 2*(block-5)+g/4
	}
	words, factor := words[word*4*panel:], [...]uint64{1, 3, 9, 27, 81}[digit]
	digits := func(x uint64) uint64 { return (x & lower * factor & lower) * 3 >> 8 & lower }
	for i := 0; i < len(to); i += 8 {
		x := binary.LittleEndian.Uint64(words[i:]) ^ 0x80*each
		x = digits(x) | digits(x>>8)<<8
		x = (x | 0x80*each) - each ^ 0x80*each
		binary.LittleEndian.PutUint64(to[i:], x)
	}
}

// timesScales multiplies bytes by the scales of their 16 inputs, which are the lower halves of
// bytes: no product is more than a byte.
func timesScales(to, scales []byte) {
	for i := 0; i < unpackedBytes; i += 8 {
		at := scales[i/(unpackedBytes/2)*panel+i/4%panel:]
		x := binary.LittleEndian.Uint64(to[i:])
		x = x&0xffffffff*uint64(at[0]&15) | x>>32*uint64(at[1]&15)<<32
		binary.LittleEndian.PutUint64(to[i:], x)
	}
}

// multiplyBlocksStep adds products of rows and some unpacked blocks to outputs, in one call.
func multiplyBlocksStep(_ *tuning.Row, t blocks.Type, x *blockCall) {
	multiplyDot(t.Traits().Scaling, x)
}

// unpackNibblesDot looks up nibbles of n vectors in a table.
//
//go:noescape
func unpackNibblesDot(dst, packed, table *byte, n, upper int)
