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
	wasScattered, wasWide, wasAbreast, wasInOrder := scattered, wideRows, panelsAbreast, rowsInOrder
	t.Cleanup(func() {
		scattered, wideRows, panelsAbreast, rowsInOrder = wasScattered, wasWide, wasAbreast, wasInOrder
	})
	scattered = r.IntN(2) == 0
	rowsInOrder = r.IntN(2) == 0
	wasBytes := inOrderBytes
	t.Cleanup(func() { inOrderBytes = wasBytes })
	inOrderBytes = 0
	wideRows = fewestWideRows(r.IntN(2) == 0, r.IntN(3) == 0)
	panelsAbreast = r.IntN(2) == 0
	wasBeside := topsBeside
	t.Cleanup(func() { topsBeside = wasBeside })
	topsBeside = r.IntN(2) == 0
	t.Cleanup(anyFused(r))
}

// wideKernels lets kernels with 16 lanes be used, even if this CPU prefers others, until the test ends.
func wideKernels(t testing.TB) {
	was := wideRows
	t.Cleanup(func() { wideRows = was })
	wideRows = min(wideRows, fewestWideRows(false, false))
}

// anyFused draws whether softmax and accumulate are one kernel.
func anyFused(r *rand.Rand) (restore func()) {
	was := fused
	fused = r.IntN(2) == 0
	return func() { fused = was }
}
