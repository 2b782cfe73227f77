//go:build !(amd64 || arm64) || purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

func sumRows(_ *tuning.Row, dst []Row, scales []float32) {
	sumBlocksGeneric(dst, scales)
}

func Multiply(_ *tuning.Row, x *Product, _ *Memory) { multiplyBlocksGeneric(x) }

func Few(*tuning.Row, blocks.Type, int) bool { return false }

func MultiplyFew(_ *tuning.Row, x *Product, _ []byte) { multiplyBlocksGeneric(x) }

func Decode(_ tuning.ISA, t blocks.Type, dst []float32, packed []byte, n int, _ *Memory) {
	decodeBlocksGeneric(t, dst, packed, n)
}
