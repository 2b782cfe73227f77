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
	wide, _ := kernel.TypedKernel(cpu, t, x.Rows)
	switch {
	case t == kernel.I4:
		accumulateI4AVX512(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case t == kernel.F16 && wide:
		accumulateF16AVX512(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case t == kernel.F16:
		accumulateF16SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case t == kernel.BF16 && wide:
		accumulateBF16AVX512(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case t == kernel.BF16:
		accumulateBF16SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	case wide:
		accumulateI8AVX512(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
	default:
		accumulateI8SIMD(o, p, v, alpha, x.Rows, x.OStride, x.PStride, b)
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
