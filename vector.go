package attn

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/topk"
)

// Dot returns Σ a_i·b_i in 64 partial sums by index mod 64. It panics if the lengths differ.
func Dot(a, b []float32) float32 {
	sameLength("Dot", "b", len(b), "a", len(a))
	return dot(a, b)
}

// Max returns the largest element of x: −Inf if there is none, NaN if one is
// NaN. A zero result is +0.
func Max(x []float32) float32 { return maxOf(x) }

// Exp sets dst_i = exp(x_i) with an error of at most 1 ULP over all of
// float32, subnormal results included. dst may be x; otherwise they must not
// overlap. It panics if the lengths differ.
func Exp(dst, x []float32) {
	sameLength("Exp", "dst", len(dst), "x", len(x))
	exp(dst, x)
}

// ExpSum sets dst_i = exp(x_i − max) and returns their sum, in 16 partial sums by
// index mod 16. Results below 2⁻¹²⁶ are 0; where x_i − max is above 88.37 the
// result is +Inf. dst may be x; otherwise they must not overlap. It panics if the lengths differ.
func ExpSum(dst, x []float32, max float32) float32 {
	sameLength("ExpSum", "dst", len(dst), "x", len(x))
	return expSum(dst, x, max)
}

// Softmax sets dst_i = exp(x_i) / Σ exp(x_j). If no x_i is above −Inf, dst is
// zero. dst may be x; otherwise they must not overlap. It panics if the lengths differ.
func Softmax(dst, x []float32) {
	sameLength("Softmax", "dst", len(dst), "x", len(x))
	top := maxOf(x)
	if top == negInf {
		stop.Clear(dst)
		return
	}
	sum := expSum(dst, x, top)
	floats.Scale(tuned.ISA, dst, dst, 1/sum)
}

// LogSumExp returns ln Σ exp(x_i): −Inf if no x_i is above −Inf, NaN if one is NaN, else +Inf if
// one is +Inf.
func LogSumExp(x []float32) float32 {
	top := maxOf(x)
	if top-top != 0 { // not finite
		return top
	}
	return top + f32.Log(sumExp(x, top))
}

// TopK writes the indices of the largest scores to dst, as many as dst has elements, or all if
// there are fewer scores, and returns their number. The order is descending scores, equal ones by
// ascending index, −0 equal to 0, NaN last, so the same scores give the same indices everywhere. It
// panics if there are more than 2³¹ scores.
func TopK(dst []int32, scores []float32) int {
	n := min(len(dst), len(scores))
	if n == 0 {
		return 0
	}
	if len(scores)-1 > math.MaxInt32 {
		panic(fmt.Sprintf("attn: TopK: len(scores) is %d, want at most 2³¹", len(scores)))
	}
	topk.Indices(dst[:n], scores)
	return n
}

// Widen sets dst_i to the number whose bits in F16 or BF16 src_i is, exactly. It panics if the
// lengths differ, and for another format.
func Widen(dst []float32, src []uint16, f Format) {
	sameLength("Widen", "dst", len(dst), "src", len(src))
	mustBeHalf("Widen", f)
	narrow.WidenSlice(tuned.ISA, kernel.Format(f), dst, src)
}

// Narrow sets dst_i to the bits of src_i in F16 or BF16, rounded to nearest, ties to even: ±Inf
// beyond the format's range. It panics if the lengths differ, and for another format.
func Narrow(dst []uint16, src []float32, f Format) {
	sameLength("Narrow", "dst", len(dst), "src", len(src))
	mustBeHalf("Narrow", f)
	narrow.Narrow(tuned.ISA, kernel.Format(f), dst, src)
}

func mustBeHalf(function string, f Format) {
	if f != F16 && f != BF16 {
		panic(fmt.Sprintf("attn: %s: f is %v, want F16 or BF16", function, f))
	}
}

func sameLength(f, a string, n int, b string, m int) {
	if n != m {
		panic(fmt.Sprintf("attn: %s: len(%s) is %d, want len(%s) = %d", f, a, n, b, m))
	}
}
