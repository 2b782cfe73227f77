package attn

import (
	"math/rand/v2"
	"testing"
)

// anyHost draws what the package chooses by the processor and its caches, until the test ends: no
// bit depends on it.
func anyHost(t *testing.T, r *rand.Rand) {
	wasBytes, wasRows := scratchBytes, tileRows
	t.Cleanup(func() { scratchBytes, tileRows = wasBytes, wasRows })
	scratchBytes = cacheShare([]int{1, 512 << 10, 2 << 20}[r.IntN(3)])
	tileRows = []int{fewTileRows, mostTileRows}[r.IntN(2)]
	anyProcessor(t, r)
}
