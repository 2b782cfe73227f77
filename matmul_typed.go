package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
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
func (p *projection) multiplyTyped(u *productBlock) {
	switch {
	case p.m.blocks != 0:
		p.multiplyBlocks(u)
	case p.m.int8:
		p.multiplyInt8(u)
	case u.rows <= narrow.MaxRows:
		p.multiplyPacked(u)
	default:
		p.multiplyWidened(u)
	}
	if p.m.traits.Scaled {
		scaleProducts(u.dst, p.m.scalesOf(u.b, u.h, u.first, u.cols), u.rows, u.stride)
	}
}

// multiplyPacked is for at most maxTypedRows rows.
func (p *projection) multiplyPacked(u *productBlock) {
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols, u.rows)
		layout.Overwrite = k == 0
		layout.InOrder = p.panelsSequential()
		u.addTyped(kernel.Format(p.m.format), a[k:], stride, part, &layout)
	}
}

// multiplyWidened is for any number of rows. A few panels at a time are widened, so that they are
// in the cache when all rows read them.
func (p *projection) multiplyWidened(u *productBlock) {
	w := scratches.Get().(*scratch)
	w.k = grow(w.k, productInner*widenedCols)
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += productInner {
		for c := 0; c < u.cols; c += widenedCols {
			part, typed := p.m.typedPart(u.b, u.h, k, u.first+c, min(widenedCols, u.cols-c),
				u.rows)
			layout := packedLayout(typed.Keys, min(widenedCols, u.cols-c))
			layout.Overwrite = k == 0
			layout.After = p.afterWidened(u, k, c+widenedCols)
			narrow.Widen(tuned.ISA, kernel.Format(p.m.format), w.k, part, layout.PanelStride, &typed)
			addProduct(u.dst[c:], a[k:], w.k, u.rows, u.stride, stride, &layout)
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
func (u *productBlock) addTyped(t kernel.Format, a []float32, aStride int, b []byte,
	b0 *kernel.PanelLayout) {
	whole := u.cols / panel * panel
	part := *b0
	if part.Cols = whole; whole > 0 {
		narrow.Accumulate(&tuned, t, u.dst, a, b, nil, u.rows, u.stride, aStride, &part)
	}
	if whole == u.cols {
		return
	}
	var last ragged
	last.load(u.dst[whole:], u.rows, u.stride, u.cols-whole)
	part.Cols = panel
	narrow.Accumulate(&tuned, t, last[:], a, b[whole/panel*b0.PanelStride*t.Bytes():], nil, u.rows,
		panel, aStride, &part)
	last.store(u.dst[whole:], u.rows, u.stride, u.cols-whole)
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
func (p *projection) multiplyInt8(u *productBlock) {
	a := int8Rows{p.inputs.ints, p.inputs.scales, integers.Pitch(p.m.inner),
		integers.Groups(p.m.inner)}
	first, step := p.inputRow(u), integers.Group
	if a.ints.Together() {
		step = productInner
	}
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols, u.rows)
		steps := layout.Keys
		for g := 0; g < steps; g += step {
			layout.Keys = min(step, steps-g)
			layout.Overwrite = k+g == 0
			a.add(u, first, k+g, part[g*panel:], &layout)
		}
	}
}

// int8Rows are rows of integers that are pitch apart, each with a scale for each of some groups.
type int8Rows struct {
	ints          integers.Rows
	scales        []float32
	pitch, groups int
}

// from is the rows from one on, without the steps before k.
func (x *int8Rows) from(row, k int) (integers.Rows, []float32) {
	at := row*x.groups + k/integers.Group
	return x.ints.From(row*x.pitch+k, at), x.scales[at:]
}

// add is integers.Multiply of a block's rows, which begin with row first, for any number of rows
// and columns, and for the steps from k on.
func (x *int8Rows) add(u *productBlock, first, k int, v []byte, b0 *kernel.PanelLayout) {
	const step = productRows
	whole := u.cols / panel * panel
	part := *b0
	for r := 0; r < u.rows; r += step {
		rows, dst := min(step, u.rows-r), u.dst[r*u.stride:]
		w, scales := x.from(first+r, k)
		if part.Cols = whole; whole > 0 {
			integers.Multiply(&tuned, dst, &w, v, scales, rows, u.stride, x.pitch, x.groups, &part)
		}
		if whole == u.cols {
			continue
		}
		var last ragged
		last.load(dst[whole:], rows, u.stride, u.cols-whole)
		part.Cols = panel
		integers.Multiply(&tuned, last[:], &w, v[whole/panel*b0.PanelStride:], scales, rows, panel,
			x.pitch, x.groups, &part)
		last.store(dst[whole:], rows, u.stride, u.cols-whole)
	}
}

// multiplyBlocks computes a block of the product by a matrix of blocks.
func (p *projection) multiplyBlocks(u *productBlock) {
	if !p.m.int8 {
		p.multiplyDecoded(u)
		return
	}
	n := p.m.inner / blocks.Inputs
	a := p.inputs.blocks[p.inputRow(u)*n:]
	if p.few() {
		p.multiplyFew(a, u)
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
		blockwise.Multiply(&tuned, p.m.blocks, u.dst[i*panel:], a, packed, panels, u.rows, n, u.stride,
			n, w.blockMemory())
	}
	if whole*panel == u.cols {
		return
	}
	dst, packed := u.dst[whole*panel:], p.m.blockData(u.first/panel+whole, 1)
	for r := 0; r < u.rows; r += productRows {
		rows := min(productRows, u.rows-r)
		var last ragged
		blockwise.Multiply(&tuned, p.m.blocks, last[:], a[r*n:], packed, 1, rows, n, panel, n,
			w.blockMemory())
		last.store(dst[r*u.stride:], rows, u.stride, u.cols-whole*panel)
	}
}

// few reports whether the rows are few that are multiplied by blocks as they lie in memory.
func (p *projection) few() bool {
	return p.m.blocks != 0 && p.m.int8 && blockwise.Few(&tuned, p.dst.L)
}

// multiplyFew is multiplyBlocks for few rows.
func (p *projection) multiplyFew(a []blockwise.Row, u *productBlock) {
	n, whole := p.m.inner/blocks.Inputs, u.cols/panel
	packed := p.m.blockData(u.first/panel, partsOf(u.cols, panel))
	at, next := whole*p.m.blockPanel(), p.next
	if at < len(packed) {
		next = packed[at:]
	}
	if whole > 0 {
		blockwise.MultiplyFew(&tuned, p.m.blocks, u.dst, a, packed[:at], next, whole, u.rows, n, u.stride,
			n)
	}
	if whole*panel == u.cols {
		return
	}
	var last ragged
	blockwise.MultiplyFew(&tuned, p.m.blocks, last[:], a, packed[at:], p.next, 1, u.rows, n, panel, n)
	last.store(u.dst[whole*panel:], u.rows, u.stride, u.cols-whole*panel)
}

// multiplyDecoded is multiplyBlocks without Integers. A few panels at a time become float32, so
// that they are in the cache when all rows read them.
func (p *projection) multiplyDecoded(u *productBlock) {
	w := scratches.Get().(*scratch)
	w.k = grow(w.k, productInner*widenedCols)
	of := p.m.blocks.Traits()
	a, stride := p.input(u)
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
			addProduct(u.dst[c:], a[k:], w.k, u.rows, u.stride, stride, &layout)
		}
	}
	scratches.Put(w)
}

