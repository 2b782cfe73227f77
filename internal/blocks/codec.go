package blocks

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-1415985d/attn/internal/f32"
)

// fileWord is four bytes of a file's block, the first of them the lowest.
func fileWord(x []byte, i int) uint32 { return binary.LittleEndian.Uint32(x[4*i:]) }

// packedWord is word i of output c.
func packedWord(x []byte, i, c int) uint32 { return fileWord(x, Outputs*i+c) }

// maxNVFP4 is the largest scale of NVFP4 that is a number.
const maxNVFP4 = 0x7e

// scaleQ3 is scale i of Q3_K, of 6 bits: the halves of 8 bytes, and two bits of 4 more.
func scaleQ3(s []byte, i int) byte { return s[i%8]>>(i/8*4)&15 | s[8+i%4]>>(i/4*2)&3<<4 }

// scaleXS is scale i of IQ4_XS: two bits of 16, and the halves of 4 bytes.
func scaleXS(s []byte, i int) byte {
	return s[2+i/2]>>(i%2*4)&15 | byte(binary.LittleEndian.Uint16(s)>>(2*i)&3<<4)
}

// finiteF16 reports whether a number in F16 is neither NaN nor infinite.
func finiteF16(x uint16) bool { return x&0x7c00 != 0x7c00 }

// maxMXFP4 is the largest exponent of MXFP4 with which all weights are finite.
const maxMXFP4 = 252

// scaleMXFP4 is 2^(e−128) in BF16, of which the two smallest are subnormal.
func scaleMXFP4(e byte) uint16 {
	if e < 2 {
		return 0x20 << e
	}
	return uint16(e-1) << 7
}

// Restore is the block of a file that Pack brought to the place of output c.
func Restore(t Type, block, packed []byte, c int) {
	of := t.Traits()
	clear(block)
	for i := range scalings[of.Scaling].halves {
		d := packed[2*(Outputs*i+c):][:2]
		if t == MXFP4 {
			block[0] = exponentMXFP4(binary.LittleEndian.Uint16(d))
			break
		}
		copy(block[of.D+2*i:], d)
	}
	packed = packed[of.Header():]
	switch t {
	case Q8_0:
		fileWords(block[2:], packed, c)
	case TQ1_0:
		fileWords(block[:of.D], packed, c)
		for i := range block[:of.D] {
			block[i] ^= 0x80
		}
	case Q4_0, IQ4_NL:
		fileNibbles(block[2:], packed, c)
	case MXFP4:
		fileNibbles(block[1:], packed, c)
	case Q4_1:
		fileNibbles(block[4:], packed, c)
	case Q5_0:
		fileFiveBits(block[2:], packed, c)
	case Q5_1:
		fileFiveBits(block[4:], packed, c)
	case NVFP4:
		fileSixteenths(block, packed, c)
	case Q4_K, Q5_K:
		fileMinima(t, block[4:], packed, c)
	default:
		for i := range of.Inputs / Inputs {
			filePart(t, block, packed[i*of.Part():], c, i)
		}
	}
}

// filePart is the opposite of packPart. Bits come to those that are there.
func filePart(t Type, block, part []byte, c, i int) {
	words := part[t.Traits().Scales():]
	switch t {
	case Q6_K:
		fileSixBits(block, part, c, i)
	case Q2_K:
		block[2*i], block[2*i+1] = part[c], part[Outputs+c]
		filePairs(block[16+i/4*32:], words, c, i%4)
	case Q3_K:
		for h := range 2 {
			at, scale := 2*i+h, (part[h*Outputs+c]+32)&63
			block[96+at%8] |= scale & 15 << (at / 8 * 4)
			block[104+at%4] |= scale >> 4 << (at / 4 * 2)
		}
		filePairs(block[32+i/4*32:], words, c, i%4)
		fileBits(block, words[8*Outputs:], c, i)
	case IQ4_XS:
		scale := (part[c] + 32) & 63
		block[4+i/2] |= scale & 15 << (i % 2 * 4)
		block[2+i/4] |= scale >> 4 << (i % 4 * 2)
		fileNibbles(block[8+16*i:], words, c)
	case TQ2_0:
		filePairs(block[i/4*32:], words, c, i%4)
	}
}

// Bits of each of the four bytes of a word.
const (
	eachByte  = 0x01010101
	lowNibble = 0x0f * eachByte
)

// exponentMXFP4 is the opposite of scaleMXFP4.
func exponentMXFP4(x uint16) byte {
	if x < scaleMXFP4(2) {
		return byte(x >> 6)
	}
	return byte(x>>7) + 1
}

// fileWords is the opposite of packWords.
func fileWords(to, packed []byte, c int) {
	for i := range len(to) / 4 {
		binary.LittleEndian.PutUint32(to[4*i:], packedWord(packed, i, c))
	}
}

