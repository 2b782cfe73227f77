package elements

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Combination is rows added up with weights: dst_m = Σ_n weights_mn·x_n for each of some sums, each
// element a chain of FMAs over rising n, from +0.
type Combination struct {
	Dst, X, Weights                  []float32
	Sums, Rows, Cols                 int
	DstStride, XStride, WeightStride int // from a row to the next
}

// combineCall is the argument of a kernel. The generators read the offsets of its fields from this
// declaration (internal/dev/constants).
type combineCall struct {
	dst, x, weights                  *float32
	rows, cols                       int
	dstStride, xStride, weightStride int  // in bytes
	ahead                            int  // bytes after those read that are prefetched; 0: none
	more                             bool // sums begin with what is in dst
}

const (
	combineSums = 4   // that one kernel computes together
	combineRows = 128 // the most of one call
	combineCols = 128 // which divides the columns of all calls but the last

	// combineNear elements of x stay in the nearest cache until the next sums read them.
	combineNear = 8192
)

// Combine computes sums, and prefetches each row of x as many bytes ahead; 0 prefetches nothing.
func Combine(isa tuning.ISA, x *Combination, ahead int) {
	if x.Sums == 0 || x.Cols == 0 {
		return
	}
	operand.WritesRows(x.Dst, x.Sums, x.DstStride, x.Cols)
	operand.ReadsRows(x.X, x.Rows, x.XStride, x.Cols)
	operand.ReadsRows(x.Weights, x.Sums, x.WeightStride, x.Rows)
	if !vectors(isa) {
		combineGeneric(x)
		return
	}
	call := combineCall{dstStride: 4 * x.DstStride, xStride: 4 * x.XStride,
		weightStride: 4 * x.WeightStride, ahead: ahead}
	step := x.step()
	for c := 0; c < x.Cols; c = kernel.NextPiece(c, step, x.Cols) {
		call.cols = min(step, x.Cols-c)
		for m := 0; m < x.Sums; {
			few := x.Sums-m < combineSums
			for n := 0; n < x.Rows; n += combineRows {
				call.rows, call.more = min(combineRows, x.Rows-n), n > 0
				call.dst, call.x = &x.Dst[m*x.DstStride+c], &x.X[n*x.XStride+c]
				call.weights = &x.Weights[m*x.WeightStride+n]
				combineStep(isa, &call, few)
			}
			if m++; !few {
				m += combineSums - 1
			}
		}
	}
}

// step is how many columns a call has at most: fewer where other sums read the same rows.
func (x *Combination) step() int {
	rows := min(x.Rows, combineRows)
	most := kernel.CallSums / (rows + 2*min(x.Sums, combineSums)) // dst is read and written
	if x.Sums != 1 && x.Sums != combineSums {
		most = min(most, combineNear/rows)
	}
	return max(1, most/combineCols) * combineCols
}
