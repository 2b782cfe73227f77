//go:build !amd64 || purego

package pairs

import (
	"math"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// LeastTileRows is how many rows go through tiles, at least: there are none here.
func LeastTileRows(*tuning.Row) int { return math.MaxInt }

func MultiplyTiles(*TileCall) { panic("attn: there are no tiles") }

// FinishTiles makes outputs of sums of two panels, and no output is −0.
func FinishTiles(dst, sums []float32, rows, cols, stride int) {
	finishPairTilesGeneric(dst, sums, rows, cols, stride)
}