// fileNibbles is the opposite of packNibbles.
func fileNibbles(to, packed []byte, c int) {
	for i := range 4 {
		binary.LittleEndian.PutUint32(to[4*i:], packedWord(packed, i, c))
	}
}

// orWord puts bits into a word.
func orWord(to []byte, i int, x uint32) {
	binary.LittleEndian.PutUint32(to[4*i:], fileWord(to, i)|x)
}

// fileMinima is the opposite of packMinima.
func fileMinima(t Type, to, packed []byte, c int) {
	size := 12 + 128
	if t == Q5_K {
		size += 32
	}
	to = to[:size]
	clear(to)
	for i := range 8 {
		part := packed[i*t.Traits().Part():]
		scale, least := part[c], part[Outputs+c]
		if i < 4 {
			to[i], to[4+i] = to[i]|scale&63, to[4+i]|least&63
		} else {
			to[i-4], to[i] = to[i-4]|scale>>4<<6, to[i]|least>>4<<6
			to[4+i] = scale&15 | least<<4
		}
		part = part[PartScales:]
		nibbles, shift := to[size-128+i/2*32:], i%2*4
		for g := range 4 {
			x := packedWord(part, g, c)
			orWord(nibbles, g, x&lowNibble<<shift)
			orWord(nibbles, 4+g, x>>4&lowNibble<<shift)
		}
		if t == Q5_K {
			fileBits(to[12:], part[BitsAt:], c, i)
		}
	}
}

// fileBits is the opposite of packBits.
func fileBits(to, packed []byte, c, bit int) {
	for g := range 8 {
		orWord(to, g, packedWord(packed, 0, c)>>g&eachByte<<bit)
	}
}

// filePairs is the opposite of packPairs.
func filePairs(to, packed []byte, c, pair int) {
	for h := range 2 {
		x := packedWord(packed, h, c)
		for g := range 4 {
			orWord(to, 4*h+g, x>>(2*g)&(3*eachByte)<<(2*pair))
		}
	}
}

// fileFiveBits is the opposite of packFiveBits.
func fileFiveBits(to, packed []byte, c int) {
	bits := packedWord(packed[BitsAt:], 0, c)
	for g := range 8 {
		n := bits >> g & eachByte
		orWord(to, 0, (n|n>>7|n>>14|n>>21)&15<<(4*g))
	}
	fileNibbles(to[4:], packed, c)
}

// fileSixteenths is the opposite of packSixteenths.
func fileSixteenths(block, packed []byte, c int) {
	for i := range 2 {
		part := packed[i*NVFP4.Traits().Part():]
		block[2*i], block[2*i+1] = part[c], part[Outputs+c]
		fileNibbles(block[4+16*i:], part[PartScales:], c)
	}
}

// fileSixBits is the opposite of packSixBits. Bits come to those that are there.
func fileSixBits(block, part []byte, c, i int) {
	half, k := i/4, i%4
	block[192+2*i], block[192+2*i+1] = part[c], part[Outputs+c]
	part = part[PartScales:]
	to, shift := block[half*64+k%2*32:], k/2*4
	for g := range 4 {
		x := packedWord(part, g, c)
		orWord(to, g, x&lowNibble<<shift)
		orWord(to, 4+g, x>>4&lowNibble<<shift)
	}
	filePairs(block[128+half*32:], part[BitsAt:], c, k)
}

// FaultOfScale says which scale of a file's block is wrong. It is empty if none is.
func FaultOfScale(t Type, block []byte) string {
	of := t.Traits()
	switch t {
	case MXFP4:
		if e := block[0]; e > maxMXFP4 {
			return fmt.Sprintf("the exponent of the scale is %d, want 0 to %d", e, maxMXFP4)
		}
		return ""
	case NVFP4:
		for i, e := range block[:4] {
			if e > maxNVFP4 {
				return fmt.Sprintf("the byte of scale %d is %#02x, want 0x00 to %#02x", i, e, maxNVFP4)
			}
		}
		return ""
	}
	for i := range scalings[of.Scaling].halves {
		if x := binary.LittleEndian.Uint16(block[of.D+2*i:]); !finiteF16(x) {
			return fmt.Sprintf("the scale %s is %v, want a finite number", of.nameOfHalf(i),
				f32.FromF16(x))
		}
	}
	return ""
}

// nameOfHalf is what a half of a block is called.
func (of *Traits) nameOfHalf(i int) string {
	switch {
	case i == 0:
		return "d"
	case of.Scaling == Offset:
		return "m"
	}
	return "dmin"
}

// FaultOfPacked says what in a packed block of some outputs no block becomes: it is unpacked, and
// packed again.
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
