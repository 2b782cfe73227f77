package main

import (
	"math"

	"github.com/seed-1415985d/attn"
)

// What a decoder does between its matrices, row by row and in a fixed order, so that a row's bits
// do not depend on the rows around it. float32(x*y) keeps compilers from fusing a product with a
// sum, which some CPUs can and others cannot.

// rmsNorm is to = weight·x / √(mean of x² + epsilon).
func rmsNorm(to *[]float32, x, weight []float32, epsilon float64) {
	*to = resize(*to, len(x))
	for n, dst := len(weight), *to; len(x) > 0; dst, x = dst[n:], x[n:] {
		mean := float64(attn.Dot(x[:n], x[:n])) / float64(n)
		scale := float32(1 / math.Sqrt(mean+epsilon))
		for i, w := range weight {
			dst[i] = x[i] * scale * w
		}
	}
}

// rotate turns the pairs (i, i+dim/2) of the heads of each row by the angles of its position
// (RoPE).
func rotate(x, cos, sin []float32, dim, heads int) {
	half := dim / 2
	for ; len(x) > 0; x, cos, sin = x[heads*dim:], cos[half:], sin[half:] {
		for h := range heads {
			a, b := x[h*dim:][:half], x[h*dim+half:][:half]
			for i, c := range cos[:half] {
				p, q := a[i], b[i]
				a[i] = float32(p*c) - float32(q*sin[i])
				b[i] = float32(q*c) + float32(p*sin[i])
			}
		}
	}
}

// swiGLU is to = silu(gate)·up, where silu(g) = g/(1+e⁻ᵍ).
func swiGLU(to *[]float32, gate, up []float32) {
	*to = resize(*to, len(gate))
	out := *to
	for i, g := range gate {
		out[i] = -g
	}
	attn.Exp(out, out)
	for i, g := range gate {
		out[i] = g / (1 + out[i]) * up[i]
	}
}

// add is dst += x.
func add(dst, x []float32) {
	for i := range dst {
		dst[i] += x[i]
	}
}

// sumGroups is to = the sums of the elements of groups of x, all of one size.
func sumGroups(to, x []float32) {
	size := len(x) / len(to)
	for i := range to {
		to[i] = 0
		for _, e := range x[i*size:][:size] {
			to[i] += e
		}
	}
}

// resize returns n elements, whose values are left open.
func resize(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
