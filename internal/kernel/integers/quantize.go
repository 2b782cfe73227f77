//go:build (amd64 || arm64) && !purego

package integers

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Largest is max |x_i|: NaN if one is NaN.
func Largest(isa tuning.ISA, x []float32) float32 {
	operand.Reads(x, len(x))
	if !isa.SIMD() || len(x) == 0 {
		return largestGeneric(x)
	}
	top := float32(0)
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		e := largestSIMD(&x[from], to-from)
		if e != e {
			return e
		}
		top = max(top, e)
	}
	return top
}

// Quantize is dst = rint(x/scale), ties to even, and 0 if the scale is 0. No |x| is above
// 127·scale.
func Quantize(isa tuning.ISA, dst []int8, x []float32, scale float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !isa.SIMD() || len(x) == 0 || scale == 0 {
		quantizeGeneric(dst, x, scale)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		quantizeSIMD(&dst[from], &x[from], to-from, scale)
	}
}

// Rotate multiplies rows of n elements by the orthonormal Walsh–Hadamard matrix of the size of a
// block, a power of two that divides n: for h = 1, 2, 4, …, a and b that are h apart become a + b
// and a − b; then all are multiplied by 1/√block, rounded once. Rows are read from x and written to
// dst, which may be the same.
func Rotate(isa tuning.ISA, dst, x []float32, rows, n, dstStride, xStride, block int) {
	operand.ReadsRows(x, rows, xStride, n)
	operand.WritesRows(dst, rows, dstStride, n)
	if !isa.SIMD() || rows == 0 || block == 1 || block > kernel.CallElements {
		for r := range rows {
			stop.Copy(dst[r*dstStride:][:n], x[r*xStride:])
		}
		rotateGeneric(dst, rows, dstStride, n, block)
		return
	}
	step := kernel.CallElements / block * block
	factor := float32(1 / math.Sqrt(float64(block)))
	together := max(1, step/n)
	for r := 0; r < rows; r = kernel.NextPiece(r, together, rows) {
		for c := 0; c < n; c = kernel.NextPiece(c, step, n) {
			rotateStep(isa, &dst[r*dstStride+c], &x[r*xStride+c], min(together, rows-r), min(step, n-c),
				dstStride, xStride, block, factor)
		}
	}
}
