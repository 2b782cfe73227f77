package packed

import (
	"fmt"
	"iter"
	"math"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// Inner inputs of a matrix are packed at a time, all of its outputs.
const Inner = 256

// Matrix is the layout of the matrices of some batch entries and heads in memory.
//
//	elements  [batch][heads][inputs/Inner] × panels of outputs, as [kernel.ScoreLayout] says, or of
//	          one matrix panels of blocks (internal/blocks)
//	scales    of I8: [batch][heads][outputs in whole panels] float32
type Matrix struct {
	Format                        kernel.Format // of elements in panels
	Blocks                        blocks.Type   // of a matrix of blocks; else 0
	Batch, Heads, Inputs, Outputs int
}

// Scaled reports whether there are scales besides the elements.
func (m *Matrix) Scaled() bool { return m.Blocks == 0 && m.traits().Scaled }

// ElementBytes returns the size of a number among the elements.
func (m *Matrix) ElementBytes() int {
	if m.Blocks != 0 {
		return 1
	}
	return m.traits().Bytes
}

func (m *Matrix) traits() *kernel.Traits { return m.Format.Traits() }

// columns returns the outputs in whole panels.
func (m *Matrix) columns() int { return kernel.RoundUp(m.Outputs, panel) }

// Size returns the bytes of the elements.
func (m *Matrix) Size() int {
	if m.Blocks != 0 {
		of := m.Blocks.Traits()
		return m.columns() / panel * (m.Inputs / of.Inputs * of.Packed)
	}
	return m.Batch * m.Heads * kernel.RoundUp(m.Inputs, m.traits().Group) * m.columns() *
		m.traits().Bytes
}

// ScaleSize returns the bytes of the scales.
func (m *Matrix) ScaleSize() int {
	if !m.Scaled() {
		return 0
	}
	return 4 * m.Batch * m.Heads * m.columns()
}

// Fits reports whether a matrix fits the address space.
func (m *Matrix) Fits() (ok bool) {
	if m.Blocks != 0 {
		_, ok = views.Product(kernel.RoundUp(m.Inputs, blocks.Inputs), m.columns(), 2)
		return ok
	}
	_, ok = views.Product(m.Batch, m.Heads, kernel.RoundUp(m.Inputs, m.traits().Group), m.columns())
	return ok
}

// FaultOfScales says which scale is not valid, or returns "".
func (m *Matrix) FaultOfScales(scales []float32) string {
	for ; len(scales) > 0; scales = scales[m.columns():] {
		if fault := FaultOfScales("output", scales[:m.Outputs]); fault != "" {
			return fault
		}
		for _, e := range scales[m.Outputs:m.columns()] {
			if math.Float32bits(e) != 0 {
				return fmt.Sprintf("one of no output is %v, want 0", e)
			}
		}
	}
	return ""
}

// FaultOfElements says which element is not valid with these scales, or returns "".
func (m *Matrix) FaultOfElements(data []byte, scales []float32) string {
	if m.Blocks != 0 {
		return m.faultOfBlocks(data)
	}
	if m.traits().Scaled && stop.IndexByte(data, 0x80) >= 0 {
		return "one is -128, want -127 to 127"
	}
	size, cols := len(data)/(m.Batch*m.Heads), m.columns()
	for ; len(data) > 0; data = data[size:] {
		if stray := m.stray(data[:size]); stray != 0 {
			return fmt.Sprintf("a byte of no input or output is %d, want 0", stray)
		}
		if m.traits().Scaled {
			if fault := m.faultOfColumns(data[:size], scales[:m.Outputs]); fault != "" {
				return fault
			}
			scales = scales[cols:]
		}
	}
	return ""
}

// faultOfColumns says which column of a head's integers does not match its scale.
func (m *Matrix) faultOfColumns(data []byte, scales []float32) string {
	all := make([]marks, m.columns()/2)
	for steps, part := range m.stepsOf(data) {
		size := kernel.RoundUp(steps, m.traits().Group) * panel
		for c := 0; c < m.Outputs; c += panel {
			markBytes(all[c/2:][:panel/2], part[c/panel*size:][:size])
		}
	}
	for c, scale := range scales {
		word, bits := BitsOf(m.Format, c, false)
		if any, top := all[word].in(bits); scale > 0 && top || scale == 0 && !any {
			continue
		}
		fault := FaultOfLargest(m.Format, "output", c, m.largestOf(data, c), scale)
		if fault != "" {
			return fault
		}
	}
	return ""
}

// largestOf returns the largest magnitude of column c of a head's integers.
func (m *Matrix) largestOf(data []byte, c int) (largest float32) {
	for steps, part := range m.stepsOf(data) {
		layout := kernel.ScoreLayout(m.Format, steps, m.columns())
		for k := range steps {
			e := narrow.ElementOf(m.Format, part, kernel.PlaceOf(m.Format, &layout, k, c))
			largest = max(largest, e, -e)
		}
	}
	return largest
}

// stepsOf visits a head's elements: at most Inner steps of all columns at a time.
func (m *Matrix) stepsOf(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(steps int, part []byte) bool) {
		for k := 0; k < m.Inputs; k += Inner {
			steps := min(Inner, m.Inputs-k)
			n := kernel.RoundUp(steps, m.traits().Group) * m.columns() * m.traits().Bytes
			if !yield(steps, data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// faultOfBlocks is FaultOfElements for a matrix of blocks.
func (m *Matrix) faultOfBlocks(data []byte) string {
	size := m.Blocks.Traits().Packed
	for panelAt := 0; len(data) > 0; panelAt += panel {
		for k := range m.Inputs / m.Blocks.Traits().Inputs {
			outputs := min(panel, m.Outputs-panelAt)
			if fault := blocks.FaultOfPacked(m.Blocks, data[:size], outputs); fault != "" {
				return fmt.Sprintf("block %d of outputs %d to %d: %s", k, panelAt, panelAt+outputs-1, fault)
			}
			data = data[size:]
		}
	}
	return ""
}

// stray returns the first byte beyond the steps and columns of a head that is not zero, or zero.
func (m *Matrix) stray(data []byte) byte {
	for steps, part := range m.stepsOf(data) {
		if e := m.strayIn(part, steps); e != 0 {
			return e
		}
	}
	return 0
}

// strayIn is stray for some steps.
func (m *Matrix) strayIn(x []byte, steps int) byte {
	layout := kernel.ScoreLayout(m.Format, steps, m.columns())
	for c := range layout.Cols {
		first := steps
		if c >= m.Outputs {
			first = 0
		}
		for k := first; k < kernel.RoundUp(steps, m.traits().Group); k++ {
			at := kernel.PlaceOf(m.Format, &layout, k, c) * m.traits().Bytes
			for _, e := range x[at:][:m.traits().Bytes] {
				if e != 0 {
					return e
				}
			}
		}
	}
	return 0
}
