package kernel

import "fmt"

// Format is a number format of elements; its values are those of the public one.
type Format int

const (
	F32 Format = iota
	F16
	BF16
	I8
	I4

	// Pairs is how a matrix keeps BF16 for products in bfloat16, and no format of the public ones:
	// pairs of inputs lie together, in whole groups.
	Pairs
)

// Traits describes a format.
type Traits struct {
	Name    string
	Bits    int  // of an element in memory,
	Bytes   int  // and as kernels read it: levels of I4 become integers of I8
	Group   int  // elements of one product that lie side by side for kernels
	Whole   int  // dimensions of keys in memory are a multiple of that
	Scaled  bool // integers with a float32 scale for each token and head, or for each column
	Rotated bool // outliers are spread before elements become integers
}

// formats is in the order of the constants.
var formats = [...]Traits{
	F32:  {Name: "F32", Bits: 32, Bytes: 4, Group: 1, Whole: 1},
	F16:  {Name: "F16", Bits: 16, Bytes: 2, Group: 1, Whole: 1},
	BF16: {Name: "BF16", Bits: 16, Bytes: 2, Group: 1, Whole: 1},
	I8:   {Name: "I8", Bits: 8, Bytes: 1, Group: 4, Whole: 4, Scaled: true, Rotated: true},
	I4:   {Name: "I4", Bits: 4, Bytes: 1, Group: 4, Whole: 8, Scaled: true, Rotated: true},

	Pairs: {Name: "Pairs", Bits: 16, Bytes: 2, Group: 32, Whole: 32},
}

// Valid reports whether there is such a format of the public ones.
func (f Format) Valid() bool { return f >= 0 && f <= I4 }

// String returns the name of the format.
func (f Format) String() string {
	switch {
	case f == -1: // as String names a matrix of blocks
		return "Blocks"
	case !f.Valid():
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formats[f].Name
}

// Traits is the row of a format that exists.
func (f Format) Traits() *Traits { return &formats[f] }

// Bytes is the size of an element as kernels read it.
func (f Format) Bytes() int { return formats[f].Bytes }
