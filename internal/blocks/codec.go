package blocks

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-1415985d/attn/internal/f32"
)

// fileWord returns four bytes of a file's block, little-endian.
func fileWord(x []byte, i int) uint32 { return binary.LittleEndian.Uint32(x[4*i:]) }

// packedWord returns word i of output c.
func packedWord(x []byte, i, c int) uint32 { return fileWord(x, Outputs*i+c) }

// maxFloat is the largest scale of Floats that is a non-negative number.
const maxFloat = 0x7e

// areFloats reports whether the scales of 64 inputs are non-negative numbers.
func areFloats(s []byte) bool { return max(s[0], s[1], s[2], s[3]) <= maxFloat }

// scaleQ3 returns scale i of Q3_K, of 6 bits: a half of one of 8 bytes, and two bits of one of 4
// more.
func scaleQ3(s []byte, i int) byte { return s[i%8]>>(i/8*4)&15 | s[8+i%4]>>(i/4*2)&3<<4 }

// scaleXS returns scale i of IQ4_XS: two of 16 bits, and a half of one of 4 bytes.
func scaleXS(s []byte, i int) byte {
	return s[2+i/2]>>(i%2*4)&15 | byte(binary.LittleEndian.Uint16(s)>>(2*i)&3<<4)
}

// finiteF16 reports whether a number in F16 is neither NaN nor infinite.
func finiteF16(x uint16) bool { return x&0x7c00 != 0x7c00 }

// maxExponent is the largest exponent of a power of 2 with which all weights are finite.
const maxExponent = 252

// powerOf2 returns 2^(e−128) in BF16; the two smallest are subnormal.
func powerOf2(e byte) uint16 {
	if e < 2 {
		return 0x20 << e
	}
	return uint16(e-1) << 7
}

// Restore returns the block of a file that Pack packed to the place of output c.
func Restore(t Type, block, packed []byte, c int) {
	of := t.Traits()
	clear(block)
	for i := range scalings[of.Scaling].halves {
		d := packed[2*(Outputs*i+c):][:2]
		if of.Codes == Indices {
			of.fileD(block, binary.LittleEndian.Uint16(d))
			break
		}
		if of.PowerOf2 {
			block[of.At.D] = exponentOf(binary.LittleEndian.Uint16(d))
			break
		}
		copy(block[of.At.D+2*i:], d)
	}
	packed = packed[of.Header():]
	for i := range of.parts() {
		part := packed[i*of.Part():]
		if of.Codes == Indices {
			var x indices
			of.Form().packedIndices(&x, part, c)
			of.fileIndices(block, &x, i)
			continue
		}
		if of.Scales() > 0 {
			of.fileScales(block[of.At.Scales:], part, c, i)
		}
		of.fileCodes(block, part[of.Scales():], c, i)
	}
}

// fileScales reverses packScales. It adds bits to the block.
func (of *Traits) fileScales(to, part []byte, c, i int) {
	first := part[c]
	switch {
	case of.Scaling == Minima:
		fileMinima(to, first, part[Outputs+c], i)
	case of.Scaling == Scaled:
		first = (first + 32) & 63
		to[2+i/2] |= first & 15 << (i % 2 * 4)
		to[i/4] |= first >> 4 << (i % 4 * 2)
	case of.SixBits:
		for h := range 2 {
			at, scale := 2*i+h, (part[h*Outputs+c]+32)&63
			to[at%8] |= scale & 15 << (at / 8 * 4)
			to[8+at%4] |= scale >> 4 << (at / 4 * 2)
		}
	default:
		to[2*i], to[2*i+1] = first, part[Outputs+c]
	}
}

// fileCodes reverses two for the codes of a part. It adds bits to the block.
func (of *Traits) fileCodes(block, words []byte, c, i int) {
	codes, upper := block[of.At.Codes:], block[of.At.Upper:]
	switch of.Codes {
	case EightBits:
		fileWords(codes[:Inputs], words, c)
	case Trits:
		fileWords(codes[:4*tritWords], words, c)
		for k := range 4 * tritWords {
			codes[k] ^= 0x80
		}
	case FourBits:
		of.fileNibbles(codes, words, c, i)
	case FiveBits:
		of.fileNibbles(codes, words, c, i)
		if of.Shared {
			fileBits(upper, words[BitsAt:], c, i)
		} else {
			fileFifths(upper, words[BitsAt:], c)
		}
	case SixBits:
		half, k := i/4, i%4
		joinNibbles(codes[half*64+k%2*32:], words, c, k/2*4)
		filePairs(upper[half*32:], words[BitsAt:], c, k)
	case OneBit:
		fileFifths(codes[4*i:], words, c)
	case TwoBits:
		if of.InOrder {
			for h := range 2 {
				orWord(codes, 2*i+h, uint32(swapPairs(uint64(packedWord(words, h, c)))))
			}
			break
		}
		filePairs(codes[i/4*32:], words, c, i%4)
	case ThreeBits:
		filePairs(codes[i/4*32:], words, c, i%4)
		fileBits(upper, words[2*4*Outputs:], c, i)
	}
}

