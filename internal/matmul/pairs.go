package matmul

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products in bfloat16, by weights that were packed as pairs or by blocks, which become pairs a few
// panels at a time, so that they are in the cache when all rows read them.

// multiplyPairs computes a block of the product in bfloat16.
func (p *projection) multiplyPairs(u *productBlock) {
	if p.pairTiles() {
		p.multiplyPairTiles(u)
		return
	}
	if p.rounded() {
		p.multiplyRounded(u)
		return
	}
	w := memories.Get().(*Memory)
	x, cols := &p.inputs.pairs, u.Cols
	if p.m.paired {
		cols = widenedCols
		w.halves = kernel.Grow(w.halves, Inner*widenedCols)
	}
	kind := typedKernel{kernel.Pairs, x.Normal(p.inputRow(u), u.Rows, p.m.leastWeight(p.inputs.t, w))}
	for k := 0; k < p.m.inner; k += Inner {
		for c := 0; c < u.Cols; c += cols {
			some := u.part(c, min(cols, u.Cols-c))
			right, layout := p.pairPanels(u, k, c, some.Cols, w)
			layout.Overwrite = k == 0
			p.addPairs(u, &some, kind, k, right, &layout)
		}
	}
	memories.Put(w)
}

// rounded reports whether the rows are few that multiply blocks as they lie in memory.
func (p *projection) rounded() bool {
	t := p.inputs.t
	return p.m.paired && !p.pairTiles() && p.dst.L <= t.MaxRoundedRows &&
		blockwise.HasRounded(t.ISA, p.m.blocks)
}

// multiplyRounded computes a block of the product for such rows.
func (p *projection) multiplyRounded(u *productBlock) {
	whole, rows := u.Cols/panel, &p.inputs.pairs
	x := blockwise.Rounded{Type: p.m.blocks, N: p.m.inner / blocks.Inputs, Rows: u.Rows,
		A: rows.From(p.inputRow(u), 0), AStride: rows.Pitch}
	if x.Panels = whole; whole > 0 {
		x.O, x.OStride, x.Packed = u.Dst, u.Stride, p.m.blockData(u.first/panel, whole)
		blockwise.MultiplyRounded(p.inputs.t, &x)
	}
	if whole*panel == u.Cols {
		return
	}
	var last ragged
	x.O, x.OStride, x.Panels, x.Packed = last[:], panel, 1, p.m.blockData(u.first/panel+whole, 1)
	blockwise.MultiplyRounded(p.inputs.t, &x)
	last.store(u.Dst[whole*panel:], u.Rows, u.Stride, u.Cols-whole*panel)
}

// addPairs adds to some columns of a block the products of all rows, over the inputs of panels.
func (p *projection) addPairs(u *productBlock, to *outputBlock, kind typedKernel, k int,
	right []byte, layout *kernel.PanelLayout) {
	first, x := p.inputRow(u), &p.inputs.pairs
	for r := 0; r < to.Rows; r += Rows {
		some := outputBlock{to.Dst[r*to.Stride:], to.Stride, min(Rows, to.Rows-r), to.Cols}
		some.addTyped(p.inputs.t, kind, x.From(first+r, k), x.Pitch, right, layout)
	}
}

// pairPanels returns the panels of pairs of some columns of a block, from column c on, of the
// inputs from k on.
func (p *projection) pairPanels(u *productBlock, k, c, cols int, w *Memory) ([]byte,
	kernel.PanelLayout) {
	if !p.m.paired {
		return p.m.typedPanels(p.inputs.t, u.b, u.h, k, u.first+c, cols, u.Rows)
	}
	layout := kernel.ScoreLayout(kernel.Pairs, min(Inner, p.m.inner-k), kernel.RoundUp(cols, panel))
	p.m.unpackPairs(p.inputs.t, w.halves, k, u.first+c, cols, w)
	return kernel.RawBytes(w.halves), layout
}

// unpackPairs makes panels of pairs of up to Inner inputs of some blocks, from input k and column
// first on.
func (m *Matrix) unpackPairs(t *tuning.Row, dst []uint16, k, first, cols int, w *Memory) {
	of, steps := m.blocks.Traits(), min(Inner, m.inner-k)
	for c := 0; c < cols; c += panel {
		packed := m.blockData((first+c)/panel, 1)[k/of.Inputs*of.Packed:]
		blockwise.DecodePairs(t.ISA, m.blocks, dst[c*steps:], packed, steps/blocks.Inputs,
			w.blockMemory())
	}
}

// leastWeight is the least magnitude of weights in bfloat16, where kernels need it.
func (m *Matrix) leastWeight(t *tuning.Row, w *Memory) (least pairs.Least) {
	if pairs.Flushes {
		return least
	}
	if known := atomic.LoadUint32(&m.least); known > 0 {
		return pairs.Least(known - 1)
	}
	if m.paired {
		least = m.leastOfBlocks(t, w)
	} else {
		least = pairs.LeastOf(kernel.Elements[uint16](m.data))
	}
	atomic.StoreUint32(&m.least, uint32(least)+1)
	return least
}

// leastOfBlocks unpacks all blocks once to find the least magnitude.
func (m *Matrix) leastOfBlocks(t *tuning.Row, w *Memory) pairs.Least {
	least := pairs.LeastOf(nil)
	for c := 0; c < m.cols; c += panel {
		for k := 0; k < m.inner; k += Inner {
			m.unpackPairs(t, w.halves, k, c, panel, w)
			least = min(least, pairs.LeastOf(w.halves[:min(Inner, m.inner-k)*panel]))
		}
	}
	return least
}
