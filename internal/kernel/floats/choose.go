package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// tuned is every policy that depends on the CPU, and which kernels are in use.
var tuned = tuning.Host()

const (
	minTileRows = tuning.MinTileRows
	maxTileRows = tuning.MaxTileRows
)

const (
	// maximaRows is what the rows of a call of scoreMaxima are a multiple of; softmaxMaxima takes up
	// to maxTileRows.
	maximaRows = 6

	// maximaDim is the least dimension of scoreMaxima: one row of the tile before is looked at in
	// every 8 steps but the last 4.
	maximaDim = 8*maximaRows + 4
)

// kernels is the variants that some rows go through. The zero value is kernels with 8 lanes on
// amd64, and with 4 on arm64.
type kernels struct {
	lanes16   bool // score, and accumulate of whole panels, have 16 lanes
	softmax16 bool // so has softmax
	maxima    bool // score finds the maxima of rows for softmax; both have 8 lanes
}

// chooseKernels chooses the variants for some rows of queries, their d dimensions, and whether the
// call has packed keys. Who calls a kernel that does not depend on one of these leaves it 0.
// lanes16 goes before maxima, where both are true.
func chooseKernels(rows, d int, packed bool) kernels {
	from := tuned.MinRows16
	if packed {
		from = tuned.MinPacked16
	}
	return kernels{
		lanes16:   tuned.ISA.Lanes16() && rows >= from,
		softmax16: tuned.ISA.Lanes16() && rows > 1, // one row has a kernel that keeps it in registers
		maxima:    tuned.MaximaInScore && tuned.ISA.Maxima() && d >= maximaDim && rows%maximaRows == 0,
	}
}

// fullTile is what the tiles of a block have in common whose rows see all of its keys, with scores
// that are products and nothing more. They go through the kernels one after another, with
// operands that are checked once for all tiles.
type fullTile struct {
	s, alpha, maxima *float32 // scratch: scores, factors and maxima of the rows of one tile
	k, v             *float32 // packed keys; values as layout says
	d, oStride       int
	c                float32 // u·log₂e, u being the unit of scores
	layout           *kernel.PanelLayout
	queue            *kernel.PrefetchQueue
}
