package blocks

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Pack brings a block of a file to the place of output c in a packed block of 16. It is not ok if
// its scales are not finite.
func Pack(t Type, to []byte, c int, from []byte) (ok bool) {
	switch t {
	case Q8_0:
		spreadWords(to[4*Outputs:], c, from[2:])
		return putScale(to, c, from)
	case Q4_0, IQ4_NL:
		spreadWords(to[2*Outputs:], c, from[2:])
		copy(to[2*c:], from[:2])
		return finiteF16(from)
	case MXFP4:
		spreadWords(to[2*Outputs:], c, from[1:])
		binary.LittleEndian.PutUint16(to[2*c:], scaleMXFP4(from[0]))
		return from[0] <= maxMXFP4
	case Q4_K, Q5_K:
		copy(to[2*c:], from[:2])
		copy(to[2*Outputs+2*c:], from[2:4])
		packMinima(to[ScalesAt+c:], from[4:])
		spreadWords(to[WordsAt:], c, from[16:])
		return finiteF16(from) && finiteF16(from[2:])
	}
	for i, e := range from[192:208] {
		to[ScalesAt+i*Outputs+c] = e
	}
	spreadWords(to[WordsAt:], c, from[:192])
	return putScale(to, c, from[208:])
}

// spreadWords puts words of four bytes where those of output c are.
func spreadWords(to []byte, c int, from []byte) {
	to = to[4*c:]
	for len(from) >= 4 {
		*(*[4]byte)(to) = [4]byte(from)
		if from = from[4:]; len(from) >= 4 {
			to = to[4*Outputs:]
		}
	}
}

// putScale makes a scale in F16 the float32 of output c.
func putScale(to []byte, c int, from []byte) (ok bool) {
	d := f32.FromF16(binary.LittleEndian.Uint16(from))
	binary.LittleEndian.PutUint32(to[4*c:], math.Float32bits(d))
	return finiteF16(from)
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

// packMinima unpacks the scales and minima of 6 bits of 8 blocks, each a byte of an output.
func packMinima(to, x []byte) {
	for i := range 8 {
		scale, least := x[i%4]&63, x[4+i%4]&63
		if i >= 4 {
			scale = x[4+i]&15 | x[i-4]>>6<<4
			least = x[4+i]>>4 | x[i]>>6<<4
		}
		to[2*i*Outputs], to[(2*i+1)*Outputs] = scale, least
	}
}

// Restore is the block of a file that Pack brought to the place of output c.
func Restore(t Type, block, packed []byte, c int) {
	d := func() uint16 {
		d := math.Float32frombits(binary.LittleEndian.Uint32(packed[4*c:]))
		return f32.ToF16(d)
	}
	switch t {
	case Q8_0:
		gatherWords(block[2:], c, packed[4*Outputs:])
		binary.LittleEndian.PutUint16(block, d())
	case Q4_0, IQ4_NL:
		copy(block, packed[2*c:][:2])
		gatherWords(block[2:], c, packed[2*Outputs:])
	case MXFP4:
		x := binary.LittleEndian.Uint16(packed[2*c:])
		block[0] = byte(x>>7) + 1
		if x < scaleMXFP4(2) {
			block[0] = byte(x >> 6)
		}
		gatherWords(block[1:], c, packed[2*Outputs:])
	case Q4_K, Q5_K:
		copy(block, packed[2*c:][:2])
		copy(block[2:], packed[2*Outputs+2*c:][:2])
		fileMinima(block[4:], packed[ScalesAt+c:])
		gatherWords(block[16:], c, packed[WordsAt:])
	case Q6_K:
		gatherWords(block[:192], c, packed[WordsAt:])
		for i := range 16 {
			block[192+i] = packed[ScalesAt+i*Outputs+c]
		}
		binary.LittleEndian.PutUint16(block[208:], d())
	}
}

// gatherWords is the opposite of spreadWords.
func gatherWords(to []byte, c int, from []byte) {
	for i := range len(to) / 4 {
		copy(to[4*i:], from[4*Outputs*i+4*c:][:4])
	}
}

// fileMinima is the opposite of packMinima.
func fileMinima(to, x []byte) {
	for i := range 4 {
		scale, least := x[2*i*Outputs], x[(2*i+1)*Outputs]
		upperScale, upperLeast := x[2*(i+4)*Outputs], x[(2*(i+4)+1)*Outputs]
		to[i] = scale&63 | upperScale>>4<<6
		to[4+i] = least&63 | upperLeast>>4<<6
		to[8+i] = upperScale&15 | upperLeast<<4
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
