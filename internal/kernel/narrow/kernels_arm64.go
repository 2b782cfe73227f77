//go:build !purego

package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// accumulateTypedStep is accumulateTyped of checked operands, in one call.
func accumulateTypedStep(t Format, o, p *float32, v *byte, alpha *float32, rows, oStride,
	pStride int, b *kernel.PanelLayout) {
	switch t {
	case F16:
		accumulateF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case BF16:
		accumulateBF16SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	case I8:
		accumulateI8SIMD(o, p, v, alpha, rows, oStride, pStride, b)
	}
}

// rotateStep transforms rows of blocks, of which dst has those of x afterwards. Both may be the
// same.
func rotateStep(dst, x *float32, rows, n, dstStride, xStride, block int, factor float32) {
	for r := range rows {
		row := operand.At(dst, r*dstStride)
		if dst != x {
			copy(unsafe.Slice(row, n), unsafe.Slice(operand.At(x, r*xStride), n))
		}
		rotateSIMD(row, n, block, factor)
	}
}

// rotateSIMD transforms the blocks of one row, at least 2 elements each. It works like
// rotateGeneric.
//
//go:noescape
func rotateSIMD(x *float32, n, block int, factor float32)
