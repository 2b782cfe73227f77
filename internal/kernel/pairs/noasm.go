//go:build !(amd64 || arm64) || purego

package pairs

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

const Flushes, ReadsLines = true, true

func Accumulate(_ *tuning.Row, x *kernel.Sums, v []byte, b *kernel.PanelLayout, _ bool) {
	accumulateGeneric(kernel.Pairs, x, v, b)
}

func AccumulateLines(_ *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte,
	b *kernel.PanelLayout) {
	accumulateGeneric(t, x, v, b)
}

func Round(_ tuning.ISA, dst, x []float32) { roundGeneric(dst, x) }

func OfPanel(_ tuning.ISA, dst []uint16, x []float32) { ofPanelGeneric(dst, x) }

func weigh(_ tuning.ISA, p, l, before, alpha []float32, rows int) {
	weighPairsGeneric(p, l, before, alpha, rows)
}

func putGroups(_ tuning.ISA, dst []uint16, x []float32, stride int) {
	putGroupsGeneric(dst, x, stride)
}
