// Package blocks is weights in blocks, as GGUF files have them: which types there are, how a block
// of a file becomes part of a packed block of 16 outputs, and how it is found there again.
//
// Panels of 16 outputs follow each other, and in a panel its blocks in the order of their inputs:
// whoever multiplies reads one stream. A packed block is the blocks of 16 outputs, first their
// scales, then their bytes in words of four: word i of output c is at 4·(16·i + c), so four
// consecutive inputs lie together, as in groups of I8. All numbers are little-endian.
//
//	Q8_0           d as float32; words
//	Q4_0, IQ4_NL   d as F16; words, whose lower halves are inputs 0 to 15 and upper ones 16 to 31
//	MXFP4          d = 2^(e−128) as BF16; words likewise
//	Q4_K           d and dmin as F16; for each 32 inputs 16 scales, 16 minima; words as in the file
//	Q5_K           likewise, with the words of the fifth bits before the others
//	Q6_K           d as float32; for each 32 inputs 16 scales of the first half and of the second;
//	               words of the lower four bits, then those of the upper two
package blocks

const (
	Outputs  = 16           // of a packed block
	Inputs   = 32           // that have a scale
	ScalesAt = 4 * Outputs  // where the scales of packed blocks of 256 inputs begin
	WordsAt  = 20 * Outputs // and where their words do
)
