package attn

import "fmt"

// BlockType is a format of weights as GGUF files keep them, which [PackBlocks] takes: blocks of
// consecutive inputs of an output, with scales of their own. docs/low-precision.md says which
// products they have.
type BlockType int

const (
	// Q8_0 has blocks of 32 integers of 8 bits with one scale: 8.5 bits a weight.
	Q8_0 BlockType = iota + 1
	// Q4_0 has blocks of 32 integers of −8 to 7 with one scale: 4.5 bits a weight.
	Q4_0
	// IQ4_NL has blocks of 32 of 16 fixed levels with one scale: 4.5 bits a weight.
	IQ4_NL
	// Q4_K has blocks of 256 integers of 0 to 15, with a scale and a minimum of 6 bits for each 32:
	// 4.5 bits a weight.
	Q4_K
	// Q5_K has blocks like those of Q4_K, of integers of 0 to 31: 5.5 bits a weight.
	Q5_K
	// Q6_K has blocks of 256 integers of −32 to 31, with a scale of 8 bits for each 16: 6.6 bits a
	// weight.
	Q6_K
	// MXFP4 has blocks of 32 numbers of 4 bits with a power of 2 as their scale: 4.25 bits a weight.
	MXFP4
	// BlockF16 is one number of half precision a block.
	BlockF16
	// BlockBF16 is one number of BF16 a block.
	BlockBF16
)

// blockTypes has what the package knows of each block type.
var blockTypes = [...]blockTraits{
	Q8_0:      {name: "Q8_0", inputs: 32, bytes: 34, packed: 576},
	Q4_0:      {name: "Q4_0", inputs: 32, bytes: 18, packed: 288},
	IQ4_NL:    {name: "IQ4_NL", inputs: 32, bytes: 18, packed: 288},
	Q4_K:      {name: "Q4_K", inputs: 256, bytes: 144, packed: 2368},
	Q5_K:      {name: "Q5_K", inputs: 256, bytes: 176, packed: 2880},
	Q6_K:      {name: "Q6_K", inputs: 256, bytes: 210, packed: 3392},
	MXFP4:     {name: "MXFP4", inputs: 32, bytes: 17, packed: 288},
	BlockF16:  {name: "BlockF16", inputs: 1, bytes: 2, format: F16},
	BlockBF16: {name: "BlockBF16", inputs: 1, bytes: 2, format: BF16},
}

// blockTraits is what differs between block types.
type blockTraits struct {
	name   string
	inputs int    // of a block
	bytes  int    // of a block in a file
	packed int    // of a block of each of panel outputs in memory, see kernel_blocks.go
	format Format // of the matrix, where there are no blocks in it
}

// traits is the row of a type that exists.
func (t BlockType) traits() *blockTraits { return &blockTypes[t] }

// valid reports whether there is such a type.
func (t BlockType) valid() bool { return t > 0 && int(t) < len(blockTypes) }

// halves reports whether the type is one number a block, as matrices of a [Format] have them.
func (t BlockType) halves() bool { return t == BlockF16 || t == BlockBF16 }

// String returns the name of the type.
func (t BlockType) String() string {
	if !t.valid() {
		return fmt.Sprintf("BlockType(%d)", int(t))
	}
	return t.traits().name
}
