package blocks

import (
	"encoding/binary"
	"fmt"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Pack brings a block of a file to the place of output c in a packed block of 16. It is not ok
// if its scales are not finite.
func Pack(t Type, to []byte, c int, from []byte) (ok bool) {
	part := to[t.Header():]
	switch t {
	case Q8_0:
		for g := range Inputs / 4 {
			putWord(part, g, c, fileWord(from[2:], g))
		}
	case Q4_0, IQ4_NL:
		packNibbles(part, c, from[2:])
	case MXFP4:
		packNibbles(part, c, from[1:])
		binary.LittleEndian.PutUint16(to[2*c:], scaleMXFP4(from[0]))
		return from[0] <= maxMXFP4
	case Q4_K, Q5_K:
		copy(to[2*c:], from[:2])
		copy(to[2*Outputs+2*c:], from[2:4])
		packMinima(t, part, c, from[4:])
		return finiteF16(from) && finiteF16(from[2:])
	case Q6_K:
		for i := range 8 {
			packSixBits(part[i*t.Part():], c, from, i)
		}
		from = from[208:]
	}
	copy(to[2*c:], from[:2])
	return finiteF16(from)
}

// fileWord is four bytes of a file's block, the first of them the lowest.
func fileWord(x []byte, i int) uint32 { return binary.LittleEndian.Uint32(x[4*i:]) }

// putWord puts word i of output c.
func putWord(to []byte, i, c int, x uint32) {
	binary.LittleEndian.PutUint32(to[4*(Outputs*i+c):], x)
}

// packedWord is word i of output c.
func packedWord(x []byte, i, c int) uint32 { return fileWord(x, Outputs*i+c) }

// packNibbles puts nibbles of 32 inputs that lie in the file as in memory.
func packNibbles(to []byte, c int, from []byte) {
	for i := range 4 {
		putWord(to, i, c, fileWord(from, i))
	}
}

// Bits of each of the four bytes of a word.
const (
	eachByte  = 0x01010101
	lowNibble = 0x0f * eachByte
)

// packMinima packs what follows d and dmin: for each 32 inputs a scale and a minimum of 6 bits, the
// fifth bits of Q5_K, and nibbles of which lower ones belong to 32 inputs, upper ones to the next.
func packMinima(t Type, to []byte, c int, x []byte) {
	nibbles, fifth := x[12:], x[12:]
	if t == Q5_K {
		nibbles = nibbles[32:]
	}
	for i := range 8 {
		scale, least := x[i%4]&63, x[4+i%4]&63
		if i >= 4 {
			scale = x[4+i]&15 | x[i-4]>>6<<4
			least = x[4+i]>>4 | x[i]>>6<<4
		}
		part := to[i*t.Part():]
		part[c], part[Outputs+c] = scale, least
		part = part[PartScales:]
		from, shift := nibbles[i/2*32:], i%2*4
		for g := range 4 {
			putWord(part, g, c, fileWord(from, g)>>shift&lowNibble|fileWord(from, 4+g)>>shift&lowNibble<<4)
		}
		if t == Q5_K {
			bits := uint32(0)
			for g := range 8 {
				bits |= fileWord(fifth, g) >> i & eachByte << g
			}
			putWord(part[BitsAt:], 0, c, bits)
		}
	}
}

// packSixBits packs 32 inputs of a block of Q6_K: lower bits are nibbles of 64 bytes for 128
// inputs, upper ones pairs of bits of 32 bytes.
func packSixBits(to []byte, c int, x []byte, i int) {
	half, k := i/4, i%4
	to[c], to[Outputs+c] = x[192+2*i], x[192+2*i+1]
	to = to[PartScales:]
	from, shift := x[half*64+k%2*32:], k/2*4
	for g := range 4 {
		putWord(to, g, c, fileWord(from, g)>>shift&lowNibble|fileWord(from, 4+g)>>shift&lowNibble<<4)
	}
	for h := range 2 {
		bits := uint32(0)
		for g := range 4 {
			bits |= fileWord(x[128+half*32:], 4*h+g) >> (2 * k) & (3 * eachByte) << (2 * g)
		}
		putWord(to[BitsAt:], h, c, bits)
	}
}

// finiteF16 reports whether a number in F16 is neither NaN nor infinite.
func finiteF16(x []byte) bool { return x[1]&0x7c != 0x7c }

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
	part, d := packed[t.Header():], packed[2*c:][:2]
	switch t {
	case Q8_0:
		for g := range Inputs / 4 {
			binary.LittleEndian.PutUint32(block[2+4*g:], packedWord(part, g, c))
		}
	case Q4_0, IQ4_NL:
		fileNibbles(block[2:], part, c)
	case MXFP4:
		x := binary.LittleEndian.Uint16(d)
		block[0] = byte(x>>7) + 1
		if x < scaleMXFP4(2) {
			block[0] = byte(x >> 6)
		}
		fileNibbles(block[1:], part, c)
		return
	case Q4_K, Q5_K:
		copy(block[2:4], packed[2*Outputs+2*c:])
		fileMinima(t, block[4:], part, c)
	case Q6_K:
		clear(block)
		for i := range 8 {
			fileSixBits(block, part[i*t.Part():], c, i)
		}
		block = block[208:]
	}
	copy(block, d)
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
		part := packed[i*t.Part():]
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
		for g := 0; g < 8 && t == Q5_K; g++ {
			orWord(to[12:], g, packedWord(part[BitsAt:], 0, c)>>g&eachByte<<i)
		}
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
	for h := range 2 {
		x := packedWord(part[BitsAt:], h, c)
		for g := range 4 {
			orWord(block[128+half*32:], 4*h+g, x>>(2*g)&(3*eachByte)<<(2*k))
		}
	}
}

// FaultOfScale says which scale of a file's block is wrong. It is empty if none is.
func FaultOfScale(t Type, block []byte) string {
	if t == MXFP4 {
		if e := block[0]; e > maxMXFP4 {
			return fmt.Sprintf("the exponent of the scale is %d, want 0 to %d", e, maxMXFP4)
		}
		return ""
	}
	scales := block[:2]
	switch t {
	case Q4_K, Q5_K:
		scales = block[:4] // d and dmin
	case Q6_K:
		scales = block[208:]
	}
	for i, name := range []string{"d", "dmin"}[:len(scales)/2] {
		if x := scales[2*i:]; !finiteF16(x) {
			return fmt.Sprintf("the scale %s is %v, want a finite number", name,
				f32.FromF16(binary.LittleEndian.Uint16(x)))
		}
	}
	return ""
}

// FaultOfPacked says what in a packed block of some outputs no block becomes: it is unpacked, and
// packed again.
func FaultOfPacked(t Type, packed []byte, outputs int) string {
	var memory [maxPacked]byte
	var file [maxBytes]byte
	again, block := memory[:t.Traits().Packed], file[:t.Traits().Bytes]
	for c := range outputs {
		Restore(t, block, packed, c)
		if !Pack(t, again, c, block) {
			return FaultOfScale(t, block)
		}
	}
	for i, e := range packed {
		if e != again[i] {
			return fmt.Sprintf("byte %d is %d, want %d", i, e, again[i])
		}
	}
	return ""
}
