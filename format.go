package attn

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// Format is the number format in which a cache, a store or a matrix keeps its elements.
// docs/low-precision.md says which to choose.
type Format int

const (
	// F32 keeps float32 values as they are.
	F32 = Format(kernel.F32)
	// F16 is IEEE 754 half precision: 11 significant bits, up to 65504. Values are rounded to
	// nearest, ties to even; what is too large becomes ±Inf.
	F16 = Format(kernel.F16)
	// BF16 is the upper half of a float32: 8 significant bits and all of its range. Values are
	// rounded to nearest, ties to even.
	BF16 = Format(kernel.BF16)
	// I8 is integers of −127 to 127 with one float32 scale for each token and head, or for each
	// column of a matrix. Keys, queries and the inner dimension of matrices are rotated, see
	// docs/low-precision.md.
	I8 = Format(kernel.I8)
	// I4 is one of 16 levels for each element, with one float32 scale for each token and head: half
	// the memory of I8. It is for caches and stores, which rotate keys and values, see
	// docs/low-precision.md.
	I4 = Format(kernel.I4)
	// Blocks is what [Matrix.Format] returns for a matrix of blocks, of a [BlockType]. It is no
	// format that something can be packed or kept in.
	Blocks = Format(-1)
)

// valid reports whether there is such a format.
func (f Format) valid() bool { return kernel.Format(f).Valid() }

// String returns the name of the format.
func (f Format) String() string {
	switch {
	case f == Blocks:
		return "Blocks"
	case !f.valid():
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return kernel.Format(f).Traits().Name
}
