package attn

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Products by matrices of fewer bits: few rows widen the matrix in registers; for more, a part of
// it is widened once into the panels that the ordinary kernels read.

// widenedRows rows of a share what was widened once, where that takes as long as many rows of
// multiply-adds.
const widenedRows = 4 * productRows

// widenedCols columns are widened at a time, those that a tile of rows reads: more would not stay
// in the nearest caches until the rows read them.
const widenedCols = 2 * panel

// multiplyTyped computes a block of the product by a matrix of fewer bits, scales included.
func (p *projection) multiplyTyped(dst []float32, stride int, u *productBlock) {
	switch {
	case p.m.blocks != 0:
		p.multiplyBlocks(dst, stride, u)
	case p.m.int8:
		p.multiplyInt8(dst, stride, u)
	case u.rows <= narrow.MaxRows:
		p.multiplyPacked(dst, stride, u)
	default:
		p.multiplyWidened(dst, stride, u)
	}
	if p.m.traits.Scaled {
		scaleProducts(dst, p.m.scalesOf(u.b, u.h, u.first, u.cols), u.rows, stride)
	}
}

// multiplyPacked is for at most maxTypedRows rows.
func (p *projection) multiplyPacked(dst []float32, stride int, u *productBlock) {
	a := p.a.Data[p.a.offset(u.b, u.h, u.row):]
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols, u.rows)
		layout.Overwrite = k == 0
		layout.InOrder = p.panelsSequential()
		addTyped(p.m.format, dst, a[k:], part, u.rows, u.cols, stride, p.a.SL, &layout)
	}
}

// multiplyWidened is for any number of rows. A few panels at a time are widened, so that they are
// in the cache when all rows read them.
func (p *projection) multiplyWidened(dst []float32, stride int, u *productBlock) {
	a := p.a.Data[p.a.offset(u.b, u.h, u.row):]
	w := scratches.Get().(*scratch)
	w.k = grow(w.k, productInner*widenedCols)
	for k := 0; k < p.m.inner; k += productInner {
		for c := 0; c < u.cols; c += widenedCols {
			part, typed := p.m.typedPart(u.b, u.h, k, u.first+c, min(widenedCols, u.cols-c),
				u.rows)
			layout := packedLayout(typed.Keys, min(widenedCols, u.cols-c))
			layout.Overwrite = k == 0
			layout.After = p.afterWidened(u, k, c+widenedCols)
			narrow.Widen(tuned.ISA, kernel.Format(p.m.format), w.k, part, layout.PanelStride, &typed)
			addProduct(dst[c:], a[k:], w.k, u.rows, stride, p.a.SL, &layout)
		}
	}
	scratches.Put(w)
}

// afterWidened is where the panels begin that are widened next, those of column c of a block if it
// has so many, 0 if they are not to be prefetched.
func (p *projection) afterWidened(u *productBlock, k, c int) uintptr {
	if c >= u.cols {
		k, c = k+productInner, 0
	}
	if k >= p.m.inner || u.rows <= inPlaceRows || !tuned.PanelsAhead(u.rows) {
		return 0
	}
	return operand.Address(p.m.panels(u.b, u.h, k, u.first+c, panel), 0)
}

// addTyped is addRows for a matrix of fewer bits and at most maxTypedRows rows.
func addTyped(t Format, dst, a []float32, b []byte, rows, cols, dstStride, aStride int,
	b0 *kernel.PanelLayout) {
	whole := cols / panel * panel
	part := *b0
	if part.Cols = whole; whole > 0 {
		narrow.Accumulate(&tuned, kernel.Format(t), dst, a, b, nil, rows, dstStride, aStride, &part)
	}
	if whole == cols {
		return
	}
	var last ragged
	last.load(dst[whole:], rows, dstStride, cols-whole)
	part.Cols = panel
	narrow.Accumulate(&tuned, kernel.Format(t), last[:], a,
		b[whole/panel*b0.PanelStride*kernel.Format(t).Bytes():], nil, rows, panel,
		aStride, &part)
	last.store(dst[whole:], rows, dstStride, cols-whole)
}

// scaleProducts multiplies each column by its scale, a few rows at a time: a call of assembly must
// not last.
func scaleProducts(dst, scales []float32, rows, stride int) {
	step := max(1, kernel.CallElements/len(scales))
	for r := 0; r < rows; r += step {
		floats.ScaleColumns(tuned.ISA, dst[r*stride:], scales, min(step, rows-r), stride, len(scales))
	}
}

// typedPart is part for a matrix of fewer bits and some rows; the layout has whole panels.
func (m *Matrix) typedPart(b, h, k, first, cols, rows int) ([]byte, kernel.PanelLayout) {
	layout := kernel.ScoreLayout(kernel.Format(m.format), min(productInner, m.inner-k), roundUp(cols,
		panel))
	if m.int8 {
		layout.Set(&tuned, tuned.PrefetchInt8, tuned.PrefetchInt8, false)
	} else {
		layout.SetTyped(&tuned, kernel.Format(m.format), rows, productInner*panel*m.traits.Bytes, false)
	}
	return m.panels(b, h, k, first, cols), layout
}

// scalesOf are the scales of columns [first, first+cols), for I8.
func (m *Matrix) scalesOf(b, h, first, cols int) []float32 {
	if !m.traits.Scaled {
		return nil
	}
	return m.scales[m.index(b, h)*roundUp(m.cols, panel)+first:][:cols]
}

// Products by matrices with MatrixConfig.Integers: rows of a become integers with a scale for each
// int8Group inputs, and their products with the matrix's integers are exact sums.

