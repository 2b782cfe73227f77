package floats

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

const (
	// MaximaRows divides the number of rows of a call of scoreMaxima; softmaxMaxima has up to
	// maxTileRows.
	MaximaRows = 6

	// MaximaDim is the least dimension of scoreMaxima: one row of the tile before is looked at in
	// every 8 steps but the last 4.
	MaximaDim = 8*MaximaRows + 4
)

// Variants are the kernels that some rows go through. The zero value is kernels with 8 lanes on
// amd64, and with 4 on arm64.
type Variants struct {
	Lanes16   bool // score, and accumulate of whole panels, have 16 lanes
	Softmax16 bool // so has softmax
	Maxima    bool // score finds the maxima of rows for softmax; both have 8 lanes
}

// Choose chooses the variants for some rows of queries, their d dimensions, and whether the call
// has packed keys. An argument on which the called kernel does not depend is 0. Lanes16 has
// priority over Maxima.
func Choose(cpu *tuning.Row, rows, d int, packed bool) Variants {
	from := cpu.MinRows16
	if packed {
		from = cpu.MinPacked16
	}
	return Variants{
		Lanes16:   cpu.ISA.Lanes16() && rows >= from,
		Softmax16: cpu.ISA.Lanes16() && rows > 1, // one row has a kernel that keeps it in registers
		Maxima:    cpu.MaximaInScore && cpu.ISA.Maxima() && d >= MaximaDim && rows%MaximaRows == 0,
	}
}

// FullTile is the common part of the tiles of a block whose rows see all of its keys and whose
// scores are plain products. The kernels run one after another, with operands that are checked once
// for all tiles.
type FullTile struct {
	S, Alpha, Maxima *float32 // scratch: scores, factors and maxima of the rows of one tile
	K, V             *float32 // packed keys; values in the given layout
	D, OStride       int
	C                float32 // u·log₂e, u being the unit of scores
	Layout           *kernel.PanelLayout
	Queue            *kernel.PrefetchQueue
}
