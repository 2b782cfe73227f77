//go:build !purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
)

// accumulateTypedStep is accumulateTyped of checked operands, in one call.
func accumulateTypedStep(t Format, o, p *float32, v *byte, alpha *float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	wide, _ := kernel.TypedKernel(&tuned, kernel.Format(t), rows)
	switch {
	case t == I4:
		accumulateI4AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == F16 && wide:
		accumulateF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case t == BF16 && wide:
		accumulateBF16AVX512(o, p, v, alpha, rows, oStride, pStride, b)
	case t == BF16:
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

// accumulateI4AVX512 is accumulateI8AVX512 of codes, for up to codeRows rows.
//
//go:noescape
func accumulateI4AVX512(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// rotateStep transforms rows of blocks, at least 2 elements each, of which dst has those of x
// afterwards. Both may be the same. It works like rotateGeneric.
func rotateStep(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32) {
	if tuned.ISA.Lanes16() && block >= 16 {
		rotateRowsAVX512(dst, x, rows, n, dstStride, xStride, block, factor)
		return
	}
	rotateRowsSIMD(dst, x, rows, n, dstStride, xStride, block, factor)
}

// rotateRowsSIMD is rotateStep with 8 lanes.
//
//go:noescape
func rotateRowsSIMD(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32)

// rotateRowsAVX512 is rotateStep with 16 lanes, for blocks of at least 16 elements.
//
//go:noescape
func rotateRowsAVX512(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32)
