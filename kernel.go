//go:build (amd64 || arm64) && !purego

package attn

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Passes over slices: their dispatch and stubs. The functions of kernel_generic.go are their
// specification, and internal/kernel has the kernels of attention and of matrices.

// `go generate` in this folder writes all assembly, each file only when it is complete: gen/ and
// asm/ say how.

//go:generate go run ./gen -out kernel_amd64.s
//go:generate go run ./gen -out internal/kernel/floats/floats_amd64.s
//go:generate go run ./gen -out internal/kernel/narrow/narrow_amd64.s
//go:generate go run ./gen -out internal/kernel/integers/tiles_amd64.s
//go:generate go run ./gen -out internal/kernel/integers/integers_amd64.s
//go:generate go run ./gen -out internal/kernel/blockwise/blockwise_amd64.s
//go:generate go run ./gen -out internal/kernel/int4/int4_amd64.s
//go:generate go run ./asm -out kernel_arm64.s
//go:generate go run ./asm -out internal/kernel/floats/floats_arm64.s
//go:generate go run ./asm -out internal/kernel/narrow/narrow_arm64.s
//go:generate go run ./asm -out internal/kernel/integers/integers_arm64.s
//go:generate go run ./asm -out internal/kernel/blockwise/blockwise_arm64.s
//go:generate go run ./asm -out internal/kernel/int4/int4_arm64.s

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
	if len(x) <= kernel.CallElements {
		return expSumSIMD(&dst[0], &x[0], len(x), top)
	}
	var sum lanes
	for from := 0; from < len(x); from = kernel.NextPiece(from, kernel.CallElements, len(x)) {
		to := min(from+kernel.CallElements, len(x))
		expSumSIMD(&dst[from], &x[from], to-from, top)
		sum.add(dst[from:to])
	}
	return f32.Fold(sum[:])
}

func sumExp(x []float32, top float32) float32 {
	operand.Reads(x, len(x))
	if !tuned.ISA.SIMD() || len(x) == 0 {
		return sumExpGeneric(x, top)
	}
	if len(x) <= kernel.CallElements {
		return sumExpSIMD(&x[0], len(x), top)
	}
	var sum lanes
	var buffer [1024]float32
	for from := 0; from < len(x); from += len(buffer) {
		to := min(from+len(buffer), len(x))
		expSumSIMD(&buffer[0], &x[from], to-from, top)
		sum.add(buffer[:to-from])
	}
	return f32.Fold(sum[:])
}

// lanes are partial sums by index mod 16.
type lanes [16]float32

// add adds numbers whose index begins with a multiple of 16. FMA(1, e, sum) is
// e + sum, so accumulate adds rows of 16.
func (l *lanes) add(x []float32) {
	if rows := len(x) / len(l); rows > 0 {
		layout := kernel.PanelLayout{Keys: rows, Cols: len(l), Stride: len(l), PanelStride: panel}
		floats.Accumulate(&tuned, l[:], ones[:rows], x, nil, 1, len(l), rows, &layout)
	}
	for i, e := range x[len(x)/len(l)*len(l):] {
		l[i] += e
	}
}

// dotSIMD is a dot product. It works like dotGeneric.
//
//go:noescape
func dotSIMD(a, b *float32, n int) float32

// addProductsSIMD goes on with the chains of a dot product for n elements, a
// multiple of 64. It works like addProductsGeneric.
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

// expSumSIMD is exponentials and their sum. It works like expSumGeneric.
//
//go:noescape
func expSumSIMD(dst, x *float32, n int, top float32) float32

// sumExpSIMD is the sum of exponentials. It works like sumExpGeneric.
//
//go:noescape
func sumExpSIMD(x *float32, n int, top float32) float32
