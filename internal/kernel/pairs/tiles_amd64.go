//go:build !purego

package pairs

import (
	"math"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products by tiles of AMX: TDPBF16PS adds the products of 32 inputs to 16 × 16 sums, whose order
// is that of sums over pairs. Each call of assembly configures the tiles and releases them.

// LeastTileRows is how many rows go through tiles, at least.
func LeastTileRows(cpu *tuning.Row) int {
	if !cpu.AMXBFloat16 {
		return math.MaxInt
	}
	return cpu.MinAMXPairRows
}

// MultiplyTiles adds products of rows by two panels to sums.
func MultiplyTiles(x *TileCall) { multiplyPairTilesAMX(x) }

// FinishTiles makes outputs of sums of two panels, and no output is −0.
func FinishTiles(dst, sums []float32, rows, cols, stride int) {
	operand.WritesRows(dst, rows, stride, cols)
	finishPairTilesAVX512(&dst[0], &sums[0], rows, cols, stride)
}

// multiplyPairTilesAMX adds products of rows by two panels to sums, for at most TileProducts. It
// works like accumulateGeneric.
//
//go:noescape
func multiplyPairTilesAMX(x *TileCall)

// finishPairTilesAVX512 copies sums of up to 32 columns. It works like finishPairTilesGeneric.
//
//go:noescape
func finishPairTilesAVX512(o, sums *float32, rows, cols, oStride int)
