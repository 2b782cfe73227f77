//go:build !purego

package int4

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// lookUpStep looks up codes of checked operands, in one call.
func lookUpStep(isa tuning.ISA, dst, src *byte, rows, vectors, row, step, upper, ahead int) {
	if isa.Lanes16() {
		lookUpAVX512(dst, src, rows, vectors, row, step, upper, ahead)
		return
	}
	lookUpSIMD(dst, src, rows, vectors, row, step, upper, ahead)
}

// lookUpAVX512 is lookUpSIMD with vectors of 64 bytes.
//
//go:noescape
func lookUpAVX512(dst, src *byte, rows, vectors, row, step, upper, ahead int)

// scoreInt4Step is Score of checked operands, in one call.
func scoreInt4Step(cpu *tuning.Row, s *float32, q *integers.Rows, row int, k *byte,
	scales *float32, rows, qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	switch {
	case q.Bytes == nil:
		scoreInt4SIMD(s, &q.Magnitudes[2*at], &q.Starts[row], k, scales, rows, qStride, b)
	case cpu.ISA.Lanes16():
		scoreInt4VNNIAVX512(s, &q.Bytes[at], &q.Starts[row], k, scales, rows, qStride, b)
	default:
		scoreInt4VNNISIMD(s, &q.Bytes[at], &q.Starts[row], k, scales, rows, qStride, b)
	}
}

// accumulateInt4Step is Accumulate of checked operands, in one call.
func accumulateInt4Step(cpu *tuning.Row, x *integers.SumsCall) {
	switch {
	case !cpu.DotProduct:
		accumulateInt4SIMD(x)
	case cpu.ISA.Lanes16():
		accumulateInt4VNNIAVX512(x)
	default:
		accumulateInt4VNNISIMD(x)
	}
}

// scoreInt4SIMD computes scores of integers and codes. It works like scoreInt4Generic.
//
//go:noescape
func scoreInt4SIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt4VNNISIMD is scoreInt4SIMD of rows of bytes, for CPUs with AVX-VNNI.
//
//go:noescape
func scoreInt4VNNISIMD(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// scoreInt4VNNIAVX512 is scoreInt4SIMD of rows of bytes, for CPUs with AVX512_VNNI.
//
//go:noescape
func scoreInt4VNNIAVX512(s *float32, q *int8, starts *int32, k *byte, scales *float32, rows,
	qStride int, b *kernel.PanelLayout)

// accumulateInt4SIMD adds weighted values to the output. It works like accumulateInt4Generic.
//
//go:noescape
func accumulateInt4SIMD(x *integers.SumsCall)

// accumulateInt4VNNISIMD is accumulateInt4SIMD for CPUs with AVX-VNNI.
//
//go:noescape
func accumulateInt4VNNISIMD(x *integers.SumsCall)

// accumulateInt4VNNIAVX512 is accumulateInt4SIMD with 16 lanes, for CPUs with AVX512_VNNI.
//
//go:noescape
func accumulateInt4VNNIAVX512(x *integers.SumsCall)
