package attn

import (
	"math/rand/v2"
	"testing"
)

// anyHost draws what the package chooses by the processor and its caches, until the test ends: no
// bit depends on it.
func anyHost(t *testing.T, r *rand.Rand) {
	wasBytes, wasRows, wasFused := scratchBytes, tileRows, fused
	t.Cleanup(func() { scratchBytes, tileRows, fused = wasBytes, wasRows, wasFused })
	scratchBytes = cacheShare([]int{1, 512 << 10, 2 << 20}[r.IntN(3)])
	tileRows = []int{fewTileRows, mostTileRows}[r.IntN(2)]
	fused = r.IntN(2) == 0
	anyProcessor(t, r)
}
