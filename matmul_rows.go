package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

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
