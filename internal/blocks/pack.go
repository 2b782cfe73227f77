package blocks

import "encoding/binary"

// Pack packs consecutive rows of a file's blocks, one for each of some outputs from the first on,
// to their places in packed blocks of 16. ok is false if a scale is not finite. The parts of other
// outputs do not change, except that the output after an odd number of outputs becomes zero.
func Pack(t Type, to, from []byte, outputs int) (ok bool) {
	of, row := t.Traits(), len(from)/outputs
	p := packing{*of, of.Header(), of.Scales(), of.Part()}
	ok = true
	for c := 0; c < outputs; c += 2 {
		a := from[c*row:][:row]
		b := a
		if c+1 < outputs {
			b = from[(c+1)*row:][:row]
		}
		for k := range row / of.Bytes {
			packed, at := to[k*of.Packed:][:of.Packed], k*of.Bytes
			ok = p.two(packed, c, a[at:][:of.Bytes], b[at:][:of.Bytes]) && ok
			if c+1 == outputs {
				of.clear(packed, outputs)
			}
		}
	}
	return ok
}

// clear zeroes the part of an output in a packed block.
func (of *Traits) clear(to []byte, c int) {
	for i := range of.Header() / (2 * Outputs) {
		clear(to[2*(Outputs*i+c):][:2])
	}
	to = to[of.Header():]
	for range of.parts() {
		if of.Codes == Indices {
			of.Form().clearIndices(to[:of.Part()], c)
			to = to[of.Part():]
			continue
		}
		for i := range of.Scales() / Outputs {
			to[Outputs*i+c] = 0
		}
		to = to[of.Scales():]
		for i := range of.words() / (4 * Outputs) {
			clear(to[4*(Outputs*i+c):][:4])
		}
		to = to[of.words():]
	}
}

// Blocks are packed two at a time, of an even output and the next one. A word here is one word of
// each, the first one's in the lower half, and to begins at the words of the first one.

// word returns word i of two blocks.
func word(a, b []byte, i int) uint64 {
	return uint64(binary.LittleEndian.Uint32(a[4*i:])) |
		uint64(binary.LittleEndian.Uint32(b[4*i:]))<<32
}

// put stores word i.
func put(to []byte, i int, x uint64) { binary.LittleEndian.PutUint64(to[4*Outputs*i:], x) }

const (
	ofTwo      = eachByte<<32 | eachByte // each byte of two words
	lowNibbles = 0x0f * ofTwo
)

// swap exchanges bits of x, at the places of a mask shifted up by some bits, with those of y at the
// places of the mask.
func swap(x, y uint64, by int, mask uint64) (uint64, uint64) {
	t := (x>>by ^ y) & mask
	return x ^ t<<by, y ^ t
}

// swapWithin exchanges the bits of x at a mask with the bits some places above.
func swapWithin(x uint64, by int, mask uint64) uint64 {
	t := (x>>by ^ x) & mask
	return x ^ t ^ t<<by
}

// packing describes the blocks that are packed.
type packing struct {
	Traits
	header, scales, part int // bytes, see Traits
}

// two packs the blocks of outputs c and c + 1.
func (p *packing) two(to []byte, c int, a, b []byte) (ok bool) {
	ok = p.packHeader(to, c, a, b)
	part := to[p.header:]
	switch {
	case p.Codes == Indices:
		p.packIndices(part, c, a, b)
		return ok
	case p.scales > 0:
		ok = p.packScales(part, c, a, b) && ok
	}
	to = part[p.scales+4*c:]
	codesA, codesB := a[p.At.Codes:], b[p.At.Codes:]
	switch p.Codes {
	case EightBits:
		packWords(to, codesA, codesB)
		packWords(to[4*4*Outputs:], codesA[16:], codesB[16:])
	case Trits:
		for i := range tritWords { // kernels compare bytes with sign
			put(to, i, word(codesA, codesB, i)^0x80*ofTwo)
		}
	case FourBits:
		if p.Shared {
			packNibbles(to, p.part, codesA, codesB)
			break
		}
		packWords(to, codesA, codesB)
		for i := Inputs / 2; i < p.Inputs/2; i += Inputs / 2 {
			to = to[p.part:]
			packWords(to, codesA[i:], codesB[i:])
		}
	case FiveBits:
		if p.Shared {
			packNibbles(to, p.part, codesA, codesB)
			packBits(to[BitsAt:], p.part, a[p.At.Upper:], b[p.At.Upper:])
		} else {
			packWords(to, codesA, codesB)
			packFifths(to[BitsAt:], a[p.At.Upper:], b[p.At.Upper:])
		}
	case SixBits:
		packSixBits(to, p.part, codesA, codesB)
		packPairs(to[BitsAt:], p.part, a[p.At.Upper:], b[p.At.Upper:])
	case OneBit:
		for i := range p.Inputs / Inputs {
			packFifths(to[i*p.part:], codesA[4*i:], codesB[4*i:])
		}
	case TwoBits:
		if p.InOrder {
			for i := range p.Inputs / (Inputs / 2) { // words of 16 inputs
				at := i/2*p.part + i%2*4*Outputs
				put(to[at:], 0, swapPairs(word(codesA, codesB, i)))
			}
			break
		}
		packPairs(to, p.part, codesA, codesB)
	case ThreeBits:
		packPairs(to, p.part, codesA, codesB)
		packBits(to[2*4*Outputs:], p.part, a[p.At.Upper:], b[p.At.Upper:])
	}
	return ok
}

