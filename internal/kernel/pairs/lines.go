package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// InLines reports whether some rows multiply lines of as many inputs.
func (x *Rows) InLines(cpu *tuning.Row, rows, inputs int) bool {
	return ReadsLines && !x.Tiles() && rows <= cpu.MaxRoundedRows && inputs%Group == 0 &&
		inputs <= kernel.CallInner
}

// Lines are inputs in panels of lines of F32 or BF16, or rows of a view.
type Lines struct {
	Data   []byte
	Format kernel.Format
	Rows   int // elements from a row of a view to the next, 0 in panels
	Ahead  int // how many bytes ahead memory is prefetched, 0 for the default
}

// Multiply makes outputs of n rows, pitch apart, by y.Inputs lines. Outputs are described by y.
func (l *Lines) Multiply(cpu *tuning.Row, y *Products, rows []float32, pitch, n int) {
	layout := kernel.ScoreLayout(l.Format, y.Inputs, y.Cols)
	if layout.PrefetchFew = l.Ahead; l.Ahead == 0 {
		layout.PrefetchFew = cpu.PrefetchTyped
	}
	if l.Rows != 0 {
		layout.Stride, layout.PanelStride = l.Rows, kernel.Panel
	}
	sums := kernel.Sums{O: y.O, P: rows, Rows: n, OStride: y.OStride, PStride: pitch}
	AccumulateLines(cpu, l.Format, &sums, l.Data, &layout)
}
