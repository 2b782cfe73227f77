package main

import (
	"math"
	"math/bits"
)

// alibiSlopes are the slopes of "Train Short, Test Long" (Press, Smith, Lewis 2021): a
// geometric sequence from 2^(−8/n) for n heads, if n is a power of two. Else
// it is the sequence of the power below n, filled up with every second
// slope of twice that power.
func alibiSlopes(heads int) []float32 {
	slopes := make([]float32, heads)
	if heads == 0 {
		return slopes
	}
	below := 1 << (bits.Len(uint(heads)) - 1)
	for h := range slopes {
		exponent := -8 * float64(h+1) / float64(below)
		if h >= below {
			exponent = -8 * float64(2*(h-below)+1) / float64(2*below)
		}
		slopes[h] = float32(math.Exp2(exponent))
	}
	return slopes
}
