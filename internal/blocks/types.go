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
	Q4_1
	Q5_0
	Q5_1
	Q2_K
	Q3_K
	IQ4_XS
	NVFP4
	TQ1_0
	TQ2_0
)

// Codes is how the integers of weights lie in words.
type Codes int

const (
	EightBits Codes = iota
	FourBits
	FiveBits
	SixBits
	TwoBits
	ThreeBits
	Trits // five in a byte, as powers of 3
)

// wordsOf is how many words of an output 32 inputs have; of Trits it is those of 256.
var wordsOf = [...]int{EightBits: 8, FourBits: 4, FiveBits: 5, SixBits: 6, TwoBits: 2, ThreeBits: 3,
	Trits: tritWords}

const tritWords = 13

// Scaling is what numbers a packed block has beside its codes: d of all inputs, which are halves,
// and of each 32 scales in bytes.
type Scaling int

const (
	One    Scaling = iota // d
	Offset                // d and m, which is added
	Scaled                // d, and scales with sign
	Minima                // d and dmin; scales and minima
	Halves                // d, and scales with sign of each 16 inputs
	Pairs                 // d and dmin; for each 16 inputs a scale below a minimum, of 4 bits each
	Floats                // nothing; for each 16 inputs d itself, a number of 8 bits
)

// scalings has the halves of all inputs and the bytes of 32, for an output.
var scalings = [...]struct{ halves, bytes int }{One: {1, 0}, Offset: {2, 0}, Scaled: {1, 1},
	Minima: {2, 2}, Halves: {1, 2}, Pairs: {2, 2}, Floats: {0, 2}}

// Traits is what differs between types.
type Traits struct {
	Name    string
	Inputs  int // of a block
	Bytes   int // of a block in a file
	D       int // where d is in it, which dmin or m follow
	Codes   Codes
	Scaling Scaling
	Packed  int // of a block of each of 16 outputs in memory; 0 of numbers that lie alone
}

// types is in the order of the constants.
var types = [...]Traits{
	Q8_0:   {"Q8_0", 32, 34, 0, EightBits, One, 544},
	Q4_0:   {"Q4_0", 32, 18, 0, FourBits, One, 288},
	IQ4_NL: {"IQ4_NL", 32, 18, 0, FourBits, One, 288},
	Q4_K:   {"Q4_K", 256, 144, 0, FourBits, Minima, 2368},
	Q5_K:   {"Q5_K", 256, 176, 0, FiveBits, Minima, 2880},
	Q6_K:   {"Q6_K", 256, 210, 208, SixBits, Halves, 3360},
	MXFP4:  {"MXFP4", 32, 17, 0, FourBits, One, 288},
	F16:    {Name: "BlockF16", Inputs: 1, Bytes: 2},
	BF16:   {Name: "BlockBF16", Inputs: 1, Bytes: 2},
	Q4_1:   {"Q4_1", 32, 20, 0, FourBits, Offset, 320},
	Q5_0:   {"Q5_0", 32, 22, 0, FiveBits, One, 352},
	Q5_1:   {"Q5_1", 32, 24, 0, FiveBits, Offset, 384},
	Q2_K:   {"Q2_K", 256, 84, 80, TwoBits, Pairs, 1344},
	Q3_K:   {"Q3_K", 256, 110, 108, ThreeBits, Halves, 1824},
	IQ4_XS: {"IQ4_XS", 256, 136, 0, FourBits, Scaled, 2208},
	NVFP4:  {"NVFP4", 64, 36, 0, FourBits, Floats, 576},
	TQ1_0:  {"TQ1_0", 256, 54, 52, Trits, One, 864},
	TQ2_0:  {"TQ2_0", 256, 66, 64, TwoBits, One, 1056},
}

// Sizes of the largest blocks, those of Q6_K.
const (
	maxPacked = 3360
	maxBytes  = 210
)

// Traits is the row of a type that exists.
func (t Type) Traits() *Traits { return &types[t] }

// Header is the bytes of the halves of all inputs, which a packed block begins with.
func (of *Traits) Header() int { return 2 * Outputs * scalings[of.Scaling].halves }

// Scales is the bytes of scales of each 32 inputs, before their words.
func (of *Traits) Scales() int { return Outputs * scalings[of.Scaling].bytes }

// Part is the bytes of each 32 inputs of a packed block, which follow the header. Trits of all
// inputs lie together.
func (of *Traits) Part() int {
	if of.Codes == Trits {
		return 0
	}
	return of.Scales() + 4*Outputs*wordsOf[of.Codes]
}

// HasMinima reports whether there is something to take off, or to add, beside scales.
func (of *Traits) HasMinima() bool { return scalings[of.Scaling].halves == 2 }

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