// Format returns the format of the matrix's weights: that of [PackMatrix], F16 and BF16 for what
// [PackBlocks] made of BlockF16 and BlockBF16, and [Blocks] for other blocks.
func (m *Matrix) Format() Format { return m.format }

// BlockType returns the type of the matrix's blocks, and false if it has none: if it was made by
// [PackMatrix], or of halves.
func (m *Matrix) BlockType() (t BlockType, ok bool) {
	return BlockType(m.blocks), m.blocks != 0
}

// Rows decodes the weights of some outputs, as many rows: the embeddings of tokens out of a matrix
// that computes logits, too, so that tied weights are kept once.
//
//	outputs 0 to N − 1, in any order, also several times; none of them is an empty dst
//	dst     [batch, heads, len(outputs), K] of the matrix's Dims, with any strides
//
// They are exactly the weights that products use: in F16 and BF16 rounded when they were packed, of
// blocks what these decode to. Those of I8 are integers times the output's scale, rounded once, and
// then rotated back, which rounds again; so they are the packed weights as closely as 8 bits are.
//
// 16 outputs lie together, and are decoded together: an output takes as long as 16 in a row that
// begin with a multiple of 16. Rows does not allocate.
//
// An output that does not exist is [ErrOption], a dst of another shape [ErrShape], a closed matrix
// [ErrClosed]; a view that is not valid is [ErrShape], [ErrStride] or [ErrLength], and one that
// shares memory with outputs [ErrOverlap]. Then nothing was written.
func (m *Matrix) Rows(dst Tensor, outputs []int32) error {
	if err := m.checkRows(&dst, outputs); err != nil {
		return err
	}
	w := scratches.Get().(*scratch)
	for n := range m.b * m.h {
		b, h := n/m.h, n%m.h
		for first, end := 0, 0; first < len(outputs); first = end {
			for end = first + 1; end < len(outputs) && outputs[end]/panel == outputs[first]/panel; {
				end++
			}
			part := dst
			part.L, part.Data = end-first, dst.Data[dst.offset(b, h, first):]
			m.rowsOfPanel(part, b, h, outputs[first:end], w)
		}
	}
	scratches.Put(w)
	runtime.KeepAlive(m) // and with it its memory
	return nil
}

