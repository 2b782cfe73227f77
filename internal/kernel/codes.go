package kernel

import (
	"encoding/binary"
	"math"
)

// LevelBounds are where a magnitude, in scales, is rounded to the next level.
var LevelBounds = [7]float32{10.5, 22, 34, 47, 61.5, 79, 103}

// levelSign is the bit of a code that marks a negative level.
const levelSign = 8

// CodeOf is the code of the level of t, a number in scales.
func CodeOf(t float32) (code byte) {
	bits := math.Float32bits(t)
	for _, bound := range LevelBounds {
		if math.Float32frombits(bits&^(1<<31)) >= bound {
			code++
		}
	}
	return code | byte(bits>>31)*levelSign
}

// FoldCodes packs codes, in whole groups of eight, two to a byte: in a group, the lower half of
// byte i is code i, the upper half code 4 + i.
func FoldCodes(dst, codes []byte) {
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(codes[i:])
		binary.LittleEndian.PutUint32(dst[i/2:], uint32(x)|uint32(x>>32)<<4)
	}
}

// PutCodes writes codes to the lower halves of bytes, or to the upper ones, whole groups of eight.
// The other halves stay.
func PutCodes(dst, codes []byte, upper bool) {
	keep, shift := uint64(0xf0f0f0f0f0f0f0f0), 0
	if upper {
		keep, shift = ^keep, 4
	}
	for i := 0; i < len(codes); i += 8 {
		x := binary.LittleEndian.Uint64(dst[i:])&keep | binary.LittleEndian.Uint64(codes[i:])<<shift
		binary.LittleEndian.PutUint64(dst[i:], x)
	}
}

// SetCode sets code i of x.
func SetCode(x []byte, i int, code byte) {
	x[i/2] = x[i/2]&^(15<<(i%2*4)) | code<<(i%2*4)
}

// Levels are the integers of the codes of I4: the sign is the highest bit. They are the Lloyd-Max
// points of normal data scaled by their maximum.
var Levels = [16]int8{5, 16, 28, 40, 54, 69, 89, 117, -5, -16, -28, -40, -54, -69, -89, -117}

// CodeAt is code i of x: the lower half of byte i/2 if i is even, else the upper half.
func CodeAt(x []byte, i int) byte { return x[i/2] >> (i % 2 * 4) & 15 }
