package attn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/stop"
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
// there are fewer scores, and returns how many: in descending order of scores, equal ones by
// ascending index, −0 equal to 0, NaN after all others. So the same scores give the same indices
// everywhere. It panics if there are more than 2³¹ scores.
func TopK(dst []int32, scores []float32) int {
	n := min(len(dst), len(scores))
	if n == 0 {
		return 0
	}
	if len(scores)-1 > math.MaxInt32 {
		panic(fmt.Sprintf("attn: TopK: len(scores) is %d, want at most 2³¹", len(scores)))
	}
	dst = dst[:n]
	selectLargest(dst, scores)
	slices.SortFunc(dst, func(a, b int32) int {
		if x, y := rankOf(scores[a]), rankOf(scores[b]); x != y {
			return cmp.Compare(y, x)
		}
		return int(a) - int(b)
	})
	return n
}

// selectLargest writes the indices of the largest scores to dst, in ascending order.
func selectLargest(dst []int32, scores []float32) {
	floor, equal := smallestSelected(scores, len(dst))
	i := 0
	for j, e := range scores {
		rank := rankOf(e)
		if rank < floor || rank == floor && equal == 0 {
			continue
		}
		if rank == floor {
			equal--
		}
		dst[i] = int32(j)
		i++
	}
}

// smallestSelected is the rank of the n-th largest score, and how many of that rank are among the n
// largest. It is a radix selection: digit by digit, the scores that are still in question are
// counted, in a time that does not depend on their order.
func smallestSelected(scores []float32, n int) (rank uint32, equal int) {
	const bits = 11 // of a digit; the counters stay in the L1 cache
	var counts [1 << bits]uint32
	known := uint32(0) // the bits of rank that are
	for shift := 32 - bits; known != math.MaxUint32; shift = max(0, shift-bits) {
		clear(counts[:])
		for _, e := range scores {
			if r := rankOf(e); r&known == rank {
				counts[r>>shift%(1<<bits)]++
			}
		}
		digit := uint32(len(counts) - 1)
		for ; int(counts[digit]) < n; digit-- {
			n -= int(counts[digit])
		}
		rank |= digit << shift
		known |= (1<<bits - 1) << shift
	}
	return rank, n
}

// rankOf is a number that orders scores: NaN first, −0 as 0.
func rankOf(x float32) uint32 {
	if x != x {
		return 0
	}
	bits := math.Float32bits(x + 0) // −0 + 0 is 0
	return bits ^ (uint32(int32(bits)>>31) | 1<<31)
}

func sameLength(f, a string, n int, b string, m int) {
	if n != m {
		panic(fmt.Sprintf("attn: %s: len(%s) is %d, want len(%s) = %d", f, a, n, b, m))
	}
}
