// Package topk selects the largest of many numbers, in an order that is the same everywhere.
package topk

import (
	"cmp"
	"math"
	"slices"
)

// Indices writes the indices of the len(dst) largest scores to dst, at least one and at most all:
// in descending order of scores, equal scores by ascending index. −0 equals 0, and NaN comes after
// all others.
func Indices(dst []int32, scores []float32) {
	selectLargest(dst, scores)
	slices.SortFunc(dst, func(a, b int32) int {
		if x, y := rankOf(scores[a]), rankOf(scores[b]); x != y {
			return cmp.Compare(y, x)
		}
		return int(a) - int(b)
	})
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
