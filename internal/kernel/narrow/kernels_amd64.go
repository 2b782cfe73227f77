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
	wide, _ := kernel.TypedKernel(cpu, kernel.Format(t), rows)
	switch {
	case t == kernel.I4:
		accumulateI4AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == kernel.F16 && wide:
		accumulateF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == kernel.F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case t == kernel.BF16 && wide:
		accumulateBF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == kernel.BF16:
		accumulateBF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case wide:
		accumulateI8AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	default:
		accumulateI8SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}

// accumulateF16AVX512 is accumulateF16SIMD with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateBF16AVX512 is accumulateBF16SIMD with 16 lanes, for at least 2 rows.
//
//go:noescape
func accumulateBF16AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI8AVX512 is accumulateI8SIMD with 16 lanes.
//
//go:noescape
func accumulateI8AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI4AVX512 is accumulateI8AVX512 of codes, for up to int4.CodeRows rows.
//
//go:noescape
func accumulateI4AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)
