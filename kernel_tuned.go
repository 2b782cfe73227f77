package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

var ones = func() (x [kernel.CallElements / 16]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// tuned is every policy that depends on the CPU, and which kernels are in use.
var tuned = tuning.Host()

const (
	minTileRows = tuning.MinTileRows
	maxTileRows = tuning.MaxTileRows
)
