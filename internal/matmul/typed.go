package matmul

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Products by matrices of fewer bits: few rows widen the matrix in registers; for more, a part of
// it is widened once into the panels that the ordinary kernels read.

// WidenedRows rows of a share widened columns where widening costs as much as the multiply-adds of
// many rows.
const WidenedRows = 4 * Rows

// widenedCols columns are widened at a time, as many as a tile of rows reads: more would not stay
// in the nearest caches until they are read.
const widenedCols = 2 * panel

// multiplyTyped computes a block of the product by a matrix of fewer bits, without scales of I8.
func (p *projection) multiplyTyped(u *productBlock) {
	switch {
	case p.m.pairs():
		p.multiplyPairs(u)
	case p.m.blocks != 0:
		p.multiplyBlocks(u)
	case p.m.int8:
		p.multiplyInt8(u)
	case u.Rows <= narrow.MaxRows:
		p.multiplyPacked(u)
	default:
		p.multiplyWidened(u)
	}
}

// multiplyPacked is for at most maxTypedRows rows.
func (p *projection) multiplyPacked(u *productBlock) {
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += Inner {
		right, layout := p.m.typedPanels(p.inputs.t, u.b, u.h, k, u.first, u.Cols, u.Rows)
		layout.Overwrite = k == 0
		layout.InOrder = p.panelsSequential()
		u.addTyped(p.inputs.t, typedKernel{format: p.m.format}, a[k:], stride, right, &layout)
	}
}

// multiplyWidened is for any number of rows. A few panels at a time are widened, so that they are
// in the cache when all rows read them.
func (p *projection) multiplyWidened(u *productBlock) {
	w := memories.Get().(*Memory)
	w.k = kernel.Grow(w.k, Inner*widenedCols)
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += Inner {
		for c := 0; c < u.Cols; c += widenedCols {
			right, typed := p.m.typedPanels(p.inputs.t, u.b, u.h, k, u.first+c, min(widenedCols, u.Cols-c),
				u.Rows)
			some := u.part(c, min(widenedCols, u.Cols-c))
			layout := panelLayout(p.inputs.t, typed.Keys, some.Cols)
			layout.Overwrite = k == 0
			layout.After = p.afterWidened(u, k, c+widenedCols)
			narrow.Widen(p.inputs.t.ISA, p.m.format, w.k, right, layout.PanelStride, &typed)
			some.add(p.inputs.t, a[k:], stride, w.k, &layout)
		}
	}
	memories.Put(w)
}

// afterWidened returns the address of the panels that are widened next, at column c if the block
// has it, 0 if they are not to be prefetched.
func (p *projection) afterWidened(u *productBlock, k, c int) uintptr {
	if c >= u.Cols {
		k, c = k+Inner, 0
	}
	if k >= p.m.inner || u.Rows <= kernel.InPlaceRows || !p.inputs.t.PanelsAhead(u.Rows) {
		return 0
	}
	return operand.Address(p.m.panels(u.b, u.h, k, u.first+c, panel), 0)
}

// typedPanels is floatPanels for a matrix of fewer bits and some rows; the layout has whole panels.
func (m *Matrix) typedPanels(t *tuning.Row, b, h, k, first, cols, rows int) ([]byte,
	kernel.PanelLayout) {
	layout := kernel.ScoreLayout(m.format, min(Inner, m.inner-k),
		kernel.RoundUp(cols, panel))
	if m.int8 {
		layout.Set(t, t.PrefetchInt8, t.PrefetchInt8, false)
	} else {
		layout.SetTyped(t, m.format, rows, Inner*panel*m.traits.Bytes, false)
	}
	return m.panels(b, h, k, first, cols), layout
}

// scalesOf are the scales of columns [first, first+cols), for I8.
func (m *Matrix) scalesOf(b, h, first, cols int) []float32 {
	if !m.traits.Scaled {
		return nil
	}
	return m.scales[m.index(b, h)*kernel.RoundUp(m.cols, panel)+first:][:cols]
}

// Products by matrices with MatrixConfig.Integers: rows of a become integers with a scale for each
// int8Group inputs, and their products with the matrix's integers are exact sums.

// multiplyInt8 computes a block of the product, but for the scales of columns: for each group of
// inputs the exact sum of products times the scale of the group, added in ascending order.
func (p *projection) multiplyInt8(u *productBlock) {
	a := integerRows{Rows: p.inputs.ints, Scales: p.inputs.scales,
		Pitch: integers.Pitch(p.m.inner), Groups: integers.Groups(p.m.inner)}
	first, step := p.inputRow(u), integers.Group
	if a.Rows.Together() {
		step = Inner
	}
	for k := 0; k < p.m.inner; k += Inner {
		right, layout := p.m.typedPanels(p.inputs.t, u.b, u.h, k, u.first, u.Cols, u.Rows)
		steps := layout.Keys
		for g := 0; g < steps; g += step {
			layout.Keys = min(step, steps-g)
			layout.Overwrite = k+g == 0
			u.addIntegers(p.inputs.t, &a, first, k+g, right[g*panel:], &layout)
		}
	}
}

// multiplyBlocks computes a block of the product by a matrix of blocks.
func (p *projection) multiplyBlocks(u *productBlock) {
	if !p.m.int8 {
		p.multiplyDecoded(u)
		return
	}
	var x blockwise.Product // field by field, since copies wait for their stores
	x.Type, x.N, x.AStride = p.m.blocks, p.m.inner/blocks.Inputs, p.m.inner/blocks.Inputs
	x.A, x.Packed = p.inputs.blocks[p.inputRow(u)*x.N:],
		p.m.blockData(u.first/panel, partsOf(u.Cols, panel))
	x.O, x.Rows, x.OStride = u.Dst, u.Rows, u.Stride
	if p.few() {
		multiplyFew(p.inputs.t, &x, u.Cols, p.next)
		return
	}
	w := memories.Get().(*Memory)
	defer memories.Put(w)
	multiplyBlocks(p.inputs.t, &x, u.Cols, w.blockMemory())
}

