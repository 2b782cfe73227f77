package kernel

// Sums are rows of outputs to which kernels add values weighted by rows of weights. Kernels also
// have as arguments the values and their layout, which says how many columns outputs and weights
// have.
type Sums struct {
	O       []float32 // outputs
	P       []float32 // weights; of a product of matrices, the rows of its left side
	Alpha   []float32 // outputs are multiplied by these before, row by row; nil: they stay
	Rows    int       // of outputs and of weights
	OStride int       // from a row of outputs to the next
	PStride int       // from a row of weights to the next
}

// From is the sums of n rows from one on, and of the outputs from a column on.
func (x *Sums) From(row, n, col int) Sums {
	y := Sums{O: x.O[row*x.OStride+col:], P: x.P[row*x.PStride:], Rows: n, OStride: x.OStride,
		PStride: x.PStride}
	if x.Alpha != nil {
		y.Alpha = x.Alpha[row:]
	}
	return y
}
