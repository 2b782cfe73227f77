package attn

import "github.com/seed-1415985d/attn/internal/tuning"

// tuned is every policy that depends on the CPU, and which kernels are in use.
var tuned = tuning.Host()

const (
	minTileRows = tuning.MinTileRows
	maxTileRows = tuning.MaxTileRows
)
