//go:build !purego

package integers

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products by tiles of AMX: one instruction multiplies 16 rows of up to 64 bytes by the 64 bytes of
// 16 columns. Sums of integers are exact, so the bits equal the other kernels' bits. Each call of
// assembly configures the tiles and releases them.

// leastTileRows is how many rows go through tiles, at least: of queries and weights, or of a
// matrix's inputs. Magnitudes do not.
func leastTileRows(cpu *tuning.Row, x *Rows, matrix bool) int {
	switch {
	case !cpu.AMX || x.Magnitudes != nil:
		return math.MaxInt
	case matrix:
		return cpu.MinAMXMatrixRows
	}
	return cpu.MinAMXRows
}

// tileRows returns how many of the rows of a call are multiplied by tiles: whole tiles, and the
// remaining rows if they are at least least.
func tileRows(rows, least int) int {
	if rest := rows % 16; rest < least {
		return rows - rest
	}
	return rows
}

// callProducts bounds the products of a call. Tiles compute up to 1024 a cycle and at least a
// twentieth of that, so that eight times as many last 80 µs at most.
func callProducts(cpu *tuning.Row, x *Rows, rows int, matrix bool) int {
	if rows >= leastTileRows(cpu, x, matrix) {
		return 8 * kernel.CallIntegers
	}
	return kernel.CallIntegers
}

// tilePart returns how many of the rows left a call multiplies: whole tiles, then the rows of the
// last one, since a call has tiles of one size.
func tilePart(rows int) int {
	if rows < 16 {
		return rows
	}
	return rows / 16 * 16
}

// scoreTiles is scoreInt8Step of rows of bytes.
func scoreTiles(s *float32, q *Rows, row int, k *byte, scales *float32, rows, qStride int,
	b *kernel.PanelLayout) {
	for r := 0; r < rows; {
		n := tilePart(rows - r)
		scoreTilesAMX(operand.At(s, r*kernel.Block), &q.Bytes[(row+r)*qStride], k, scales, n,
			b.Cols/kernel.Panel, kernel.RoundUp(b.Keys, 4), qStride, b.PanelStride)
		r += n
	}
}

// multiplyTiles is multiplyInt8Step of some rows of bytes, of at most two groups of inputs.
func multiplyTiles(x *SumsCall, rows int) {
	for r := 0; r < rows; {
		part := x.tiles(r, rows, 1)
		multiplyTilesAMX(&part)
		r += part.Rows
	}
}

// accumulateTiles is accumulateInt8Step for some rows of words, which have an alpha unless they
// overwrite.
func accumulateTiles(x *SumsCall, rows int) {
	for r := 0; r < rows; {
		part := x.tiles(r, rows, bytesOfWord)
		if part.Alpha == nil {
			part.Alpha = part.F // not used
		}
		accumulateTilesAMX(&part)
		r += part.Rows
	}
}

// tiles returns the call for tiles of rows [row, end); integers have size bytes.
func (x *SumsCall) tiles(row, end, size int) SumsCall {
	y, b := x.from(row, size), x.B
	y.Rows = tilePart(end - row)
	y.Panels, y.Steps = b.Cols/kernel.Panel, kernel.RoundUp(b.Keys, 4)
	y.VLine, y.VStride, y.Overwrite = b.Stride, b.PanelStride, b.Overwrite
	return y
}

// scoreTilesAMX computes scores of rows of bytes, 1 to 15 or a multiple of 16, and panels of keys
// of d dimensions, a multiple of 4. It works like scoreInt8Generic.
//
//go:noescape
func scoreTilesAMX(s *float32, q *int8, k *byte, scales *float32, rows, panels, d, qStride,
	kStride int)

// multiplyTilesAMX adds products of rows of bytes, of 1 to 15 or a multiple of 16, and panels of a
// matrix of up to 256 inputs, a multiple of 4: for each Group of them the sum times the scale in f.
// It works like accumulateInt8Generic, group by group.
//
//go:noescape
func multiplyTilesAMX(x *SumsCall)

// accumulateTilesAMX adds values weighted by rows of words, 1 to 15 or a multiple of 16, for up to
// 64 keys, a multiple of 4, whose groups of four are vLine bytes apart. It works like
// accumulateInt8Generic.
//
//go:noescape
func accumulateTilesAMX(x *SumsCall)
