package attn

import "github.com/seed-1415985d/attn/internal/tuning"

// This file is the specification of passes over slices: assembly returns the bits that these loops
// return. Each rounding is explicit, see internal/kernel/floats/generic.go.

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// dot is Σ a_i·b_i: a chain of FMAs in each of 64 lanes, by index mod 64, then fold.
func dotGeneric(a, b []float32) float32 {
	var lane [64]float32
	addProductsGeneric(&lane, a, b)
	return f32.Fold(lane[:]) + 0
}

// addProducts continues the chains of dot: lane_i%64 = FMA(a_i, b_i, lane_i%64). All calls for one
// product but the last have a multiple of 64 elements.
func addProductsGeneric(lane *[64]float32, a, b []float32) {
	for i, e := range a {
		lane[i%64] = f32.FMA(e, b[i], lane[i%64])
	}
}

// maxOf is the largest element: −Inf if there is none, NaN if one is NaN.
func maxOfGeneric(x []float32) float32 {
	top := negInf
	for _, e := range x {
		if e != e {
			return float32(math.NaN())
		}
		if e > top {
			top = e
		}
	}
	return top + 0
}

// exp is dst = exp(x), subnormal results included.
func expGeneric(dst, x []float32) {
	for i, e := range x {
		dst[i] = f32.Exp(e)
	}
}

// expSum is dst = exp(x − top), and returns the sum, in 16 lanes by index mod 16. Results
// below 2⁻¹²⁶ are +0; where x − top is above 88.37, they are +Inf.
func expSumGeneric(dst, x []float32, top float32) float32 {
	var sum [16]float32
	for i, e := range x {
		dst[i] = f32.ExpFlush(atMostExpInf(e - top))
		sum[i%16] += dst[i]
	}
	return f32.Fold(sum[:])
}

// atMostExpInf keeps ExpFlush, which is for x ≤ 0, within the exponents of float32.
func atMostExpInf(x float32) float32 {
	if x > f32.ExpInf {
		return f32.ExpInf
	}
	return x
}

// sumExp is expSum without the destination.
func sumExpGeneric(x []float32, top float32) float32 {
	var sum [16]float32
	for i, e := range x {
		sum[i%16] += f32.ExpFlush(atMostExpInf(e - top))
	}
	return f32.Fold(sum[:])
}

// tuned holds every policy that depends on the CPU, and the kernels in use.
var tuned = tuning.Host()

const (
	minTileRows = tuning.MinTileRows
	maxTileRows = tuning.MaxTileRows
)
