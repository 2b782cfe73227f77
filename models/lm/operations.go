package lm

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// Operations between matrices, on the pool's workers. Package nn computes a row in a fixed order,
// so that its bits depend neither on the rows around it nor on the CPU.

// rowsOf views x as rows of n elements.
func rowsOf(x []float32, n int) attn.Tensor { return attn.BHLD(x, 1, 1, len(x)/n, n) }

// normRows computes to = weight·x / √(mean of x² + epsilon), row by row, or the LayerNorm of rows.
func (r *runner) normRows(to *[]float32, x, weight []float32) {
	*to = resize(*to, len(x))
	n := len(weight)
	if r.Centered {
		n /= 2
		r.try(nn.LayerNorm(r.pool, rowsOf(*to, n), rowsOf(x, n), weight[:n], weight[n:],
			float32(r.Epsilon)))
		return
	}
	r.try(nn.RMSNorm(r.pool, rowsOf(*to, n), rowsOf(x, n), weight, float32(r.Epsilon)))
}

// gated computes to = activation(gate)·up, or the model's clamped gate.
func (r *runner) gated(to *[]float32, gate, up []float32) {
	*to = resize(*to, len(gate))
	n := max(1, len(gate)) // as one row
	if r.Limit > 0 {
		r.try(nn.GateClamped(r.pool, rowsOf(*to, n), rowsOf(gate, n), rowsOf(up, n), r.Alpha, r.Limit))
		return
	}
	r.try(nn.Gate(r.pool, rowsOf(*to, n), rowsOf(gate, n), rowsOf(up, n), r.Activation))
}

// activate computes to = activation(x), or the square of ReLU.
func (r *runner) activate(to *[]float32, x []float32) {
	if r.Activation == nn.ReLU {
		r.gated(to, x, x) // max(x, 0)·x
		return
	}
	*to = resize(*to, len(x))
	n := max(1, len(x))
	r.try(nn.Activate(r.pool, rowsOf(*to, n), rowsOf(x, n), r.Activation))
}

// add computes dst += x.
func (r *runner) add(dst, x []float32) {
	n := max(1, len(dst))
	r.try(nn.Add(r.pool, rowsOf(dst, n), rowsOf(dst, n), rowsOf(x, n)))
}

// addNorm computes sum += x and to = normRows of sum, in one pass over memory without means.
func (r *runner) addNorm(to *[]float32, sum, x, weight []float32) {
	if r.Centered {
		r.add(sum, x)
		r.normRows(to, sum, weight)
		return
	}
	*to = resize(*to, len(x))
	n := len(weight)
	r.try(nn.AddRMSNorm(r.pool, rowsOf(*to, n), rowsOf(sum, n), rowsOf(sum, n), rowsOf(x, n), weight,
		float32(r.Epsilon)))
}

// shrink multiplies rows that are added to others by the model's number for it, if it has one.
func (r *runner) shrink(x []float32) {
	if r.ResidualScale == 0 || r.ResidualScale == 1 {
		return
	}
	r.multiplyRows(x, r.residual)
}

// multiplyRows multiplies each row by the elements of one row.
func (r *runner) multiplyRows(x, row []float32) {
	by := attn.Tensor{Data: row, B: 1, H: 1, L: len(x) / r.Dim, D: r.Dim, SB: 1, SH: 1,
		SL: attn.Broadcast}
	r.try(nn.Gate(r.pool, rowsOf(x, r.Dim), rowsOf(x, r.Dim), by, nn.None))
}

// scale multiplies by a number; 0 means no scale.
func scale(x []float32, by float32) {
	for i := range x {
		if by != 0 {
			x[i] *= by
		}
	}
}

// bound computes x = most·tanh(x/most); a most of 0 means no bound.
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

// resize returns a slice of n elements with any values, in x's memory if they fit.
func resize(x []float32, n int) []float32 {
	if cap(x) < n {
		return make([]float32, n)
	}
	return x[:n]
}
