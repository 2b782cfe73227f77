//go:build !purego

package attn

import (
	"math/rand/v2"
	"testing"
)

// anyProcessor draws what only kernels of amd64 ask for.
func anyProcessor(t *testing.T, r *rand.Rand) {
	wasScattered, wasWide, wasAbreast := scattered, wideRows, panelsAbreast
	t.Cleanup(func() { scattered, wideRows, panelsAbreast = wasScattered, wasWide, wasAbreast })
	scattered = r.IntN(2) == 0
	wideRows = fewestWideRows(r.IntN(2) == 0)
	panelsAbreast = r.IntN(2) == 0
}
