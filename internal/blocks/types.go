package blocks

import "fmt"

// Type is a format of weights in blocks; its values are the public ones.
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

// wordsOf is how many words of an output 32 inputs have; of Trits it is the words of 256.
var wordsOf = [...]int{EightBits: 8, FourBits: 4, FiveBits: 5, SixBits: 6, TwoBits: 2, ThreeBits: 3,
	Trits: tritWords}

const tritWords = 13

// Scaling is what numbers a block has besides its codes: d of all inputs, which are halves, and of
// each 32 scales in bytes.
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

// Levels is what codes of four bits stand for.
type Levels [16]int8

// Levels by the types that have them; of MXFP4 and NVFP4 they are doubled.
var (
	LevelsQ4   = Levels{-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7}
	LevelsIQ4  = Levels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	LevelsMXFP = Levels{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

// Traits is what differs between types.
type Traits struct {
	Name    string
	Inputs  int // of a block
	Bytes   int // of a block in a file
	Packed  int // of a block of each of 16 outputs in memory; 0 of numbers that lie alone
	Codes   Codes
	Levels  *Levels // nil where codes are integers
	Less    int8    // what such integers have added to them
	Scaling Scaling
	At      Offsets // of the parts of a file's block

	PowerOf2 bool // d is the exponent of a power of 2, in a byte
	SixBits  bool // scales have six bits, of which two lie apart
	Shared   bool // each 32 bytes of nibbles are of 64 inputs, the lower ones of the first 32
}

// Offsets is where the parts of a file's block begin. What is not there is 0.
type Offsets struct {
	D      int // d, which dmin or m follow
	Scales int
	Codes  int
	Upper  int // bits of codes that lie apart
}

// types is in the order of the constants.
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
}

// Last is the type with the largest value.
const Last = Type(len(types) - 1)

// Sizes of the largest blocks, which Q6_K has.
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
	return of.Scales() + of.words()
}

// words is the bytes of the codes of a part, or of Trits.
func (of *Traits) words() int { return 4 * Outputs * wordsOf[of.Codes] }

// parts is how many parts follow the header.
func (of *Traits) parts() int {
	if of.Codes == Trits {
		return 1
	}
	return of.Inputs / Inputs
}

// HasMinima reports whether minima are subtracted, or a number is added.
func (of *Traits) HasMinima() bool { return scalings[of.Scaling].halves == 2 }

// Valid reports whether there is such a type.
func (t Type) Valid() bool { return t > 0 && int(t) < len(types) }

// Halves reports whether the type is one number a block, which matrices keep without blocks.
func (t Type) Halves() bool { return t == F16 || t == BF16 }

// Integers are the types in blocks, all but the two of one number each.
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
