package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products is outputs of rows and panels of pairs that follow one another.
type Products struct {
	O       []float32
	OStride int    // from a row of outputs to the next
	Panels  []byte // of whole groups of inputs
	Stride  int    // from a panel to the next, in elements
	Inputs  int
	Cols    int  // whole panels
	Normal  bool // no number on the way is subnormal, see [Normal]

	tiles []float32 // sums of two panels, as tiles leave them
}

// Inputs of one call: a chain of floats, and a row of tiles.
const (
	floatInputs = kernel.CallInner / Group * Group
	tileInputs  = 1 << 10
)

// Rows of a call of tiles, two panels and its inputs are what a call may take.
const tileRowsOfCall = TileProducts / TileCols / tileInputs

// Multiply makes outputs of some rows from the first on: the sums over pairs, and +0.
func (x *Rows) Multiply(cpu *tuning.Row, y *Products, first, rows int) {
	if x.Tiles() {
		x.multiplyTiles(y, first, rows)
		return
	}
	sums := kernel.Sums{O: y.O, Rows: rows, OStride: y.OStride, PStride: x.Pitch}
	l := kernel.PanelLayout{Cols: y.Cols, Stride: 2 * kernel.Panel, PanelStride: y.Stride}
	for k := 0; k < y.Inputs; k += floatInputs {
		l.Keys, l.Overwrite = min(floatInputs, y.Inputs-k), k == 0
		sums.P = x.From(first, k)
		Accumulate(cpu, &sums, y.Panels[2*k*kernel.Panel:], &l, y.Normal)
	}
}

// multiplyTiles is Multiply by tiles: two panels at a time, so that outputs are copied once.
func (x *Rows) multiplyTiles(y *Products, first, rows int) {
	y.tiles = kernel.Grow(y.tiles, kernel.RoundUp(rows, 2*TileRows)*TileCols)
	operand.Updates(y.tiles, len(y.tiles))
	operand.Reads(y.Panels, 2*y.Cols/kernel.Panel*y.Stride)
	var call TileCall
	call.AStep, call.Parts = 2*Group*x.Count, 1
	for c := 0; c < y.Cols; c += TileCols {
		if call.Second = 2 * y.Stride; y.Cols-c <= kernel.Panel {
			call.Second = 0
		}
		for k := 0; k < y.Inputs; k += tileInputs {
			call.V = &y.Panels[2*(c/kernel.Panel*y.Stride+k*kernel.Panel)]
			call.Groups = (min(tileInputs, y.Inputs-k) + Group - 1) / Group
			call.Begin = k == 0
			for r := 0; r < rows; r += tileRowsOfCall {
				call.A = &x.Halves[k*x.Count+(first+r)*Group]
				call.Sums, call.Rows = &y.tiles[r*TileCols], min(tileRowsOfCall, rows-r)
				MultiplyTiles(&call)
			}
		}
		FinishTiles(y.O[c:], y.tiles, rows, min(TileCols, y.Cols-c), y.OStride)
	}
}
