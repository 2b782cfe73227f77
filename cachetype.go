package attn

import "fmt"

// CacheType is the number format in which a cache, or a matrix, keeps its elements. docs/low-precision.md says which to choose.
type CacheType int

const (
	// F32 keeps float32 values as they are.
	F32 CacheType = iota
	// F16 is IEEE 754 half precision: 11 significant bits, up to 65504. Values are rounded to nearest, ties to even; what is too large
	// becomes ±Inf.
	F16
	// BF16 is the upper half of a float32: 8 significant bits and all of its range. Values are rounded to nearest, ties to even.
	BF16
	// I8 is integers of −127 to 127 with one float32 scale for each token and head, or for each column of a matrix.
	I8
)

// String returns the name of the type.
func (t CacheType) String() string {
	if t < F32 || t > I8 {
		return fmt.Sprintf("CacheType(%d)", int(t))
	}
	return [...]string{"F32", "F16", "BF16", "I8"}[t]
}

// bytes is the size of an element.
func (t CacheType) bytes() int { return [...]int{4, 2, 2, 1}[t] }
