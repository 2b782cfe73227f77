// Package blocks is weights in blocks, as GGUF files have them: which types there are, how a block
// of a file becomes part of a packed block of 16 outputs, and how it is found there again.
//
// Panels of 16 outputs follow each other, and in a panel its blocks in the order of their inputs:
// whoever multiplies reads one stream. A packed block is the blocks of 16 outputs: a header of 16
// numbers, then the same bytes for each 32 inputs, of codes in words of four bytes. Word i of
// output c is at 4·(16·i + c), so four consecutive inputs lie together, as in groups of I8. All
// numbers are little-endian.
//
//	Q8_0           d as F16; words
//	Q4_0, IQ4_NL   d as F16; words of nibbles, lower ones of inputs 0 to 15, upper ones of 16 to 31
//	MXFP4          d = 2^(e−128) as BF16; nibbles likewise
//	Q4_K           d and dmin as F16; for each 32 inputs 16 scales, 16 minima, nibbles likewise
//	Q5_K           likewise, and after the nibbles a word for each output: bit g of byte i is the
//	               fifth bit of input 4·g + i
//	Q6_K           d as F16; for each 32 inputs 16 scales of the first half and of the second, the
//	               nibbles of their lower four bits, and two words for each output: bits 2·g and
//	               2·g + 1 of byte i are the upper ones of input 4·g + i, in the second word of
//	               16 + 4·g + i
package blocks

const (
	Outputs    = 16           // of a packed block
	Inputs     = 32           // that have a scale
	PartScales = 2 * Outputs  // bytes of the scales of each 32 of 256 inputs, before their words
	BitsAt     = 16 * Outputs // bytes of the nibbles of 32 inputs, before words of upper bits
)
