// Package blocks handles weights in blocks of GGUF files: their types, packing blocks of a file
// into packed blocks of 16 outputs, the reverse, and decoding. A type is a row of the table types;
// package gguf has the names in files.
//
// Panels of 16 outputs are consecutive, and so are a panel's blocks, in the order of their inputs,
// so that a product reads one stream. A packed block is the blocks of 16 outputs: a header of 16
// numbers, or of 32, and then the same bytes for each 32 inputs, scales before codes. All numbers
// are little-endian. [Scaling] says what the header and the scales are:
//
//	One      d as F16, or as BF16 of types whose d is a power of 2
//	Offset   d and m as F16
//	Scaled   d as F16; 16 scales
//	Minima   d and dmin as F16; 16 scales, 16 minima
//	Halves   d as F16; 16 scales of the first half of the inputs and 16 of the second
//	Pairs    d and dmin as F16; 16 bytes of each half, each a scale below a minimum
//	Floats   16 scales of each half
//	Single   d as F16; the scale lies with the codes
//	Odd      d as F16; the scales of both halves lie with the codes
//
// Scales are the factors of d, without an offset. Codes are words of four bytes; word i of output c
// is at 4·(16·i + c), so four consecutive inputs are adjacent, as in groups of I8. [Codes] says
// how:
//
//	EightBits  8 words
//	FourBits   4 words of nibbles, lower ones of inputs 0 to 15, upper ones of 16 to 31; with Floats
//	           two words for each half, lower ones of its inputs 0 to 7
//	FiveBits   likewise, and after them a word: bit g of byte i is the fifth bit of input 4·g + i
//	SixBits    the nibbles of the lower four bits, and two words: bits 2·g and 2·g + 1 of byte i are
//	           the upper ones of input 4·g + i, in the second word of 16 + 4·g + i
//	TwoBits    two words of pairs of bits, as in SixBits
//	ThreeBits  likewise, and a word of third bits, as of fifth ones
//	OneBit     a word of bits, as of fifth ones
//	Indices    see [BookForm]
//	Trits      for all 256 inputs the file's bytes with 128 added, in 13 words
package blocks

const (
	Outputs = 16           // of a packed block
	Inputs  = 32           // inputs with the same scale
	BitsAt  = 16 * Outputs // bytes of the nibbles of 32 inputs, before words of upper bits
)
