//go:build (amd64 || arm64) && !purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Passes over slices: their dispatch and stubs. kernel_generic.go is their specification;
// internal/kernel has the kernels of attention and of matrices.

// `go generate` in this folder writes all assembly, and the Go files that choose among kernels of
// block types, each file only when it is complete: gen/ and asm/ say how.

//go:generate go run ./gen -out kernel_amd64.s
//go:generate go run ./gen -out internal/kernel/floats/floats_amd64.s
//go:generate go run ./gen -out internal/kernel/narrow/narrow_amd64.s
//go:generate go run ./gen -out internal/kernel/pairs/pairs_amd64.s
//go:generate go run ./gen -out internal/kernel/pairs/pairtiles_amd64.s
//go:generate go run ./gen -out internal/kernel/integers/tiles_amd64.s
//go:generate go run ./gen -out internal/kernel/integers/integers_amd64.s
//go:generate go run ./gen -out internal/kernel/blockwise/blockwise_amd64.s
//go:generate go run ./gen -out internal/kernel/blockwise/blocktiles_amd64.s
//go:generate go run ./gen -out internal/kernel/blockwise/types_amd64.go
//go:generate go run ./gen -out internal/kernel/int4/int4_amd64.s
//go:generate go run ./gen -out internal/kernel/elements/elements_amd64.s
//go:generate go run ./gen -out internal/kernel/triangle/triangle_amd64.s
//go:generate go run ./asm -out kernel_arm64.s
//go:generate go run ./asm -out internal/kernel/floats/floats_arm64.s
//go:generate go run ./asm -out internal/kernel/narrow/narrow_arm64.s
//go:generate go run ./asm -out internal/kernel/integers/integers_arm64.s
//go:generate go run ./asm -out internal/kernel/blockwise/blockwise_arm64.s
//go:generate go run ./asm -out internal/kernel/blockwise/types_arm64.go
//go:generate go run ./asm -out internal/kernel/int4/int4_arm64.s
//go:generate go run ./asm -out internal/kernel/elements/elements_arm64.s
//go:generate go run ./asm -out internal/kernel/pairs/pairs_arm64.s
//go:generate go run ./asm -out internal/kernel/triangle/triangle_arm64.s

func dot(a, b []float32) float32 {
	operand.Reads(a, len(a))
	operand.Reads(b, len(a))
	if !tuned.ISA.SIMD() || len(a) == 0 {
		return dotGeneric(a, b)
	}
	if len(a) <= kernel.CallElements {
		return dotSIMD(&a[0], &b[0], len(a))
	}
	var lane [64]float32
	for from := 0; from < len(a); from = kernel.NextPiece(from, kernel.CallElements, len(a)) {
		to := min(from+kernel.CallElements, len(a))
		addProducts(&lane, a[from:to], b[from:to])
	}
	return f32.Fold(lane[:]) + 0
}

func addProducts(lane *[64]float32, a, b []float32) {
	whole := len(a) / len(lane) * len(lane)
	operand.Reads(a, len(a))
	operand.Reads(b, len(a))
	if tuned.ISA.SIMD() && whole > 0 {
		addProductsSIMD(lane, &a[0], &b[0], whole)
		a, b = a[whole:], b[whole:]
	}
	addProductsGeneric(lane, a, b)
}

func maxOf(x []float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return maxOfGeneric(x)
	}
	top := negInf
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		e := maxOfSIMD(&x[from], to-from)
		if e != e {
			return e
		}
		top = max(top, e)
	}
	return top
}

func exp(dst, x []float32) {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		expGeneric(dst, x)
		return
	}
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		expSIMD(&dst[from], &x[from], to-from)
	}
}

func expSum(dst, x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	operand.Writes(dst, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return expSumGeneric(dst, x, top)
	}
	var lane [16]float32
	for from := 0; ; from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		sum := expSumSIMD(&lane, &dst[from], &x[from], to-from, top)
		if to == len(x) {
			return sum
		}
	}
}

func sumExp(x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return sumExpGeneric(x, top)
	}
	var lane [16]float32
	for from := 0; ; from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		sum := sumExpSIMD(&lane, &x[from], to-from, top)
		if to == len(x) {
			return sum
		}
	}
}

// dotSIMD is a dot product. It works like dotGeneric.
//
//go:noescape
func dotSIMD(a, b *float32, n int) float32

// addProductsSIMD continues the chains of a dot product for n elements, a multiple of 64. It works
// like addProductsGeneric.
//
//go:noescape
func addProductsSIMD(lane *[64]float32, a, b *float32, n int)

// maxOfSIMD is the largest element. It works like maxOfGeneric.
//
//go:noescape
func maxOfSIMD(x *float32, n int) float32

// expSIMD is the exponential function. It works like expGeneric.
//
//go:noescape
func expSIMD(dst, x *float32, n int)

// expSumSIMD continues the 16 sums of expSumGeneric for n elements, a multiple of 16 in all calls
// for one sum but the last, and returns the folded sum.
//
//go:noescape
func expSumSIMD(lane *[16]float32, dst, x *float32, n int, top float32) float32

// sumExpSIMD is expSumSIMD without the destination. It works like sumExpGeneric.
//
//go:noescape
func sumExpSIMD(lane *[16]float32, x *float32, n int, top float32) float32
