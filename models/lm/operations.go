package lm

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// What a decoder does between its matrices, on the pool's workers. Package nn computes a row in a
// fixed order, so that its bits do not depend on the rows around it, nor on the CPU.

// rowsOf views rows of n elements.
func rowsOf(x []float32, n int) attn.Tensor { return attn.BHLD(x, 1, 1, len(x)/n, n) }

// rmsNorm is to = weight·x / √(mean of x² + epsilon), row by row.
func (r *runner) rmsNorm(to *[]float32, x, weight []float32) {
	*to = resize(*to, len(x))
	n := len(weight)
	r.try(nn.RMSNorm(r.pool, rowsOf(*to, n), rowsOf(x, n), weight, float32(r.Epsilon)))
}

// gated is to = activation(gate)·up, or the clamped gate if the model has that.
func (r *runner) gated(to *[]float32, gate, up []float32) {
	*to = resize(*to, len(gate))
	n := max(1, len(gate)) // as one row
	if r.Limit > 0 {
		r.try(nn.GateClamped(r.pool, rowsOf(*to, n), rowsOf(gate, n), rowsOf(up, n), r.Alpha, r.Limit))
		return
	}
	r.try(nn.Gate(r.pool, rowsOf(*to, n), rowsOf(gate, n), rowsOf(up, n), r.Activation))
}

// add is dst += x.
func (r *runner) add(dst, x []float32) {
	n := max(1, len(dst))
	r.try(nn.Add(r.pool, rowsOf(dst, n), rowsOf(dst, n), rowsOf(x, n)))
}

// addNorm is sum += x and to = rmsNorm of sum, in one pass over memory.
func (r *runner) addNorm(to *[]float32, sum, x, weight []float32) {
	*to = resize(*to, len(x))
	n := len(weight)
	r.try(nn.AddRMSNorm(r.pool, rowsOf(*to, n), rowsOf(sum, n), rowsOf(sum, n), rowsOf(x, n), weight,
		float32(r.Epsilon)))
}

// scale multiplies by a number, but for 0, which stands for none.
func scale(x []float32, by float32) {
	for i := range x {
		if by != 0 {
			x[i] *= by
		}
	}
}

// bound is x = most·tanh(x/most), if there is a most.
func (r *runner) bound(x []float32, most float32) {
	if most == 0 {
		return
	}
	for i := range x {
		x[i] /= most
	}
	n := max(1, len(x))
	r.try(nn.Activate(r.pool, rowsOf(x, n), rowsOf(x, n), nn.Tanh))
	scale(x, most)
}

// resize returns n elements, whose values are left open.
func resize(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
