//go:build !purego

package attn

import (
	"math/rand/v2"
	"testing"
)

// slowestFMA is the cycles of an FMA with its loads on the slowest CPU that cut.go is for.
const slowestFMA = 1

// anyProcessor draws what only kernels of amd64 ask for.
func anyProcessor(t *testing.T, r *rand.Rand) {
	wasScattered, wasWide, wasAbreast, wasInOrder := pagedPrefetch, leastRows16, panelsAbreast, sequentialReads
	t.Cleanup(func() {
		pagedPrefetch, leastRows16, panelsAbreast, sequentialReads = wasScattered, wasWide, wasAbreast, wasInOrder
	})
	pagedPrefetch = r.IntN(2) == 0
	sequentialReads = r.IntN(2) == 0
	wasBytes := sequentialBytes
	t.Cleanup(func() { sequentialBytes = wasBytes })
	sequentialBytes = 0
	leastRows16 = fewestRows16(r.IntN(2) == 0, r.IntN(3) == 0)
	panelsAbreast = r.IntN(2) == 0
	wasBeside := maximaInScore
	t.Cleanup(func() { maximaInScore = wasBeside })
	maximaInScore = r.IntN(2) == 0
	t.Cleanup(anyFused(r))
}

// use16Lanes lets kernels with 16 lanes be used, even if this CPU prefers others, until the test ends.
func use16Lanes(t testing.TB) {
	was := leastRows16
	t.Cleanup(func() { leastRows16 = was })
	leastRows16 = min(leastRows16, fewestRows16(false, false))
}

// anyFused draws whether softmax and accumulate are one kernel.
func anyFused(r *rand.Rand) (restore func()) {
	was := fused
	fused = r.IntN(2) == 0
	return func() { fused = was }
}
