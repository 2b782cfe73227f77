package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Lines are inputs that kernels of few rows round as they read them.

// lineRows is for how many rows that is faster than to make panels of pairs.
const lineRows = 8

// InLines reports whether some rows multiply lines of as many inputs where they are.
func InLines(x *Rows, rows, inputs int) bool {
	return ReadsLines && !x.Tiles() && rows <= lineRows && inputs%Group == 0 &&
		inputs <= kernel.CallInner
}

// LinesOfKeys is the layout of panels of some inputs, for some rows.
func LinesOfKeys(cpu *tuning.Row, t kernel.Format, rows, inputs, cols int) kernel.PanelLayout {
	l := kernel.ScoreLayout(t, inputs, cols)
	l.PrefetchFew = cpu.PrefetchTyped
	if rows == 1 && cpu.ISA.Lanes16() { // four panels at a time, but memory is requested in its order
		l.PrefetchFew += 3 * l.PanelStride * t.Bytes()
	}
	return l
}

// LinesOfRows is the layout of a block of the caller's rows, stride apart. The rows of the next one
// are requested.
func LinesOfRows(stride, cols int) kernel.PanelLayout {
	l := kernel.PanelLayout{Keys: kernel.Block, Cols: cols, Stride: stride, PanelStride: kernel.Panel,
		Overwrite: true}
	l.PrefetchFew = 4 * kernel.Block * stride
	return l
}