// few reports whether the rows are few that are multiplied by blocks as they lie in memory.
func (p *projection) few() bool {
	return p.m.blocks != 0 && p.m.int8 && blockwise.Few(p.inputs.t, p.m.blocks, p.dst.L)
}

// multiplyDecoded is multiplyBlocks without Integers. A few panels at a time become float32, so
// that they are in the cache when all rows read them.
func (p *projection) multiplyDecoded(u *productBlock) {
	w := memories.Get().(*Memory)
	w.k = kernel.Grow(w.k, Inner*widenedCols)
	of := p.m.blocks.Traits()
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += Inner {
		steps := min(Inner, p.m.inner-k)
		for c := 0; c < u.Cols; c += widenedCols {
			some := u.part(c, min(widenedCols, u.Cols-c))
			layout := panelLayout(p.inputs.t, steps, some.Cols)
			layout.Overwrite = k == 0
			for x := 0; x < layout.Cols; x += panel {
				packed := p.m.blockData((u.first+c+x)/panel, 1)[k/of.Inputs*of.Packed:]
				blockwise.Decode(p.inputs.t.ISA, p.m.blocks, w.k[x*steps:], packed, steps/blocks.Inputs,
					w.blockMemory())
			}
			some.add(p.inputs.t, a[k:], stride, w.k, &layout)
		}
	}
	memories.Put(w)
}

// Format returns the format of the weights.
func (m *Matrix) Format() kernel.Format {
	if m.format == kernel.Pairs {
		return kernel.BF16
	}
	return m.format
}

// BlockType returns the type of the blocks, and false if there are none.
func (m *Matrix) BlockType() (t blocks.Type, ok bool) { return m.blocks, m.blocks != 0 }

// Rows decodes the weights of some outputs, as many rows.
func (m *Matrix) Rows(t *tuning.Row, dst *views.Tensor, outputs []int32) error {
	if err := m.checkRows(dst, outputs); err != nil {
		return err
	}
	w := memories.Get().(*Memory)
	for n := range m.b * m.h {
		b, h := n/m.h, n%m.h
		for first, end := 0, 0; first < len(outputs); first = end {
			for end = first + 1; end < len(outputs) && outputs[end]/panel == outputs[first]/panel; {
				end++
			}
			some := *dst
			some.L, some.Data = end-first, dst.Data[dst.Offset(b, h, first):]
			m.rowsOfPanel(t, some, b, h, outputs[first:end], w)
		}
	}
	memories.Put(w)
	runtime.KeepAlive(m) // and with it its memory
	return nil
}

// checkRows validates the arguments of Rows.
func (m *Matrix) checkRows(dst *views.Tensor, outputs []int32) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	if err := dst.Check("dst"); err != nil {
		return err
	}
	if dst.B != m.b || dst.H != m.h || dst.L != len(outputs) || dst.D != m.inner {
		return views.Fail(views.ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]", dst.B, dst.H, dst.L,
			dst.D, m.b, m.h, len(outputs), m.inner)
	}
	for i, output := range outputs {
		if output < 0 || int(output) >= m.cols {
			return views.Fail(views.ErrOption, "outputs[%d] is %d, want 0 to %d", i, output, m.cols-1)
		}
	}
	if err := dst.CheckDistinct("dst"); err != nil {
		return err
	}
	all := [...]views.Extent{dst.Extent("dst"), {Name: "outputs", Size: 4 * uintptr(len(outputs))}}
	all[0].Begin, all[1].Begin = operand.Address(dst.Data, 0), operand.Address(outputs, 0)
	return views.CheckApart(all[:1], all[1:])
}

// rowsOfPanel decodes outputs of one panel into the rows of dst, which begin with its data.
func (m *Matrix) rowsOfPanel(t *tuning.Row, dst views.Tensor, b, h int, outputs []int32,
	w *Memory) {
	first := int(outputs[0]) / panel * panel
	for k := 0; k < m.inner; k += Inner {
		steps := min(Inner, m.inner-k)
		weights := m.decodePanel(t, b, h, k, first, steps, w)
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
				integers.Rotate(t.ISA, row, row, 1, steps, steps, steps, m.rotation)
			}
		}
	}
}

// decodePanel decodes some inner steps from k on of the panel of columns from first on to float32.
func (m *Matrix) decodePanel(t *tuning.Row, b, h, k, first, steps int,
	w *Memory) []float32 {
	if m.format == kernel.F32 {
		return kernel.Elements[float32](m.panels(b, h, k, first, panel))
	}
	w.k = kernel.Grow(w.k, Inner*panel)
	if m.blocks != 0 {
		of := m.blocks.Traits()
		packed := m.blockData(first/panel, 1)[k/of.Inputs*of.Packed:]
		blockwise.Decode(t.ISA, m.blocks, w.k, packed, steps/blocks.Inputs, w.blockMemory())
		return w.k
	}
	right, layout := m.typedPanels(t, b, h, k, first, panel, 1)
	if m.format == kernel.Pairs {
		pairs.Unpack(w.k, right, steps)
		return w.k
	}
	narrow.Widen(t.ISA, m.format, w.k, right, layout.PanelStride, &layout)
	return w.k
}
