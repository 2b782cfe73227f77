//go:build !purego

package int4

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// lookUpStep looks up codes of checked operands, in one call.
func lookUpStep(isa tuning.ISA, dst, src *byte, rows, vectors, row, step, upper, ahead int) {
	lookUpSIMD(dst, src, rows, vectors, row, step, upper, ahead)
}

func scoreInt4Step(cpu *tuning.Row, s *float32, q *integers.Rows, row int, k *byte,
	scales *float32, rows, qStride int, b *kernel.PanelLayout) {
	at := row * qStride
	scoreInt4Dot(s, &q.Bytes[at], k, scales, rows, qStride, b)
}

func accumulateInt4Step(_ *tuning.Row, x *integers.SumsCall) { accumulateInt4Dot(x) }

// scoreInt4Dot is scoreInt8Dot of codes. It works like scoreInt4Generic.
//
//go:noescape
func scoreInt4Dot(s *float32, q *int8, k *byte, scales *float32, rows, qStride int,
	b *kernel.PanelLayout)

// accumulateInt4Dot is accumulateInt8Dot of codes. It works like accumulateInt4Generic.
//
//go:noescape
func accumulateInt4Dot(x *integers.SumsCall)