// packHeader packs the numbers that scale all inputs.
func (p *packing) packHeader(to []byte, c int, a, b []byte) (ok bool) {
	to = to[2*c:]
	switch {
	case p.PowerOf2:
		a, b := a[p.At.D], b[p.At.D]
		putTwo(to, powerOf2(a), powerOf2(b))
		return max(a, b) <= maxExponent
	case p.header == 0:
		return true
	case p.Codes == Indices:
		x, y := p.dOf(a), p.dOf(b)
		putTwo(to, x, y)
		return finiteF16(x) && finiteF16(y)
	}
	a, b = a[p.At.D:], b[p.At.D:]
	ok = packHalf(to, a, b)
	if p.header > 2*Outputs {
		ok = packHalf(to[2*Outputs:], a[2:], b[2:]) && ok
	}
	return ok
}

// packHalf packs a half, which must be finite.
func packHalf(to, a, b []byte) (ok bool) {
	x, y := binary.LittleEndian.Uint16(a), binary.LittleEndian.Uint16(b)
	putTwo(to, x, y)
	return finiteF16(x) && finiteF16(y)
}

// putTwo stores halves.
func putTwo(to []byte, x, y uint16) {
	binary.LittleEndian.PutUint32(to, uint32(x)|uint32(y)<<16)
}

// packScales packs the scales, and other bytes, of each 32 inputs.
func (p *packing) packScales(to []byte, c int, a, b []byte) (ok bool) {
	var first, second [8]uint16
	p.scalesOf(&first, a)
	p.scalesOf(&second, b)
	for i, x := range first[:p.Inputs/Inputs] {
		part, y := to[i*p.part+c:], second[i]
		binary.LittleEndian.PutUint16(part, x&0xff|y<<8)
		if p.scales > Outputs {
			binary.LittleEndian.PutUint16(part[Outputs:], x>>8|y&0xff00)
		}
	}
	return p.Scaling != Floats || areFloats(a[p.At.Scales:]) && areFloats(b[p.At.Scales:])
}

// scalesOf returns the bytes of each 32 inputs of a block, the first in the lower byte, without an
// offset.
func (of *Traits) scalesOf(to *[8]uint16, x []byte) {
	x = x[of.At.Scales:]
	switch {
	case !of.SixBits:
		for i := range of.Inputs / Inputs {
			to[i] = binary.LittleEndian.Uint16(x[2*i:])
		}
	case of.Scaling == Minima:
		minimaOf(to, x)
	case of.Scaling == Scaled:
		for i := range to {
			to[i] = uint16(scaleXS(x, i) - 32)
		}
	default:
		for i := range to {
			to[i] = uint16(scaleQ3(x, 2*i)-32) | uint16(scaleQ3(x, 2*i+1)-32)<<8
		}
	}
}

// minimaOf reads scales and minima of 6 bits in 12 bytes: the lower bits of the last four of each
// are nibbles of four bytes, their upper bits are above the first four.
func minimaOf(to *[8]uint16, x []byte) {
	const six, four, two = 0x3f * eachByte, 0x0f * eachByte, 0x03 * eachByte
	scales, minima, nibbles := fileWord(x, 0), fileWord(x, 1), fileWord(x, 2)
	upper := nibbles&four | scales>>6&two<<4
	least := nibbles>>4&four | minima>>6&two<<4
	scales, minima = scales&six, minima&six
	for i := range 4 {
		to[i] = uint16(scales>>(8*i)&0xff | minima>>(8*i)<<8)
		to[4+i] = uint16(upper>>(8*i)&0xff | least>>(8*i)<<8)
	}
}

// packWords packs four words without a change.
func packWords(to, a, b []byte) {
	to, a, b = to[:putFour], a[:16], b[:16]
	put(to, 0, word(a, b, 0))
	put(to, 1, word(a, b, 1))
	put(to, 2, word(a, b, 2))
	put(to, 3, word(a, b, 3))
}

// putFour is the number of bytes from the first word to the end of the fourth.
const putFour = 3*4*Outputs + 8

