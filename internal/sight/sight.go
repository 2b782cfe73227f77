// Package sight describes which keys of a block each row of queries sees: a word for each row, with
// a bit for each key.
package sight

import (
	"bytes"
	"math/bits"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// What rows together see of a block. The zero value is not known yet.
const (
	None = 1 + iota
	Some
	Everywhere // each row sees some keys of the first panel and of the last, or near these
	All

	Bias = 1 << 7 // added to All: scores have a bias, which hides nothing
)

// Both is what rows see together if some see a and the others b.
func Both(a, b uint8) uint8 {
	switch {
	case a == b:
		return a
	case max(a, b) == All && min(a, b) == Everywhere:
		return Everywhere
	}
	return Some
}

// Of is what rows see together.
func Of(rows []uint64) uint8 {
	some, every, lo, hi := uint64(0), ^uint64(0), 0, kernel.Block
	before := ^rows[0]
	for _, e := range rows {
		if e == before {
			continue // most rows see the same as the row before
		}
		before = e
		some |= e
		every &= e
		lo, hi = max(lo, bits.TrailingZeros64(e)), min(hi, bits.Len64(e))
	}
	switch {
	case some == 0:
		return None
	case every == ^uint64(0):
		return All
	case lo < kernel.Panel && hi > kernel.Block-kernel.Panel:
		return Everywhere
	}
	return Some
}

// Keys returns the keys that at least one row sees, and the keys that every row sees.
func Keys(rows []uint64) (some, every uint64) {
	every = ^uint64(0)
	for _, e := range rows {
		some |= e
		every &= e
	}
	return some, every
}

// Fill lets all rows see all keys.
func Fill(rows []uint64) {
	rows[0] = ^uint64(0)
	for n := 1; n < len(rows); n *= 2 {
		copy(rows[n:], rows[:n])
	}
}

// Run is how many of the first rows see exactly these keys.
func Run(rows []uint64, keys uint64) (n int) {
	for n < len(rows) && rows[n] == keys {
		n++
	}
	return n
}

// Trim returns how many of the first rows to process together, and the range [lo, hi) of keys that
// some of them see. The rows are all, or the first ones that see the same, or diagonal rows where
// the range differs from row to row. They are uniform if each of them sees all keys of the range.
func Trim(rows []uint64, diagonal int) (n, lo, hi int, uniform bool) {
	n = len(rows)
	if same := Run(rows, rows[0]); same >= diagonal {
		n = same
	} else if n > diagonal && farApart(rows[0], rows[n-1]) {
		n = diagonal
	}
	some, every := Keys(rows[:n])
	if some == 0 {
		return n, 0, 0, true
	}
	lo, hi = bits.TrailingZeros64(some), bits.Len64(some)
	return n, lo, hi, some == every && some == kernel.LowBits(hi)&^kernel.LowBits(lo)
}

// farApart reports whether the ranges that two rows see begin or end at least a panel apart.
func farApart(a, b uint64) bool {
	lo := bits.TrailingZeros64(a) - bits.TrailingZeros64(b)
	hi := bits.Len64(a) - bits.Len64(b)
	return max(lo, -lo, hi, -hi) >= kernel.Panel
}

// IndexTrue is the index of the first true element, −1 if there is none.
func IndexTrue(x []bool) int {
	if len(x) == 0 {
		return -1
	}
	return bytes.IndexByte(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)), 1)
}
