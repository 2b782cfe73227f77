//go:build (amd64 || arm64) && !purego

package narrow

import "github.com/seed-1415985d/attn/internal/kernel"

// accumulateF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric of
// F16.
//
//go:noescape
func accumulateF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateBF16SIMD adds weighted values to the output. It works like accumulateTypedGeneric of
// BF16.
//
//go:noescape
func accumulateBF16SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// accumulateI8SIMD adds weighted values to the output. It works like accumulateTypedGeneric of I8.
//
//go:noescape
func accumulateI8SIMD(o, p *float32, v *byte, alpha *float32, rows, oStride, pStride int,
	b *kernel.PanelLayout)

// widenF16SIMD widens n elements, whole panels of them. It works like widenGeneric of F16.
//
//go:noescape
func widenF16SIMD(dst *float32, v *byte, n int)

// widenBF16SIMD widens n elements, whole panels of them. It works like widenGeneric of BF16.
//
//go:noescape
func widenBF16SIMD(dst *float32, v *byte, n int)

// widenI8SIMD widens the steps of a panel. It works like widenGeneric of I8.
//
//go:noescape
func widenI8SIMD(dst *float32, v *byte, steps, stride int)

// narrowF16SIMD rounds to half precision. It works like narrowGeneric of F16.
//
//go:noescape
func narrowF16SIMD(dst *uint16, x *float32, n int)

// narrowBF16SIMD rounds to the upper half of a float32. It works like narrowGeneric of BF16.
//
//go:noescape
func narrowBF16SIMD(dst *uint16, x *float32, n int)
