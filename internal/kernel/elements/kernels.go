package elements

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Sum is Σx_i in 64 partial sums by index mod 64.
func Sum(_ tuning.ISA, x []float32) float32 {
	operand.Reads(x, len(x))
	var lane [Lanes]float32
	sumGeneric(&lane, x)
	return f32.Fold(lane[:])
}

// SumSquares is Σ(x_i − mean)², in 64 partial sums by index mod 64.
func SumSquares(_ tuning.ISA, x []float32, mean float32) float32 {
	operand.Reads(x, len(x))
	var lane [Lanes]float32
	sumSquaresGeneric(&lane, x, mean)
	return f32.Fold(lane[:])
}

// AddSquares is dst = a + b and returns Σdst_i².
func AddSquares(_ tuning.ISA, dst, a, b []float32) float32 {
	operand.Reads(a, len(dst))
	operand.Reads(b, len(dst))
	operand.Writes(dst, len(dst))
	var lane [Lanes]float32
	addSquaresGeneric(&lane, dst, a, b)
	return f32.Fold(lane[:])
}

// Scale is dst = x·r, and that ·weight if there is one.
func Scale(_ tuning.ISA, dst, x, weight []float32, r float32) {
	operand.Reads(x, len(dst))
	operand.Writes(dst, len(dst))
	if weight == nil {
		scaleGeneric(dst, x, r)
		return
	}
	operand.Reads(weight, len(dst))
	scaleWeightedGeneric(dst, x, weight, r)
}

// What a weight and a bias are that are not given, for a piece.
var ones, zeros = func() (one, zero [kernel.CallElements]float32) {
	for i := range one {
		one[i] = 1
	}
	return one, zero
}()

// Normalize is dst = FMA((x − mean)·r, weight, bias); without them they are ones, and zeros.
func Normalize(_ tuning.ISA, dst, x, weight, bias []float32, mean, r float32) {
	operand.Reads(x, len(dst))
	operand.Writes(dst, len(dst))
	for from := 0; from < len(dst); from = kernel.NextPiece(from, kernel.CallElements, len(dst)) {
		to := min(from+kernel.CallElements, len(dst))
		w, b := ones[:], zeros[:]
		if weight != nil {
			w = weight[from:to]
		}
		if bias != nil {
			b = bias[from:to]
		}
		operand.Reads(w, to-from)
		operand.Reads(b, to-from)
		normalizeGeneric(dst[from:to], x[from:to], w, b, mean, r)
	}
}

// Add is dst = a + b.
func Add(_ tuning.ISA, dst, a, b []float32) {
	operand.Reads(a, len(dst))
	operand.Reads(b, len(dst))
	operand.Writes(dst, len(dst))
	addGeneric(dst, a, b)
}

// Multiply is dst = a·b.
func Multiply(_ tuning.ISA, dst, a, b []float32) {
	operand.Reads(a, len(dst))
	operand.Reads(b, len(dst))
	operand.Writes(dst, len(dst))
	multiplyGeneric(dst, a, b)
}

// MultiplyAdd is dst = FMA(a, b, dst).
func MultiplyAdd(_ tuning.ISA, dst, a, b []float32) {
	operand.Reads(a, len(dst))
	operand.Reads(b, len(dst))
	operand.Updates(dst, len(dst))
	multiplyAddGeneric(dst, a, b)
}

// Activate is dst = f(x).
func Activate(_ tuning.ISA, dst, x []float32, f Function) {
	operand.Reads(x, len(dst))
	operand.Writes(dst, len(dst))
	activateGeneric(dst, x, f)
}

// Gate is dst = f(x)·up, by way of a buffer that stays in the nearest cache: dst may be x or up.
func Gate(isa tuning.ISA, dst, x, up []float32, f Function) {
	var buffer [1024]float32
	for from := 0; from < len(dst); from = kernel.NextPiece(from, len(buffer), len(dst)) {
		to := min(from+len(buffer), len(dst))
		Activate(isa, buffer[:to-from], x[from:to], f)
		Multiply(isa, dst[from:to], buffer[:to-from], up[from:to])
	}
}

// GateClamped is dst = (g·σ(alpha·g))·(u + 1), g and u within limit.
func GateClamped(_ tuning.ISA, dst, gate, up []float32, alpha, limit float32) {
	operand.Reads(gate, len(dst))
	operand.Reads(up, len(dst))
	operand.Writes(dst, len(dst))
	gateClampedGeneric(dst, gate, up, alpha, limit)
}

// RotateHalves turns pairs of channels (i, i + half), one for each element of c, by angles with the
// cosines c and the sines s, or if inverse the other way round.
func RotateHalves(_ tuning.ISA, dst, x, c, s []float32, half int, inverse bool) {
	operand.ReadsRows(x, 2, half, len(c))
	operand.Reads(c, len(c))
	operand.Reads(s, len(c))
	operand.WritesRows(dst, 2, half, len(c))
	rotateHalvesGeneric(dst, x, c, s, half, inverse)
}

// RotatePairs is RotateHalves of pairs (2i, 2i + 1).
func RotatePairs(_ tuning.ISA, dst, x, c, s []float32, inverse bool) {
	operand.Reads(x, 2*len(c))
	operand.Reads(c, len(c))
	operand.Reads(s, len(c))
	operand.Writes(dst, 2*len(c))
	rotatePairsGeneric(dst, x, c, s, inverse)
}
