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
//	Q4_1           d and m as F16; nibbles likewise
//	Q5_0           d as F16; nibbles likewise, and after them a word for each output: bit g of byte
//	               i is the fifth bit of input 4·g + i
//	Q5_1           d and m as F16, then as Q5_0
//	MXFP4          d = 2^(e−128) as BF16; nibbles
//	NVFP4          for each 32 inputs 16 scales of the first half and of the second; words of
//	               nibbles, two for each half, lower ones of its inputs 0 to 7
//	Q4_K           d and dmin as F16; for each 32 inputs 16 scales, 16 minima, nibbles
//	Q5_K           likewise, and fifth bits as in Q5_0
//	Q6_K           d as F16; for each 32 inputs 16 scales of the first half and of the second, the
//	               nibbles of their lower four bits, and two words for each output: bits 2·g and
//	               2·g + 1 of byte i are the upper ones of input 4·g + i, in the second word of
//	               16 + 4·g + i
//	IQ4_XS         d as F16; for each 32 inputs 16 scales, less 32; nibbles
//	Q2_K           d and dmin as F16; for each 32 inputs 16 bytes of the first half and of the
//	               second, each a scale below a minimum; two words of pairs of bits as in Q6_K
//	Q3_K           d as F16; for each 32 inputs scales of both halves, less 32; pairs of bits, and a
//	               word of third bits, as fifth ones in Q5_0
//	TQ2_0          d as F16; for each 32 inputs pairs of bits
//	TQ1_0          d as F16; for all 256 inputs the file's bytes with 128 added, in words
package blocks

const (
	Outputs    = 16           // of a packed block
	Inputs     = 32           // that have a scale
	PartScales = 2 * Outputs  // bytes of the scales of each 32 of 256 inputs, before their words
	BitsAt     = 16 * Outputs // bytes of the nibbles of 32 inputs, before words of upper bits
)
