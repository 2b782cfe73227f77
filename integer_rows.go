package attn

import "github.com/seed-1415985d/attn/internal/operand"

// integerRows is rows of integers of 8 bits as kernels take them.
type integerRows struct {
	words []int16 // in the order of inGroupOrder

	// In the place of words, where one instruction adds products of four bytes. With VNNI kernels add
	// 128 to what a row meets, to have no signs there, and sums begin with −128 times the sum of the
	// row, or of each group of it that has a sum.
	bytes  []int8
	starts []int32
}

// fit makes the memory large enough, for at least so many rows a call.
func (x *integerRows) fit(elements, groups, rows int) {
	if tuned.DotProduct && rows >= tuned.MinInt8Rows16 {
		x.bytes, x.starts = grow(x.bytes, elements), grow(x.starts, groups)
		return
	}
	x.words, x.bytes = grow(x.words, elements), nil // bytes mean that kernels take them
}

// put makes a row, or the group of one with that number, the elements from one on. What completes
// the last four is 0.
func (x *integerRows) put(at, group int, row []int8) {
	n := roundUp(len(row), 4)
	if x.bytes == nil {
		inGroupOrder(x.words[at:][:n], row)
		return
	}
	to := x.bytes[at:][:n]
	clear(to[copy(to, row):])
	x.starts[group] = startOf(row)
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
	if x.bytes != nil {
		return integerRows{bytes: x.bytes[at:], starts: x.starts[group:]}
	}
	return integerRows{words: x.words[at:]}
}

// reads: rows and their groups.
func (x *integerRows) reads(rows, stride, groupStride, n int) {
	if x.bytes != nil {
		operand.ReadsRows(x.bytes, rows, stride, n)
		operand.ReadsRows(x.starts, rows, groupStride, 1)
		return
	}
	operand.ReadsRows(x.words, rows, stride, n)
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
