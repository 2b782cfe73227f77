package measure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed-1415985d/attn/internal/limits"
)

// Quantile returns the smallest element that a fraction q of all does not exceed, 0 without
// elements.
func Quantile[T cmp.Ordered](all []T, q float64) (x T) {
	if len(all) == 0 {
		return x
	}
	all = slices.Sorted(slices.Values(all))
	return all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
}

// Median returns the quantile ½.
func Median[T cmp.Ordered](all []T) T { return Quantile(all, 0.5) }

// Repeat times calls, one after the other, for at least a time and at least some calls. before, if
// not nil, runs before each call and is not timed.
func Repeat(long time.Duration, least int, before func(), call func() error) (times []time.Duration,
	err error) {
	for begin := limits.Now(); len(times) < least || limits.Now()-begin < long; {
		if before != nil {
			before()
		}
		start := limits.Now()
		if err := call(); err != nil {
			return times, err
		}
		times = append(times, limits.Now()-start)
	}
	return times, nil
}

// Rounds runs ways in turns while more reports true, so that all have the same conditions. A way
// returns its time. times has the complete rounds of each way, also after an error.
func Rounds(more func() bool, ways ...func() (time.Duration, error)) (times [][]time.Duration,
	err error) {
	times = make([][]time.Duration, len(ways))
	round := make([]time.Duration, len(ways))
	for more() {
		for i, way := range ways {
			if round[i], err = way(); err != nil {
				return times, err
			}
		}
		for i, took := range round {
			times[i] = append(times[i], took)
		}
	}
	return times, nil
}
