//go:build !amd64 || purego

package integers

import "github.com/seed-1415985d/attn/internal/tuning"

// groupsTogether: see integerRows.together.
const groupsTogether = false

func quantizesRotated(cpu *tuning.Row, n, rotation int) bool { return false }

// QuantizeRotated rotates rows by blocks and quantizes them like QuantizeRows. It does so for the
// first rows only and returns their number, which may be 0. Rows of integers are contiguous if
// starts is not nil; else they are groups of four in panels of rows, like packed keys.
func QuantizeRotated(cpu *tuning.Row, dst []int8, scales []float32, starts []int32, x []float32,
	rows, n, xStride,
	block int) (done int) {
	return 0 // there is no such kernel
}

// magnitudes splits a row into groups of four magnitudes and signs, see Rows, and returns the start
// of its sums. The padding of the last four elements is 0.
func magnitudes(isa tuning.ISA, dst, row []int8) (start int32) {
	return magnitudesGeneric(dst, row)
}

// CopyRows brings rows of n elements together.
func CopyRows(isa tuning.ISA, dst, x []float32, rows, n, stride int) {
	copyRowsGeneric(dst, x, rows, n, stride)
}

// Interleave brings n rows of some columns, whole panels, to the order of a block's values: of
// four rows the elements of a column follow each other.
func Interleave(isa tuning.ISA, dst, src []byte, cols, n int) {
	interleaveGeneric(dst, src, cols, n)
}
