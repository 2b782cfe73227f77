package matmul

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Products in bfloat16 by tiles. A few parts of the inputs of all rows of a block stay in the L2
// cache while all panels pass, two at a time; a part of these stays in the L1 cache while all rows
// pass. Sums of two panels lie side by side until all inputs are done.

const (
	// tiledRows rows are multiplied together: with tiledInputs they are 1 MiB.
	tiledRows   = 4 * Rows
	tiledInputs = 4 * Inner

	tileCols = pairs.TileCols
)

// The rows of a call, two panels and the inputs that stay in a cache fit the bounds of a kernel's
// call.
const _ = uint(pairs.TileProducts - Rows*tileCols*tiledInputs)

// pairTiles reports whether the product goes through tiles of bfloat16.
func (p *projection) pairTiles() bool {
	return p.m.pairs() && p.inputs.pairs.Tiles()
}

// multiplyPairTiles computes a block of the product by tiles.
func (p *projection) multiplyPairTiles(u *productBlock) {
	w := memories.Get().(*Memory)
	each := kernel.RoundUp(u.Rows, 2*pairs.TileRows) * tileCols // sums of two panels
	w.tiles = kernel.Grow(w.tiles, partsOf(u.Cols, tileCols)*each)
	for k := 0; k < p.m.inner; k += tiledInputs {
		end := min(k+tiledInputs, p.m.inner)
		whole := k + (end-k)/Inner*Inner // the end of the parts that are whole
		for c := 0; c < u.Cols; c += tileCols {
			sums, next := w.tiles[c/tileCols*each:][:each], p.panelsAfter(u, k, c+tileCols, w)
			p.unpackTiles(u, k, end, c, w)
			if whole == end {
				p.addTiles(u, k, c, (whole-k)/Inner, sums, next, w)
			} else {
				if k < whole {
					p.addTiles(u, k, c, (whole-k)/Inner, sums, p.panelsAt(u, whole, c, w), w)
				}
				p.addTiles(u, whole, c, 1, sums, next, w)
			}
			if end == p.m.inner {
				pairs.FinishTiles(u.Dst[c:], sums, u.Rows, min(tileCols, u.Cols-c), u.Stride)
			}
		}
	}
	memories.Put(w)
}

// unpackTiles unpacks the inputs from k to end of up to tileCols columns of blocks, part by part.
func (p *projection) unpackTiles(u *productBlock, k, end, c int, w *Memory) {
	if !p.m.paired {
		return
	}
	w.halves = kernel.Grow(w.halves, tiledInputs*tileCols)
	for ; k < end; k += Inner {
		p.m.unpackPairs(p.inputs.t, w.unpackedTiles(k), k, u.first+c, min(tileCols, u.Cols-c), w)
	}
}

// unpackedTiles is the memory of unpacked panels from input k on.
func (w *Memory) unpackedTiles(k int) []uint16 { return w.halves[k%tiledInputs*tileCols:] }

// panelsAt is the panels of up to tileCols columns of a block from one on, of the inputs from k on.
func (p *projection) panelsAt(u *productBlock, k, c int, w *Memory) []byte {
	cols := min(tileCols, u.Cols-c)
	if p.m.paired {
		n := kernel.RoundUp(cols, panel) * min(Inner, p.m.inner-k)
		return kernel.RawBytes(w.unpackedTiles(k)[:n])
	}
	return p.m.panels(u.b, u.h, k, u.first+c, cols)
}

// panelsAfter is the panels that are read after those before column c, nil if the block ends there,
// and of blocks, which are yet to be unpacked.
func (p *projection) panelsAfter(u *productBlock, k, c int, w *Memory) []byte {
	if c >= u.Cols {
		k, c = k+tiledInputs, 0
	}
	if k >= p.m.inner || p.m.paired {
		return nil
	}
	return p.panelsAt(u, k, c, w)
}

// addTiles adds to sums the products of all rows by two panels, over some parts of the inputs from
// k on; the last part of all may have fewer.
func (p *projection) addTiles(u *productBlock, k, c, parts int, sums []float32, next []byte,
	w *Memory) {
	x := &p.inputs.pairs
	panels, steps := p.panelsAt(u, k, c, w), kernel.RoundUp(min(Inner, p.m.inner-k), pairs.Group)
	operand.Reads(panels, len(panels))
	operand.Updates(sums, len(sums))
	call := pairs.TileCall{V: &panels[0], AStep: 2 * pairs.Group * x.Count, Parts: parts,
		PartStride: 2 * Inner * kernel.RoundUp(p.m.cols, panel),
		Groups:     steps / pairs.Group, Begin: k == 0}
	if p.m.paired {
		call.PartStride = 2 * Inner * tileCols
	}
	if len(panels) > 2*steps*panel {
		call.Second = 2 * steps * panel
	}
	if next != nil || parts > 1 {
		rows := kernel.RoundUp(min(u.Rows, Rows), 2*pairs.TileRows)
		call.Request = max(1, pairs.TileRows*pairs.Group/rows)
	}
	if next != nil {
		call.Next = &next[0]
	}
	first := p.inputRow(u)
	for r := 0; r < u.Rows; r += Rows {
		call.A = &x.Halves[k*x.Count+(first+r)*pairs.Group]
		call.Sums, call.Rows = &sums[r*tileCols], min(Rows, u.Rows-r)
		pairs.MultiplyTiles(&call)
		call.Request = 0 // which the first rows have asked for
	}
}
