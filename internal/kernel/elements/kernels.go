package elements

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Sum is Σx_i in 64 partial sums by index mod 64.
func Sum(isa tuning.ISA, x []float32) (sum float32) {
	operand.Reads(x, len(x))
	if vectors(isa) && len(x) > 0 && len(x) <= kernel.CallElements {
		return sumSIMD(nil, &x[0], len(x))
	}
	var lane [Lanes]float32
	if !vectors(isa) || len(x) == 0 {
		sumGeneric(&lane, x)
		return f32.Fold(lane[:])
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		sum = sumSIMD(&lane, &x[from], min(kernel.CallElements, len(x)-from))
	}
	return sum
}

// SumSquares is Σ(x_i − mean)², in 64 partial sums by index mod 64.
func SumSquares(isa tuning.ISA, x []float32, mean float32) (sum float32) {
	operand.Reads(x, len(x))
	if vectors(isa) && len(x) > 0 && len(x) <= kernel.CallElements {
		return sumSquaresSIMD(nil, &x[0], len(x), mean)
	}
	var lane [Lanes]float32
	if !vectors(isa) || len(x) == 0 {
		sumSquaresGeneric(&lane, x, mean)
		return f32.Fold(lane[:])
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		sum = sumSquaresSIMD(&lane, &x[from], min(kernel.CallElements, len(x)-from), mean)
	}
	return sum
}

// AddSquares is dst = a + b and returns Σdst_i².
func AddSquares(isa tuning.ISA, dst, a, b []float32) (sum float32) {
	n := len(dst)
	reads(n, a, b)
	operand.Writes(dst, n)
	if vectors(isa) && n > 0 && n <= kernel.CallElements {
		return addSquaresSIMD(nil, &dst[0], &a[0], &b[0], n)
	}
	var lane [Lanes]float32
	if !vectors(isa) || n == 0 {
		addSquaresGeneric(&lane, dst, a, b)
		return f32.Fold(lane[:])
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		sum = addSquaresSIMD(&lane, &dst[from], &a[from], &b[from], min(kernel.CallElements, n-from))
	}
	return sum
}

// reads: n elements of both.
func reads(n int, a, b []float32) {
	operand.Reads(a, n)
	operand.Reads(b, n)
}

// Ahead is the distance in bytes at which kernels prefetch after the address they read, and after
// the address they write. The memory there need not exist. 0 prefetches only the line in use.
type Ahead struct{ X, Dst int }

// Scale is dst = x·r, and that ·weight if there is one.
func Scale(isa tuning.ISA, dst, x, weight []float32, r float32, a Ahead) {
	n := len(dst)
	operand.Reads(x, n)
	operand.Writes(dst, n)
	if weight != nil {
		operand.Reads(weight, n)
	}
	switch {
	case (!vectors(isa) || n == 0) && weight == nil:
		scaleGeneric(dst, x, r)
		return
	case !vectors(isa) || n == 0:
		scaleWeightedGeneric(dst, x, weight, r)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		count := min(kernel.CallElements, n-from)
		if weight == nil {
			scaleSIMD(&dst[from], &x[from], count, r, a.X, a.Dst)
		} else {
			scaleWeightedSIMD(&dst[from], &x[from], &weight[from], count, r, a.X, a.Dst)
		}
	}
}

// The weight and the bias of a piece if there are none.
var ones, zeros = func() (one, zero [kernel.CallElements]float32) {
	for i := range one {
		one[i] = 1
	}
	return one, zero
}()

// Normalize is dst = FMA((x − mean)·r, weight, bias); without them they are ones, and zeros.
func Normalize(isa tuning.ISA, dst, x, weight, bias []float32, mean, r float32, a Ahead) {
	n := len(dst)
	operand.Reads(x, n)
	operand.Writes(dst, n)
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		to := min(from+kernel.CallElements, n)
		w, b := ones[:], zeros[:]
		if weight != nil {
			w = weight[from:to]
		}
		if bias != nil {
			b = bias[from:to]
		}
		reads(to-from, w, b)
		if vectors(isa) {
			normalizeSIMD(&dst[from], &x[from], &w[0], &b[0], to-from, mean, r, a.X, a.Dst)
		} else {
			normalizeGeneric(dst[from:to], x[from:to], w, b, mean, r)
		}
	}
}

// Add is dst = a + b.
func Add(isa tuning.ISA, dst, a, b []float32, ahead Ahead) {
	n := len(dst)
	reads(n, a, b)
	operand.Writes(dst, n)
	if !vectors(isa) || n == 0 {
		addGeneric(dst, a, b)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		addSIMD(&dst[from], &a[from], &b[from], min(kernel.CallElements, n-from), ahead.X, ahead.Dst)
	}
}

// Multiply is dst = a·b.
func Multiply(isa tuning.ISA, dst, a, b []float32, ahead Ahead) {
	n := len(dst)
	reads(n, a, b)
	operand.Writes(dst, n)
	if !vectors(isa) || n == 0 {
		multiplyGeneric(dst, a, b)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		multiplySIMD(&dst[from], &a[from], &b[from], min(kernel.CallElements, n-from), ahead.X,
			ahead.Dst)
	}
}

// MultiplyAdd is dst = FMA(a, b, dst).
func MultiplyAdd(isa tuning.ISA, dst, a, b []float32) {
	n := len(dst)
	reads(n, a, b)
	operand.Updates(dst, n)
	if !vectors(isa) || n == 0 {
		multiplyAddGeneric(dst, a, b)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, kernel.CallElements, n) {
		multiplyAddSIMD(&dst[from], &a[from], &b[from], min(kernel.CallElements, n-from))
	}
}

