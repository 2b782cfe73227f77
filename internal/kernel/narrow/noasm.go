//go:build !(amd64 || arm64) || purego

package narrow

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

func Accumulate(_ *tuning.Row, t kernel.Format, x *kernel.Sums, v []byte,
	b *kernel.PanelLayout) {
	accumulateTypedGeneric(t, x, v, b)
}

func Widen(_ tuning.ISA, t kernel.Format, dst []float32, v []byte, dstStride int,
	b *kernel.PanelLayout) {
	for c := 0; c < b.Cols; c += kernel.Panel {
		widenGeneric(t, dst[c/kernel.Panel*dstStride:], v[c/kernel.Panel*b.PanelStride*t.Bytes():],
			b.Keys,
			b.Stride)
	}
}

func WidenSlice(_ tuning.ISA, t kernel.Format, dst []float32, x []uint16) {
	widenSliceGeneric(t, dst, x)
}

func Narrow(_ tuning.ISA, t kernel.Format, dst []uint16, x []float32) {
	narrowGeneric(t, dst, x)
}
