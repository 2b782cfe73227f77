package attn

import (
	"github.com/seed-1415985d/attn/internal/operand"
)

// integerRows is rows of integers of 8 bits as kernels take them.
type integerRows struct {
	words []int16 // in the order of inGroupOrder

	// In the place of words, where one instruction adds products of four bytes. With VNNI kernels add
	// 128 to what a row meets, to have no signs there, and sums begin with −128 times the sum of the
	// row, or of each group of it that has a sum.
	bytes  []int8
	starts []int32

	// In the place of both, where one instruction multiplies bytes without sign by bytes with one: of
	// each four elements their magnitudes, then −1 where one is negative and else 0. Sums begin with
	// starts, here the sum of the magnitudes of negative elements: see addSigned in gen.
	magnitudes []int8
}

// fit makes the memory large enough, for at least that number of rows a call.
func (x *integerRows) fit(elements, groups, rows int) {
	was := *x
	*x = integerRows{} // what there is means that kernels take it
	switch {
	case tuned.DotProduct && rows >= tuned.MinInt8Rows16:
		x.bytes, x.starts = grow(was.bytes, elements), grow(was.starts, groups)
	case tuned.ISA.Integers():
		x.magnitudes, x.starts = grow(was.magnitudes, 2*elements), grow(was.starts, groups)
	default:
		x.words = grow(was.words, elements)
	}
}

// startOf is −128 times the sum of a row.
func startOf(row []int8) int32 {
	var sum int32
	for _, e := range row {
		sum += int32(e)
	}
	return -128 * sum
}

// from is the rows from an element and a group on.
func (x *integerRows) from(at, group int) integerRows {
	switch {
	case x.words != nil:
		return integerRows{words: x.words[at:]}
	case x.magnitudes != nil:
		return integerRows{magnitudes: x.magnitudes[2*at:], starts: x.starts[group:]}
	}
	return integerRows{bytes: x.bytes[at:], starts: x.starts[group:]}
}

// reads: rows from one on, of n elements and some groups.
func (x *integerRows) reads(row, rows, stride, groupStride, n, groups int) {
	if x.words != nil {
		operand.ReadsRows(x.words[row*stride:], rows, stride, n)
		return
	}
	operand.ReadsRows(x.starts[row*groupStride:], rows, groupStride, groups)
	if x.magnitudes != nil {
		operand.ReadsRows(x.magnitudes[2*row*stride:], rows, 2*stride, 2*n)
	} else {
		operand.ReadsRows(x.bytes[row*stride:], rows, stride, n)
	}
}

// inGroupOrder widens a row to 16 bits, in the order that kernels take it: of each group of four,
// elements 0, 2, 1, 3. So pairs meet the even and the odd bytes of a group, which shifts separate.
// Elements that complete the last group are 0.
func inGroupOrder(dst []int16, row []int8) {
	whole := len(row) / 4 * 4
	for i := 0; i < whole; i += 4 {
		from, to := row[i:][:4], dst[i:][:4]
		to[0], to[1], to[2], to[3] = int16(from[0]), int16(from[2]), int16(from[1]), int16(from[3])
	}
	if whole < len(dst) {
		var last [4]int8
		copy(last[:], row[whole:])
		inGroupOrder(dst[whole:], last[:])
	}
}