// ColumnMaxima is best = max(best, each of some rows of x) + 0. Columns are whole panels.
func ColumnMaxima(isa tuning.ISA, best, x []float32, rows, stride int) {
	n := len(best)
	operand.ReadsRows(x, rows, stride, n)
	operand.Updates(best, n)
	if !vectors(isa) || n == 0 || rows == 0 {
		columnMaximaGeneric(best, x, rows, stride)
		return
	}
	for c := 0; c < n; c = kernel.NextPiece(c, kernel.CallElements, n) {
		count := min(kernel.CallElements, n-c)
		step := kernel.CallElements / count
		for r := 0; r < rows; r = kernel.NextPiece(r, step, rows) {
			columnMaximaSIMD(&best[c], &x[r*stride+c], count, min(step, rows-r), stride)
		}
	}
}

// Activate is dst = f(x).
func Activate(isa tuning.ISA, dst, x []float32, f Function, a Ahead) {
	n := len(dst)
	operand.Reads(x, n)
	operand.Writes(dst, n)
	if !vectors(isa) || n == 0 {
		activateGeneric(dst, x, f)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, callActivations, n) {
		activateStep(isa, &dst[from], &x[from], min(callActivations, n-from), f, a)
	}
}

// callActivations bounds the elements of one call: functions in float64 are slowest.
const callActivations = kernel.CallElements / 4

// activateStep is activate of checked operands, in one call.
func activateStep(isa tuning.ISA, dst, x *float32, n int, f Function, a Ahead) {
	switch f {
	case SiLU:
		siluSIMD(dst, x, n, a.X, a.Dst)
	case GELU:
		geluStep(isa, dst, x, n, a)
	case GELUTanh:
		geluTanhStep(isa, dst, x, n, a)
	case ReLU:
		reluSIMD(dst, x, n, a.X, a.Dst)
	case ReLUSquared:
		reluSquaredSIMD(dst, x, n, a.X, a.Dst)
	case Sigmoid:
		sigmoidSIMD(dst, x, n, a.X, a.Dst)
	case Tanh:
		tanhSIMD(dst, x, n, a.X, a.Dst)
	case Softplus:
		softplusStep(isa, dst, x, n, a)
	case Exp:
		expAllSIMD(dst, x, n, a.X, a.Dst)
	case QuickGELU:
		gateClampedSIMD(dst, x, &zeros[0], n, f32.QuickAlpha, float32(math.Inf(1)), a.X, a.Dst)
		addSIMD(dst, dst, &zeros[0], n, 0, a.Dst)
	}
}

// Gate is dst = f(x)·up, by way of a buffer that stays in the nearest cache: dst may be x or up.
func Gate(isa tuning.ISA, dst, x, up []float32, f Function, a Ahead) {
	if f == SiLU {
		siluGate(isa, dst, x, up, a)
		return
	}
	var buffer [callActivations]float32
	for from := 0; from < len(dst); from = kernel.NextPiece(from, len(buffer), len(dst)) {
		to := min(from+len(buffer), len(dst))
		Activate(isa, buffer[:to-from], x[from:to], f, Ahead{X: a.X})
		Multiply(isa, dst[from:to], buffer[:to-from], up[from:to], a)
	}
}

func siluGate(isa tuning.ISA, dst, x, up []float32, a Ahead) {
	n := len(dst)
	reads(n, x, up)
	operand.Writes(dst, n)
	if !vectors(isa) || n == 0 {
		siluGateGeneric(dst, x, up)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, callActivations, n) {
		siluGateSIMD(&dst[from], &x[from], &up[from], min(callActivations, n-from), a.X, a.Dst)
	}
}

// GateClamped is dst = (g·σ(alpha·g))·(u + 1), g and u within limit.
func GateClamped(isa tuning.ISA, dst, gate, up []float32, alpha, limit float32, a Ahead) {
	n := len(dst)
	reads(n, gate, up)
	operand.Writes(dst, n)
	if !vectors(isa) || n == 0 {
		gateClampedGeneric(dst, gate, up, alpha, limit)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, callActivations, n) {
		gateClampedSIMD(&dst[from], &gate[from], &up[from], min(callActivations, n-from), alpha, limit,
			a.X, a.Dst)
	}
}

// RotateHalves rotates pairs of channels (i, i + half), one for each element of c, by angles with
// the cosines c and the sines s, or if inverse by the opposite angles.
func RotateHalves(isa tuning.ISA, dst, x, c, s []float32, half int, inverse bool) {
	n := len(c)
	operand.ReadsRows(x, 2, half, n)
	reads(n, c, s)
	operand.WritesRows(dst, 2, half, n)
	if !vectors(isa) || n == 0 {
		rotateHalvesGeneric(dst, x, c, s, half, inverse)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, callPairs, n) {
		rotateHalvesSIMD(&dst[from], &x[from], &c[from], &s[from], min(callPairs, n-from), half,
			flips(inverse))
	}
}

// RotatePairs is RotateHalves of pairs (2i, 2i + 1).
func RotatePairs(isa tuning.ISA, dst, x, c, s []float32, inverse bool) {
	n := len(c)
	operand.Reads(x, 2*n)
	reads(n, c, s)
	operand.Writes(dst, 2*n)
	if !vectors(isa) || n == 0 {
		rotatePairsGeneric(dst, x, c, s, inverse)
		return
	}
	for from := 0; from < n; from = kernel.NextPiece(from, callPairs, n) {
		rotatePairsSIMD(&dst[2*from], &x[2*from], &c[from], &s[from], min(callPairs, n-from),
			flips(inverse))
	}
}

// callPairs bounds the pairs of one call.
const callPairs = kernel.CallElements / 2

// flips returns the sign bit if the sines are to change their sign, else 0.
func flips(inverse bool) float32 {
	if inverse {
		return float32(math.Copysign(0, -1))
	}
	return 0
}
