package main

import (
	"math"

	"github.com/seed-1415985d/attn"
)

// Each product is rounded by a conversion before it is added to something, because compilers may
// fuse the two on some CPUs. With that, and since attn.Dot and attn.Exp have the same bits
// everywhere, so do embeddings.

// apply normalizes a row in place.
func (n *layerNorm) apply(x []float32, epsilon float32) {
	size, sum := float32(len(x)), float32(0)
	for _, v := range x {
		sum += v
	}
	mean := sum / size
	for i := range x {
		x[i] -= mean
	}
	scale := 1 / float32(math.Sqrt(float64(attn.Dot(x, x)/size+epsilon)))
	for i := range x {
		x[i] = float32(x[i]*scale*n.weight[i]) + n.bias[i]
	}
}

// gelu sets x to x·Φ(x) = max(x, 0) − ½·|x|·erfc(|x|/√2). The erfc is formula 7.1.26 of Abramowitz
// and Stegun, as exact as float32 is near 1: math.Erf would take half as long as all products.
func gelu(x []float32) {
	var buffer [256]float32
	for len(x) > 0 {
		part := x[:min(len(x), len(buffer))]
		exps := buffer[:len(part)]
		for i, v := range part {
			exps[i] = v * v * -0.5
		}
		attn.Exp(exps, exps)
		for i, v := range part {
			a := float32(math.Abs(float64(v)))
			t := 1 / (1 + float32(a*(0.3275911/math.Sqrt2)))
			p := float32(1.061405429*t) - 1.453152027
			p = float32(p*t) + 1.421413741
			p = float32(p*t) - 0.284496736
			p = float32(p*t) + 0.254829592
			part[i] = max(v, 0) - float32(0.5*a*t*p*exps[i])
		}
		x = x[len(part):]
	}
}

// tanh sets x to its hyperbolic tangent, (1 − e)/(1 + e) with e = exp(−2|x|), which has few correct
// bits near 0, where a polynomial has them.
func tanh(x []float32) {
	exps := make([]float32, len(x))
	for i, v := range x {
		exps[i] = float32(-2 * math.Abs(float64(v)))
	}
	attn.Exp(exps, exps)
	for i, v := range x {
		if a := float32(v * v); a < 0.01 {
			p := float32(a*(2./15)) - 1./3
			x[i] = v + float32(v*float32(a*p))
		} else {
			x[i] = float32(math.Copysign(float64((1-exps[i])/(1+exps[i])), float64(v)))
		}
	}
}
