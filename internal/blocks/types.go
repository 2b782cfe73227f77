package blocks

import "fmt"

// Type is a format of weights in blocks, with the values of attn.BlockType.
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
	Q1_0
	Q2_0
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	IQ1_S
	IQ1_M
)

// Codes is the layout of the integers of weights in words.
type Codes int

const (
	EightBits Codes = iota
	FourBits
	FiveBits
	SixBits
	TwoBits
	ThreeBits
	Trits   // five in a byte, as powers of 3
	OneBit  // of integers 0 and 2
	Indices // of entries of a book, with the scales and signs
)

// wordsOf is the number of words of 32 inputs of an output; for Trits, of 256 inputs.
var wordsOf = [...]int{EightBits: 8, FourBits: 4, FiveBits: 5, SixBits: 6, TwoBits: 2, ThreeBits: 3,
	Trits: tritWords, OneBit: 1}

const tritWords = 13

// Scaling says which numbers a block has besides its codes: halves such as d for all inputs, and
// bytes of scales for each 32 inputs.
type Scaling int

const (
	One    Scaling = iota // d
	Offset                // d and m, which is added
	Scaled                // d, and signed scales
	Minima                // d and dmin; scales and minima
	Halves                // d, and signed scales of each 16 inputs
	Pairs                 // d and dmin; for each 16 inputs a scale below a minimum, of 4 bits each
	Floats                // no halves; for each 16 inputs d itself, a number of 8 bits
	Single                // d, and an odd scale, which lies with the codes
	Odd                   // likewise of each 16 inputs
)

// scalings has the numbers of halves for all inputs and of bytes for 32 inputs, for an output.
var scalings = [...]struct{ halves, bytes int }{One: {1, 0}, Offset: {2, 0}, Scaled: {1, 1},
	Minima: {2, 2}, Halves: {1, 2}, Pairs: {2, 2}, Floats: {0, 2}, Single: {1, 0},
	Odd: {1, 0}}

// Levels are the values of codes of four bits.
type Levels [16]int8