// checkRows validates the arguments of Rows.
func (m *Matrix) checkRows(dst *Tensor, outputs []int32) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	if err := checkView("dst", dst); err != nil {
		return err
	}
	if dst.B != m.b || dst.H != m.h || dst.L != len(outputs) || dst.D != m.inner {
		return fail(ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]", dst.B, dst.H, dst.L, dst.D, m.b,
			m.h, len(outputs), m.inner)
	}
	for i, output := range outputs {
		if output < 0 || int(output) >= m.cols {
			return fail(ErrOption, "outputs[%d] is %d, want 0 to %d", i, output, m.cols-1)
		}
	}
	if err := checkDistinct("dst", dst); err != nil {
		return err
	}
	all := [...]views.Extent{extentOf("dst", dst), {Name: "outputs", Size: 4 * uintptr(len(outputs))}}
	all[0].Begin, all[1].Begin = operand.Address(dst.Data, 0), operand.Address(outputs, 0)
	return views.CheckApart(all[:1], all[1:])
}

// rowsOfPanel decodes outputs of one panel into the rows of dst, which begin with its data.
func (m *Matrix) rowsOfPanel(dst Tensor, b, h int, outputs []int32, w *scratch) {
	first := int(outputs[0]) / panel * panel
	for k := 0; k < m.inner; k += productInner {
		steps := min(productInner, m.inner-k)
		weights := m.decodePanel(b, h, k, first, steps, w)
		for i, output := range outputs {
			row := dst.Data[i*dst.SL+k:][:steps]
			from := weights[int(output)-first:]
			for x := range row {
				row[x] = from[x*panel]
			}
			if m.traits.Scaled {
				scale := m.scalesOf(b, h, int(output), 1)[0]
				for x := range row {
					row[x] *= scale
				}
				integers.Rotate(tuned.ISA, row, row, 1, steps, steps, steps, m.rotation)
			}
		}
	}
}

// decodePanel is some inner steps from k on of the panel of columns from first on, as float32: what
// products multiply by.
func (m *Matrix) decodePanel(b, h, k, first, steps int, w *scratch) []float32 {
	if m.format == F32 {
		return elements[float32](m.panels(b, h, k, first, panel))
	}
	w.k = grow(w.k, productInner*panel)
	if m.blocks != 0 {
		of := m.blocks.Traits()
		packed := m.blockData(first/panel, 1)[k/of.Inputs*of.Packed:]
		blockwise.Decode(tuned.ISA, m.blocks, w.k, packed, steps/blocks.Inputs, w.blockMemory())
		return w.k
	}
	part, layout := m.typedPart(b, h, k, first, panel, 1)
	narrow.Widen(tuned.ISA, kernel.Format(m.format), w.k, part, layout.PanelStride, &layout)
	return w.k
}
