package main

import (
	"math"

	"github.com/seed-1415985d/attn"
)

// What a decoder does between its matrices. Each function works on one row, in a fixed order, so that a row's bits do not depend on the rows
// around it. float32(x*y) keeps compilers from fusing a product with a sum, which some CPUs can and others cannot.

// rmsNorm is dst = weight·x / √(mean of x² + epsilon).
func rmsNorm(dst, x, weight []float32, epsilon float64) {
	mean := float64(attn.Dot(x, x)) / float64(len(x))
	scale := float32(1 / math.Sqrt(mean+epsilon))
	for i := range dst {
		dst[i] = x[i] * scale * weight[i]
	}
}

// rotate turns the pairs (i, i+n/2) of a head by a position's angles (RoPE).
func rotate(x, cos, sin []float32) {
	a, b := x[:len(cos)], x[len(cos):]
	for i, c := range cos {
		p, q := a[i], b[i]
		a[i] = float32(p*c) - float32(q*sin[i])
		b[i] = float32(q*c) + float32(p*sin[i])
	}
}

// swiGLU is dst = silu(gate)·up, where gate and up are the halves of x and silu(g) = g/(1+e⁻ᵍ).
func swiGLU(dst, x []float32) {
	gate, up := x[:len(dst)], x[len(dst):]
	for i, g := range gate {
		dst[i] = -g
	}
	attn.Exp(dst, dst)
	for i, g := range gate {
		dst[i] = g / (1 + dst[i]) * up[i]
	}
}

// add is dst += x.
func add(dst, x []float32) {
	for i := range dst {
		dst[i] += x[i]
	}
}