// Levels of the types that have them; for MXFP4 and NVFP4 they are doubled.
var (
	LevelsQ4   = Levels{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	LevelsIQ4  = Levels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	LevelsMXFP = Levels{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// Traits describes a type.
type Traits struct {
	Name    string
	Inputs  int // of a block
	Bytes   int // of a block in a file
	Packed  int // of a block of each of 16 outputs in memory; 0 if numbers are not in blocks
	Codes   Codes
	Levels  *Levels // nil if codes are integers
	Less    int8    // the number added to such integers
	Scaling Scaling
	At      Offsets // of the parts of a file's block

	PowerOf2 bool // d is the exponent of a power of 2, in a byte
	SixBits  bool // scales have six bits, two of which are stored separately
	Shared   bool // each 32 bytes of nibbles are 64 inputs, the lower nibbles the first 32
	Book     Book // of indices
	InOrder  bool // the codes of consecutive inputs share a byte, the first one's in its lowest bits
}

// Offsets are the offsets of the parts of a file's block, 0 for missing parts.
type Offsets struct {
	D      int // d, followed by dmin or m
	Scales int
	Codes  int
	Upper  int // bits of codes that are stored separately
}

// types has the order of the constants.
var types = [...]Traits{
	Q8_0: {Name: "Q8_0", Inputs: 32, Bytes: 34, Packed: 544, Codes: EightBits,
		At: Offsets{Codes: 2}},
	Q4_0: {Name: "Q4_0", Inputs: 32, Bytes: 18, Packed: 288, Codes: FourBits, Levels: &LevelsQ4,
		Less: 8, At: Offsets{Codes: 2}},
	IQ4_NL: {Name: "IQ4_NL", Inputs: 32, Bytes: 18, Packed: 288, Codes: FourBits, Levels: &LevelsIQ4,
		At: Offsets{Codes: 2}},
	Q4_K: {Name: "Q4_K", Inputs: 256, Bytes: 144, Packed: 2368, Codes: FourBits, Scaling: Minima,
		At: Offsets{Scales: 4, Codes: 16}, SixBits: true, Shared: true},
	Q5_K: {Name: "Q5_K", Inputs: 256, Bytes: 176, Packed: 2880, Codes: FiveBits, Scaling: Minima,
		At: Offsets{Scales: 4, Codes: 48, Upper: 16}, SixBits: true, Shared: true},
	Q6_K: {Name: "Q6_K", Inputs: 256, Bytes: 210, Packed: 3360, Codes: SixBits, Less: 32,
		Scaling: Halves, At: Offsets{D: 208, Scales: 192, Upper: 128}},
	MXFP4: {Name: "MXFP4", Inputs: 32, Bytes: 17, Packed: 288, Codes: FourBits, Levels: &LevelsMXFP,
		At: Offsets{Codes: 1}, PowerOf2: true},
	F16:  {Name: "BlockF16", Inputs: 1, Bytes: 2},
	BF16: {Name: "BlockBF16", Inputs: 1, Bytes: 2},
	Q4_1: {Name: "Q4_1", Inputs: 32, Bytes: 20, Packed: 320, Codes: FourBits, Scaling: Offset,
		At: Offsets{Codes: 4}},
	Q5_0: {Name: "Q5_0", Inputs: 32, Bytes: 22, Packed: 352, Codes: FiveBits, Less: 16,
		At: Offsets{Codes: 6, Upper: 2}},
	Q5_1: {Name: "Q5_1", Inputs: 32, Bytes: 24, Packed: 384, Codes: FiveBits, Scaling: Offset,
		At: Offsets{Codes: 8, Upper: 4}},
	Q2_K: {Name: "Q2_K", Inputs: 256, Bytes: 84, Packed: 1344, Codes: TwoBits, Scaling: Pairs,
		At: Offsets{D: 80, Codes: 16}},
	Q3_K: {Name: "Q3_K", Inputs: 256, Bytes: 110, Packed: 1824, Codes: ThreeBits, Less: 4,
		Scaling: Halves, At: Offsets{D: 108, Scales: 96, Codes: 32}, SixBits: true},
	IQ4_XS: {Name: "IQ4_XS", Inputs: 256, Bytes: 136, Packed: 2208, Codes: FourBits,
		Levels: &LevelsIQ4, Scaling: Scaled, At: Offsets{Scales: 2, Codes: 8}, SixBits: true},
	NVFP4: {Name: "NVFP4", Inputs: 64, Bytes: 36, Packed: 576, Codes: FourBits, Levels: &LevelsMXFP,
		Scaling: Floats, At: Offsets{Codes: 4}},
	TQ1_0: {Name: "TQ1_0", Inputs: 256, Bytes: 54, Packed: 864, Codes: Trits, Less: 1,
		At: Offsets{D: 52}},
	TQ2_0: {Name: "TQ2_0", Inputs: 256, Bytes: 66, Packed: 1056, Codes: TwoBits, Less: 1,
		At: Offsets{D: 64}},
	Q1_0: {Name: "Q1_0", Inputs: 128, Bytes: 18, Packed: 288, Codes: OneBit, Less: 1,
		At: Offsets{Codes: 2}, InOrder: true},
	Q2_0: {Name: "Q2_0", Inputs: 64, Bytes: 18, Packed: 288, Codes: TwoBits, Less: 1,
		At: Offsets{Codes: 2}, InOrder: true},
	IQ2_XXS: {Name: "IQ2_XXS", Inputs: 256, Bytes: 66, Packed: 1120, Codes: Indices, Scaling: Single,
		Book: bookOfIQ2XXS, At: Offsets{Codes: 2}},
	IQ2_XS: {Name: "IQ2_XS", Inputs: 256, Bytes: 74, Packed: 1248, Codes: Indices, Scaling: Odd,
		Book: bookOfIQ2XS, At: Offsets{Codes: 2, Scales: 66}},
	IQ2_S: {Name: "IQ2_S", Inputs: 256, Bytes: 82, Packed: 1312, Codes: Indices, Scaling: Odd,
		Book: bookOfIQ2S, At: Offsets{Codes: 2, Scales: 74, Upper: 66}},
	IQ3_XXS: {Name: "IQ3_XXS", Inputs: 256, Bytes: 98, Packed: 1632, Codes: Indices, Scaling: Single,
		Book: bookOfIQ3XXS, At: Offsets{Codes: 2, Scales: 66}},
	IQ3_S: {Name: "IQ3_S", Inputs: 256, Bytes: 110, Packed: 1760, Codes: Indices, Scaling: Single,
		Book: bookOfIQ3S, At: Offsets{Codes: 2, Scales: 106, Upper: 66}},
	IQ1_S: {Name: "IQ1_S", Inputs: 256, Bytes: 50, Packed: 800, Codes: Indices, Scaling: Single,
		Book: bookOfIQ1S, At: Offsets{Codes: 2, Upper: 34}},
	IQ1_M: {Name: "IQ1_M", Inputs: 256, Bytes: 56, Packed: 928, Codes: Indices, Scaling: Odd,
		Book: bookOfIQ1M, At: Offsets{Scales: 48, Upper: 32}},
}

// Last is the type with the largest value.
const Last = Type(len(types) - 1)

// Sizes of the largest blocks, which are Q6_K's.
const (
	maxPacked = 3360
	maxBytes  = 210
)

// Traits returns the row of a valid type.
func (t Type) Traits() *Traits { return &types[t] }

// Header returns the bytes of the halves of all inputs, with which a packed block begins.
func (of *Traits) Header() int { return 2 * Outputs * scalings[of.Scaling].halves }

// Scales returns the bytes of scales of each 32 inputs, before their words.
func (of *Traits) Scales() int {
	if of.Codes == Indices {
		return 0
	}
	return Outputs * scalings[of.Scaling].bytes
}

// Part returns the bytes of each 32 inputs of a packed block, after the header. Trits of all inputs
// are one part.
func (of *Traits) Part() int {
	if of.Codes == Trits {
		return 0
	}
	return of.Scales() + of.words()
}

// words returns the bytes of the codes of a part, or of Trits.
func (of *Traits) words() int {
	if of.Codes == Indices {
		return of.Form().Size()
	}
	return 4 * Outputs * wordsOf[of.Codes]
}

// parts returns the number of parts after the header.
func (of *Traits) parts() int {
	if of.Codes == Trits {
		return 1
	}
	return of.Inputs / Inputs
}

// HasMinima reports whether minima are subtracted, or a number is added.
func (of *Traits) HasMinima() bool { return scalings[of.Scaling].halves == 2 }

// Valid reports whether the type exists.
func (t Type) Valid() bool { return t > 0 && int(t) < len(types) }

// Halves reports whether the type has one number a block, which matrices keep without blocks.
func (t Type) Halves() bool { return t == F16 || t == BF16 }

// Integers are all types but the two with one number a block.
func Integers() (all []Type) {
	for t := Type(1); t.Valid(); t++ {
		if !t.Halves() {
			all = append(all, t)
		}
	}
	return all
}

// String returns the name of the type.
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("BlockType(%d)", int(t))
	}
	return types[t].Name
}