// multiplyInt8 computes a block of the product, but for the scales of columns: for each group of
// inputs the exact sum of products times the scale of the group, added in ascending order.
func (p *projection) multiplyInt8(dst []float32, stride int, u *productBlock) {
	inner := integers.Pitch(p.m.inner)
	groups := integers.Groups(p.m.inner)
	first := (u.b*p.a.H+u.h)*p.a.L + u.row
	step := integers.Group
	if p.ints.Together() {
		step = productInner
	}
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols, u.rows)
		steps := layout.Keys
		for g := 0; g < steps; g += step {
			layout.Keys = min(step, steps-g)
			layout.Overwrite = k+g == 0
			at := first*groups + (k+g)/integers.Group
			addInt8(dst, p.ints.From(first*inner+k+g, at), part[g*panel:], p.scales[at:], u, stride, inner,
				groups, &layout)
		}
	}
}

// addInt8 is accumulateInt8 for any number of columns.
func addInt8(dst []float32, w integers.Rows, v []byte, f []float32, u *productBlock, stride,
	wStride,
	fStride int, b0 *kernel.PanelLayout) {
	const step = productRows
	whole := u.cols / panel * panel
	part := *b0
	for r := 0; r < u.rows; r += step {
		rows, w, f := min(step, u.rows-r), w.From(r*wStride, r*fStride), f[r*fStride:]
		if part.Cols = whole; whole > 0 {
			integers.Multiply(&tuned, dst[r*stride:], &w, v, f, rows, stride, wStride, fStride, &part)
		}
		if whole == u.cols {
			continue
		}
		var last ragged
		last.load(dst[r*stride+whole:], rows, stride, u.cols-whole)
		part.Cols = panel
		integers.Multiply(&tuned, last[:], &w, v[whole/panel*b0.PanelStride:], f, rows, panel, wStride,
			fStride, &part)
		last.store(dst[r*stride+whole:], rows, stride, u.cols-whole)
	}
}

// multiplyBlocks computes a block of the product by a matrix of blocks.
func (p *projection) multiplyBlocks(dst []float32, stride int, u *productBlock) {
	if !p.m.int8 {
		p.multiplyDecoded(dst, stride, u)
		return
	}
	n := p.m.inner / blocks.Inputs
	a := p.blocks[((u.b*p.a.H+u.h)*p.a.L+u.row)*n:]
	if p.few() {
		p.multiplyFew(dst, a, stride, u)
		return
	}
	w := scratches.Get().(*scratch)
	defer scratches.Put(w)
	most := 1 // so that one row reads one stream
	if u.rows > blockwise.Tile {
		most = blockwise.Panels
	}
	whole := u.cols / panel
	for i := 0; i < whole; i += most {
		panels := min(most, whole-i)
		packed := p.m.blockData(u.first/panel+i, panels)
		blockwise.Multiply(&tuned, p.m.blocks, dst[i*panel:], a, packed, panels, u.rows, n, stride, n,
			w.blockMemory())
	}
	if whole*panel == u.cols {
		return
	}
	dst, packed := dst[whole*panel:], p.m.blockData(u.first/panel+whole, 1)
	for r := 0; r < u.rows; r += productRows {
		rows := min(productRows, u.rows-r)
		var last ragged
		blockwise.Multiply(&tuned, p.m.blocks, last[:], a[r*n:], packed, 1, rows, n, panel, n,
			w.blockMemory())
		last.store(dst[r*stride:], rows, stride, u.cols-whole*panel)
	}
}

// few reports whether the rows are few that are multiplied by blocks as they lie in memory.
func (p *projection) few() bool {
	return p.m.blocks != 0 && p.m.int8 && blockwise.Few(&tuned, p.dst.L)
}

// multiplyFew is multiplyBlocks for few rows.
func (p *projection) multiplyFew(dst []float32, a []blockwise.Row, stride int, u *productBlock) {
	n, whole := p.m.inner/blocks.Inputs, u.cols/panel
	packed := p.m.blockData(u.first/panel, partsOf(u.cols, panel))
	at, next := whole*p.m.blockPanel(), p.next
	if at < len(packed) {
		next = packed[at:]
	}
	if whole > 0 {
		blockwise.MultiplyFew(&tuned, p.m.blocks, dst, a, packed[:at], next, whole, u.rows, n, stride, n)
	}
	if whole*panel == u.cols {
		return
	}
	var last ragged
	blockwise.MultiplyFew(&tuned, p.m.blocks, last[:], a, packed[at:], p.next, 1, u.rows, n, panel, n)
	last.store(dst[whole*panel:], u.rows, stride, u.cols-whole*panel)
}

// multiplyDecoded is multiplyBlocks without Integers. A few panels at a time become float32, so
// that they are in the cache when all rows read them.
func (p *projection) multiplyDecoded(dst []float32, stride int, u *productBlock) {
	w := scratches.Get().(*scratch)
	w.k = grow(w.k, productInner*widenedCols)
	a, of := p.a.Data[p.a.offset(u.b, u.h, u.row):], p.m.blocks.Traits()
	for k := 0; k < p.m.inner; k += productInner {
		steps := min(productInner, p.m.inner-k)
		for c := 0; c < u.cols; c += widenedCols {
			layout := packedLayout(steps, min(widenedCols, u.cols-c))
			layout.Overwrite = k == 0
			for x := 0; x < layout.Cols; x += panel {
				packed := p.m.blockData((u.first+c+x)/panel, 1)[k/of.Inputs*of.Packed:]
				blockwise.Decode(tuned.ISA, p.m.blocks, w.k[x*steps:], packed, steps/blocks.Inputs,
					w.blockMemory())
			}
			addProduct(dst[c:], a[k:], w.k, u.rows, stride, p.a.SL, &layout)
		}
	}
	scratches.Put(w)
}