// splitNibbles packs 32 bytes, whose lower nibbles are 32 inputs and whose upper nibbles are 32
// others.
func splitNibbles(low, high, a, b []byte) {
	low, high, a, b = low[:putFour], high[:putFour], a[:32], b[:32]
	splitWord(low, high, word(a, b, 0), word(a, b, 4))
	splitWord(low[4*Outputs:], high[4*Outputs:], word(a, b, 1), word(a, b, 5))
	splitWord(low[8*Outputs:], high[8*Outputs:], word(a, b, 2), word(a, b, 6))
	splitWord(low[12*Outputs:], high[12*Outputs:], word(a, b, 3), word(a, b, 7))
}

// splitWord packs the nibbles of two words.
func splitWord(low, high []byte, x, y uint64) {
	put(low, 0, x&lowNibbles|y&lowNibbles<<4)
	put(high, 0, x>>4&lowNibbles|y&^lowNibbles)
}

// packNibbles packs the nibbles of 256 inputs. Their parts are consecutive after some bytes, and
// each two share 32 bytes.
func packNibbles(to []byte, part int, a, b []byte) {
	for i := range 4 {
		two := to[2*i*part:]
		splitNibbles(two, two[part:], a[32*i:], b[32*i:])
	}
}

// packSixBits packs the lower bits of blocks of Q6_K: nibbles of 64 bytes for 128 inputs.
func packSixBits(to []byte, part int, a, b []byte) {
	for i := range 2 {
		four := to[4*i*part:]
		splitNibbles(four, four[2*part:], a[64*i:], b[64*i:])
		splitNibbles(four[part:], four[3*part:], a[64*i+32:], b[64*i+32:])
	}
}

// packPairs packs pairs of bits of 64 bytes: pair k of 32 of them belongs to part k of four.
func packPairs(to []byte, part int, a, b []byte) {
	for i := range 4 {
		splitPairs(to[i/2*4*part+i%2*4*Outputs:], part, a[16*i:], b[16*i:])
	}
}

// splitPairs packs the pairs of bits of 16 bytes, one for each part: packed pair g is the pair of
// word g.
func splitPairs(to []byte, part int, a, b []byte) {
	const twos, fours = 0x33 * ofTwo, 0x0f * ofTwo
	a, b = a[:16], b[:16]
	x0, x1, x2, x3 := word(a, b, 0), word(a, b, 1), word(a, b, 2), word(a, b, 3)
	x0, x2 = swap(x0, x2, 4, fours)
	x1, x3 = swap(x1, x3, 4, fours)
	x0, x1 = swap(x0, x1, 2, twos)
	x2, x3 = swap(x2, x3, 2, twos)
	put(to, 0, x0)
	put(to[part:], 0, x1)
	put(to[2*part:], 0, x2)
	put(to[3*part:], 0, x3)
}

// packBits packs the bits of 32 bytes, one for each part: packed bit g is the bit of word g.
func packBits(to []byte, part int, a, b []byte) {
	const ones, twos, fours = 0x55 * ofTwo, 0x33 * ofTwo, 0x0f * ofTwo
	a, b = a[:32], b[:32]
	x0, x1, x2, x3 := word(a, b, 0), word(a, b, 1), word(a, b, 2), word(a, b, 3)
	x4, x5, x6, x7 := word(a, b, 4), word(a, b, 5), word(a, b, 6), word(a, b, 7)
	x0, x4 = swap(x0, x4, 4, fours)
	x1, x5 = swap(x1, x5, 4, fours)
	x2, x6 = swap(x2, x6, 4, fours)
	x3, x7 = swap(x3, x7, 4, fours)
	x0, x2 = swap(x0, x2, 2, twos)
	x1, x3 = swap(x1, x3, 2, twos)
	x4, x6 = swap(x4, x6, 2, twos)
	x5, x7 = swap(x5, x7, 2, twos)
	x0, x1 = swap(x0, x1, 1, ones)
	x2, x3 = swap(x2, x3, 1, ones)
	x4, x5 = swap(x4, x5, 1, ones)
	x6, x7 = swap(x6, x7, 1, ones)
	for i, x := range [...]uint64{x0, x1, x2, x3, x4, x5, x6, x7} {
		put(to[i*part:], 0, x)
	}
}

// packFifths packs the fifth bits of 32 inputs: bit 4·g + i of the file becomes bit 8·i + g.
func packFifths(to, a, b []byte) {
	x := word(a, b, 0)
	x = swapWithin(x, 14, 0xcccc*(1<<32|1))
	x = swapWithin(x, 7, 0xaa00aa*(1<<32|1))
	x = swapWithin(x, 2, 0x0c*ofTwo)
	x = swapWithin(x, 1, 0x22*ofTwo)
	put(to, 0, x)
}

// swapPairs packs the pairs of bits of 16 consecutive inputs: pair 4·g + i of a word of the file
// becomes pair 4·i + g, and the reverse.
func swapPairs(x uint64) uint64 {
	x = swapWithin(x, 6, 0xcc00cc*(1<<32|1))
	return swapWithin(x, 12, 0xf0f0*(1<<32|1))
}
