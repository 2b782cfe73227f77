//go:build !purego

package narrow

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// accumulateTypedStep is Accumulate of checked operands, in one call.
func accumulateTypedStep(cpu *tuning.Row, t kernel.Format, o, p *float32, v *byte, alpha *float32,
	rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	switch t {
	case kernel.F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case kernel.BF16:
		accumulateBF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case kernel.I8:
		accumulateI8SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}
