package attn

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
)

// Format is the number format of the elements of a cache, a store or a matrix.
// docs/low-precision.md says which to choose.
type Format int

const (
	// F32 keeps float32 values as they are.
	F32 Format = Format(kernel.F32)
	// F16 is IEEE 754 half precision: 11 significant bits, up to 65504. Values are rounded to nearest,
	// ties to even; values above 65504 may become ±Inf.
	F16 Format = Format(kernel.F16)
	// BF16 is the upper half of a float32: 8 significant bits and all of its range. Values are
	// rounded to nearest, ties to even.
	BF16 Format = Format(kernel.BF16)
	// I8 is integers of −127 to 127 with one float32 scale for each token and head, or for each
	// column of a matrix. Keys, queries and the inner dimension of matrices are rotated, see
	// docs/low-precision.md.
	I8 Format = Format(kernel.I8)
	// I4 is one of 16 levels for each element, with one float32 scale for each token and head: half
	// the memory of I8. It is for caches and stores, which rotate keys and values, see
	// docs/low-precision.md.
	I4 Format = Format(kernel.I4)
	// Blocks is returned by [Matrix.Format] for a matrix of blocks, of a [BlockType]. Nothing can be
	// packed in it.
	Blocks Format = Format(-1)
)

// String returns the name of the format.
func (f Format) String() string { return kernel.Format(f).String() }

// BlockType is a format of weights in GGUF files, for [PackBlocks]: blocks of consecutive inputs of
// an output, each block with its scales. docs/low-precision.md says which products they have.
type BlockType int

const (
	// Q8_0 has blocks of 32 integers of 8 bits with one scale: 8.5 bits a weight.
	Q8_0 BlockType = BlockType(blocks.Q8_0)
	// Q4_0 has blocks of 32 integers of −8 to 7 with one scale: 4.5 bits a weight.
	Q4_0 BlockType = BlockType(blocks.Q4_0)
	// IQ4_NL has blocks of 32 of 16 fixed levels with one scale: 4.5 bits a weight.
	IQ4_NL BlockType = BlockType(blocks.IQ4_NL)
	// Q4_K has blocks of 256 integers of 0 to 15, with a scale and a minimum of 6 bits for each 32:
	// 4.5 bits a weight.
	Q4_K BlockType = BlockType(blocks.Q4_K)
	// Q5_K has the blocks of Q4_K with integers of 0 to 31: 5.5 bits a weight.
	Q5_K BlockType = BlockType(blocks.Q5_K)
	// Q6_K has blocks of 256 integers of −32 to 31, with a scale of 8 bits for each 16: 6.6 bits a
	// weight.
	Q6_K BlockType = BlockType(blocks.Q6_K)
	// MXFP4 has blocks of 32 numbers of 4 bits with a power of 2 as their scale: 4.25 bits a weight.
	MXFP4 BlockType = BlockType(blocks.MXFP4)
	// BlockF16 is one number of half precision a block.
	BlockF16 BlockType = BlockType(blocks.F16)
	// BlockBF16 is one number of BF16 a block.
	BlockBF16 BlockType = BlockType(blocks.BF16)
	// Q4_1 has blocks of 32 integers of 0 to 15 with a scale, and a number that is added: 5 bits a
	// weight.
	Q4_1 BlockType = BlockType(blocks.Q4_1)
	// Q5_0 has blocks of 32 integers of −16 to 15 with one scale: 5.5 bits a weight.
	Q5_0 BlockType = BlockType(blocks.Q5_0)
	// Q5_1 has the blocks of Q4_1 with integers of 0 to 31: 6 bits a weight.
	Q5_1 BlockType = BlockType(blocks.Q5_1)
	// Q2_K has blocks of 256 integers of 0 to 3, with a scale and a minimum of 4 bits for each 16:
	// 2.6 bits a weight.
	Q2_K BlockType = BlockType(blocks.Q2_K)
	// Q3_K has blocks of 256 integers of −4 to 3, with a scale of 6 bits for each 16: 3.4 bits a
	// weight, 3.6 in memory.
	Q3_K BlockType = BlockType(blocks.Q3_K)
	// IQ4_XS has blocks of 256 of the levels of IQ4_NL, with a scale of 6 bits for each 32: 4.25 bits
	// a weight.
	IQ4_XS BlockType = BlockType(blocks.IQ4_XS)
	// NVFP4 has blocks of 64 numbers of 4 bits, with a scale of 8 bits for each 16: 4.5 bits a
	// weight. A second scale, which checkpoints have for a tensor, is the caller's to multiply by.
	NVFP4 BlockType = BlockType(blocks.NVFP4)
	// TQ1_0 has blocks of 256 of −1, 0 and 1 with one scale: 1.7 bits a weight.
	TQ1_0 BlockType = BlockType(blocks.TQ1_0)
	// TQ2_0 has blocks of 256 of −1 to 2 with one scale: 2.1 bits a weight.
	TQ2_0 BlockType = BlockType(blocks.TQ2_0)
	// Q1_0 has blocks of 128 of −1 and 1 with one scale: 1.125 bits a weight.
	Q1_0 BlockType = BlockType(blocks.Q1_0)
	// Q2_0 has blocks of 64 of −1 to 2 with one scale: 2.25 bits a weight.
	Q2_0 BlockType = BlockType(blocks.Q2_0)
	// IQ2_XXS has blocks of 256: the entries of a book of 256 of eight numbers of 8, 25 and 43, signs,
	// and a scale of 4 bits for each 32: 2.06 bits a weight.
	IQ2_XXS BlockType = BlockType(blocks.IQ2_XXS)
	// IQ2_XS has those blocks with a book of 512, and a scale for each 16: 2.3 bits a weight.
	IQ2_XS BlockType = BlockType(blocks.IQ2_XS)
	// IQ2_S has those blocks with a book of 1024, and a scale for each 16: 2.6 bits a weight.
	IQ2_S BlockType = BlockType(blocks.IQ2_S)
	// IQ3_XXS has blocks of 256: the entries of a book of 256 of four numbers of 4 to 62, signs, and a
	// scale of 4 bits for each 32: 3.06 bits a weight.
	IQ3_XXS BlockType = BlockType(blocks.IQ3_XXS)
	// IQ3_S has those blocks with a book of 512 of odd numbers of 1 to 15: 3.4 bits a weight, 3.6 in
	// memory.
	IQ3_S BlockType = BlockType(blocks.IQ3_S)
	// IQ1_S has blocks of 256: the entries of a book of 2048 of eight of −1, 0 and 1, moved by an
	// eighth, and a scale of 3 bits for each 32: 1.6 bits a weight.
	IQ1_S BlockType = BlockType(blocks.IQ1_S)
	// IQ1_M has those blocks with a scale for each 16: 1.75 bits a weight, 1.8 in memory.
	IQ1_M BlockType = BlockType(blocks.IQ1_M)
)

// String returns the name of the type.
func (t BlockType) String() string { return blocks.Type(t).String() }
