package blocks

import "fmt"

// Type is a format of weights in blocks; its values are those of the public one.
type Type int

const (
	Q8_0 Type = iota + 1
	Q4_0
	IQ4_NL
	Q4_K
	Q5_K
	Q6_K
	MXFP4
	F16
	BF16
)

// Traits is what differs between types.
type Traits struct {
	Name   string
	Inputs int // of a block
	Bytes  int // of a block in a file
	Packed int // of a block of each of 16 outputs in memory; 0 of numbers that lie alone
}

// types is in the order of the constants.
var types = [...]Traits{
	Q8_0:   {Name: "Q8_0", Inputs: 32, Bytes: 34, Packed: 544},
	Q4_0:   {Name: "Q4_0", Inputs: 32, Bytes: 18, Packed: 288},
	IQ4_NL: {Name: "IQ4_NL", Inputs: 32, Bytes: 18, Packed: 288},
	Q4_K:   {Name: "Q4_K", Inputs: 256, Bytes: 144, Packed: 2368},
	Q5_K:   {Name: "Q5_K", Inputs: 256, Bytes: 176, Packed: 2880},
	Q6_K:   {Name: "Q6_K", Inputs: 256, Bytes: 210, Packed: 3360},
	MXFP4:  {Name: "MXFP4", Inputs: 32, Bytes: 17, Packed: 288},
	F16:    {Name: "BlockF16", Inputs: 1, Bytes: 2},
	BF16:   {Name: "BlockBF16", Inputs: 1, Bytes: 2},
}

// Sizes of the largest blocks, those of Q6_K.
const (
	maxPacked = 3360
	maxBytes  = 210
)

// Traits is the row of a type that exists.
func (t Type) Traits() *Traits { return &types[t] }

// Header is the bytes of d, and of dmin, in a packed block.
func (t Type) Header() int {
	if t == Q4_K || t == Q5_K {
		return 4 * Outputs
	}
	return 2 * Outputs
}

// Part is the bytes of each 32 inputs of a packed block, which follow the header.
func (t Type) Part() int {
	of := t.Traits()
	return (of.Packed - t.Header()) / (of.Inputs / Inputs)
}

// Valid reports whether there is such a type.
func (t Type) Valid() bool { return t > 0 && int(t) < len(types) }

// Halves reports whether the type is one number a block, which matrices keep without blocks.
func (t Type) Halves() bool { return t == F16 || t == BF16 }

// String returns the name of the type.
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("BlockType(%d)", int(t))
	}
	return types[t].Name
}
