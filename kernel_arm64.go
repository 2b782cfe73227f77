//go:build !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/operand"
)

const (
	callProducts = 1 << 18 // see kernel_split.go
	inPlaceKeys  = 16      // keys that scoreRows takes together
)

// addBiasRowSIMD adds a bias to one row of n ≤ Block scores and returns a bit for
// each key that it does not mask.
//
//go:noescape
func addBiasRowSIMD(s, bias *float32, n int, u float32) (visible uint64)

// maskRowSIMD returns a bit for each true element of n ≤ Block.
//
//go:noescape
func maskRowSIMD(mask *bool, n int) (visible uint64)

// normalizeSIMD goes row by row. It works like normalizeGeneric.
func normalizeSIMD(dst, o, l *float32, rows, n, dstStride, oStride int) {
	for r := range rows {
		to, sum := operand.At(dst, r*dstStride), *operand.At(l, r)
		if sum == 0 {
			clear(unsafe.Slice(to, n))
			continue
		}
		scaleSIMD(to, operand.At(o, r*oStride), n, 1/sum)
	}
}

// addBiasSIMD goes row by row. It works like addBiasGeneric.
func addBiasSIMD(s, bias *float32, visible *uint64, rows, step, stride, lo, n int, u float32) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		bits := addBiasRowSIMD(operand.At(s, r*step*Block), operand.At(bias, r*stride), n, u)
		row := operand.At(visible, r*step)
		*row &^= (lowBits(n) &^ bits) << lo
		every &= *row
	}
	return every
}

// maskKeysSIMD goes row by row. It works like maskKeysGeneric.
func maskKeysSIMD(mask *bool, visible *uint64, rows, step, stride, lo, n int) (every uint64) {
	every = ^uint64(0)
	for r := range rows {
		bits := maskRowSIMD(operand.At(mask, r*stride), n)
		row := operand.At(visible, r*step)
		*row &^= (lowBits(n) &^ bits) << lo
		every &= *row
	}
	return every
}
