//go:build !purego

package narrow

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// accumulateTypedStep is Accumulate of checked operands, in one call.
func accumulateTypedStep(cpu *tuning.Row, t kernel.Format, x *kernel.Sums, v *byte,
	b *kernel.PanelLayout) {
	var alpha *float32
	if x.Alpha != nil {
		alpha = &x.Alpha[0]
	}
	o, p := &x.O[0], &x.P[0]
	switch t {
	case kernel.F16:
		accumulateF16SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case kernel.BF16:
		accumulateBF16SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case kernel.I8:
		accumulateI8SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	}
}