// Masks of bits in each of the four bytes of a word.
const (
	eachByte  = 0x01010101
	lowNibble = 0x0f * eachByte
)

// exponentOf reverses powerOf2.
func exponentOf(x uint16) byte {
	if x < powerOf2(2) {
		return byte(x >> 6)
	}
	return byte(x>>7) + 1
}

// fileWords reverses packWords.
func fileWords(to, packed []byte, c int) {
	for i := range len(to) / 4 {
		binary.LittleEndian.PutUint32(to[4*i:], packedWord(packed, i, c))
	}
}

// fileNibbles reverses packNibbles for a part.
func (of *Traits) fileNibbles(to, packed []byte, c, i int) {
	if of.Shared {
		joinNibbles(to[i/2*32:], packed, c, i%2*4)
		return
	}
	fileWords(to[16*i:][:16], packed, c)
}

// joinNibbles puts the nibbles of a part into the lower halves of 32 bytes, or into the upper ones.
func joinNibbles(to, packed []byte, c, shift int) {
	for g := range 4 {
		x := packedWord(packed, g, c)
		orWord(to, g, x&lowNibble<<shift)
		orWord(to, 4+g, x>>4&lowNibble<<shift)
	}
}

// orWord puts bits into a word.
func orWord(to []byte, i int, x uint32) {
	binary.LittleEndian.PutUint32(to[4*i:], fileWord(to, i)|x)
}

// fileMinima reverses minimaOf for a part.
func fileMinima(to []byte, scale, least byte, i int) {
	if i < 4 {
		to[i], to[4+i] = to[i]|scale&63, to[4+i]|least&63
		return
	}
	to[i-4], to[i] = to[i-4]|scale>>4<<6, to[i]|least>>4<<6
	to[4+i] = scale&15 | least<<4
}

// fileBits reverses packBits.
func fileBits(to, packed []byte, c, bit int) {
	for g := range 8 {
		orWord(to, g, packedWord(packed, 0, c)>>g&eachByte<<bit)
	}
}

// filePairs reverses packPairs.
func filePairs(to, packed []byte, c, pair int) {
	for h := range 2 {
		x := packedWord(packed, h, c)
		for g := range 4 {
			orWord(to, 4*h+g, x>>(2*g)&(3*eachByte)<<(2*pair))
		}
	}
}

// fileFifths reverses packFifths.
func fileFifths(to, packed []byte, c int) {
	bits := packedWord(packed, 0, c)
	for g := range 8 {
		n := bits >> g & eachByte
		orWord(to, 0, (n|n>>7|n>>14|n>>21)&15<<(4*g))
	}
}

// FaultOfScale says which scale of a file's block is wrong, or returns "".
func FaultOfScale(t Type, block []byte) string {
	of := t.Traits()
	if of.PowerOf2 {
		if e := block[of.At.D]; e > maxExponent {
			return fmt.Sprintf("the exponent of the scale is %d, want 0 to %d", e, maxExponent)
		}
		return ""
	}
	if of.Scaling == Floats {
		for i, e := range block[of.At.Scales:][:of.Inputs/16] {
			if e > maxFloat {
				return fmt.Sprintf("the byte of scale %d is %#02x, want 0x00 to %#02x", i, e, maxFloat)
			}
		}
		return ""
	}
	if of.Codes == Indices {
		if d := of.dOf(block); !finiteF16(d) {
			return fmt.Sprintf("the scale d is %v, want a finite number", f32.FromF16(d))
		}
		return ""
	}
	for i := range scalings[of.Scaling].halves {
		if x := binary.LittleEndian.Uint16(block[of.At.D+2*i:]); !finiteF16(x) {
			return fmt.Sprintf("the scale %s is %v, want a finite number", of.nameOfHalf(i),
				f32.FromF16(x))
		}
	}
	return ""
}

// nameOfHalf returns the name of a half of a block.
func (of *Traits) nameOfHalf(i int) string {
	switch {
	case i == 0:
		return "d"
	case of.Scaling == Offset:
		return "m"
	}
	return "dmin"
}

// FaultOfPacked says what in a packed block of some outputs cannot come from Pack: it unpacks the
// block, and packs it again.
func FaultOfPacked(t Type, packed []byte, outputs int) string {
	var memory [maxPacked]byte
	var file [Outputs * maxBytes]byte
	of := t.Traits()
	again := memory[:of.Packed]
	for c := range outputs {
		Restore(t, file[c*of.Bytes:][:of.Bytes], packed, c)
	}
	if !Pack(t, again, file[:outputs*of.Bytes], outputs) {
		for c := range outputs {
			if fault := FaultOfScale(t, file[c*of.Bytes:][:of.Bytes]); fault != "" {
				return fault
			}
		}
	}
	for i, e := range packed {
		if e != again[i] {
			return fmt.Sprintf("byte %d is %d, want %d", i, e, again[i])
		}
	}
	return ""
}
