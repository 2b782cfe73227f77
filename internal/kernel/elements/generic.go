package elements

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// This file is the specification of package nn's arithmetic: assembly returns the bits that these
// loops return. Each rounding is explicit, as float32(…) or f32.FMA, because compilers may fuse
// x·y + z into one operation.

// Lanes is how many partial sums there are, by index mod Lanes.
const Lanes = 64

// sum continues sums of elements: lane_i%64 += x_i. All calls for one sum but the last have a
// multiple of 64 elements.
func sumGeneric(lane *[Lanes]float32, x []float32) {
	for i, e := range x {
		lane[i%Lanes] += e
	}
}

// sumSquares continues chains: lane_i%64 = FMA(d, d, lane_i%64), d = x_i − mean.
func sumSquaresGeneric(lane *[Lanes]float32, x []float32, mean float32) {
	for i, e := range x {
		d := e - mean
		lane[i%Lanes] = f32.FMA(d, d, lane[i%Lanes])
	}
}

// addSquares is dst = a + b and continues the chains of its squares.
func addSquaresGeneric(lane *[Lanes]float32, dst, a, b []float32) {
	for i, e := range a {
		s := e + b[i]
		dst[i] = s
		lane[i%Lanes] = f32.FMA(s, s, lane[i%Lanes])
	}
}

// scale is dst = x·r.
func scaleGeneric(dst, x []float32, r float32) {
	for i, e := range x {
		dst[i] = e * r
	}
}

// scaleWeighted is dst = (x·r)·weight.
func scaleWeightedGeneric(dst, x, weight []float32, r float32) {
	for i, e := range x {
		dst[i] = float32(e*r) * weight[i]
	}
}

// normalize is dst = FMA((x − mean)·r, weight, bias).
func normalizeGeneric(dst, x, weight, bias []float32, mean, r float32) {
	for i, e := range x {
		dst[i] = f32.FMA(float32(float32(e-mean)*r), weight[i], bias[i])
	}
}

// add is dst = a + b.
func addGeneric(dst, a, b []float32) {
	for i, e := range a {
		dst[i] = e + b[i]
	}
}

// multiply is dst = a·b.
func multiplyGeneric(dst, a, b []float32) {
	for i, e := range a {
		dst[i] = e * b[i]
	}
}

// multiplyAdd is dst = FMA(a, b, dst).
func multiplyAddGeneric(dst, a, b []float32) {
	for i, e := range a {
		dst[i] = f32.FMA(e, b[i], dst[i])
	}
}

// combine is sums of rows with weights: each element a chain of FMAs over rising rows, from +0.
func combineGeneric(x *Combination) {
	for m := range x.Sums {
		dst := x.Dst[m*x.DstStride:][:x.Cols]
		clear(dst)
		for n, e := range x.Weights[m*x.WeightStride:][:x.Rows] {
			for c, v := range x.X[n*x.XStride:][:x.Cols] {
				dst[c] = f32.FMA(e, v, dst[c])
			}
		}
	}
}

// columnMaxima is best = max(best, each of some rows) + 0: NaN where one is.
func columnMaximaGeneric(best, x []float32, rows, stride int) {
	for c, top := range best {
		for r := range rows {
			top = max(top, x[r*stride+c])
		}
		best[c] = top + 0
	}
}

// gateClamped is dst = (g·σ(alpha·g))·(u + 1), g = gate, at most limit, and u = up, within ±limit.
// Where g is −Inf, the result is 0, unless u is NaN.
func gateClampedGeneric(dst, gate, up []float32, alpha, limit float32) {
	for i, g := range gate {
		if g > limit {
			g = limit
		}
		u := up[i]
		if u > limit {
			u = limit
		}
		if u < -limit {
			u = -limit
		}
		s := float32(g * f32.Sigmoid(float32(alpha*g)))
		if g < -math.MaxFloat32 {
			s, u = 0, max(min(u, math.MaxFloat32), -math.MaxFloat32)
		}
		dst[i] = s * float32(u+1)
	}
}

// rotateHalves rotates pairs of channels (i, i+half): y₀ = FMA(x₀, c, −(x₁·s)), y₁ = FMA(x₁, c,
// x₀·s). If inverse, s is −s.
func rotateHalvesGeneric(dst, x, c, s []float32, half int, inverse bool) {
	for i := range c {
		x0, x1, sine := x[i], x[half+i], turned(s[i], inverse)
		dst[i] = f32.FMA(x0, c[i], -float32(x1*sine))
		dst[half+i] = f32.FMA(x1, c[i], float32(x0*sine))
	}
}

// rotatePairs is rotateHalves of pairs (2i, 2i+1).
func rotatePairsGeneric(dst, x, c, s []float32, inverse bool) {
	for i := range c {
		x0, x1, sine := x[2*i], x[2*i+1], turned(s[i], inverse)
		dst[2*i] = f32.FMA(x0, c[i], -float32(x1*sine))
		dst[2*i+1] = f32.FMA(x1, c[i], float32(x0*sine))
	}
}

// turned is the sine of the angle, or of the opposite one.
func turned(s float32, inverse bool) float32 {
	if inverse {
		return -s
	}
	return s
}

// activate is dst = f(x).
func activateGeneric(dst, x []float32, f Function) {
	for i, e := range x {
		dst[i] = f.of(e)
	}
}

// siluGate is dst = SiLU(x)·up.
func siluGateGeneric(dst, x, up []float32) {
	for i, e := range x {
		dst[i] = f32.SiLU(e) * up[i]
	}
}

// Function is an activation.
type Function int

// The functions of single elements.
const (
	SiLU Function = iota
	GELU
	GELUTanh
	ReLU
	ReLUSquared
	Sigmoid
	Tanh
	Softplus
	Exp
	QuickGELU
	Functions
)

func (f Function) of(x float32) float32 {
	switch f {
	case SiLU:
		return f32.SiLU(x)
	case GELU:
		return f32.GELU(x)
	case GELUTanh:
		return f32.GELUTanh(x)
	case ReLU:
		return relu(x)
	case ReLUSquared:
		r := relu(x)
		return r * r
	case Sigmoid:
		return f32.Sigmoid(x)
	case Tanh:
		return f32.Tanh(x)
	case Softplus:
		return f32.Softplus(x)
	case QuickGELU:
		return f32.QuickGELU(x)
	}
	return f32.Exp(x)
}

// relu is max(x, 0): +0 for −0, NaN for NaN.
func relu(x float32) float32 {
	if x <= 0 {
		return 0
	}
	return x
}

// Subtract is x = x − mean.
func Subtract(x []float32, mean float32) {
	for i := range x {
		x[i] -= mean
	}
}

// Largest is the largest magnitude: NaN if an element is.
func Largest(x []float32) (top float32) {
	for _, e := range x {
		a := math.Float32frombits(math.Float32bits(e) &^ (1 << 31))
		if a != a {
			return a
		}
		if a > top {
			top = a
		}
	}
	return top
}
