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

func Multiply(_ *tuning.Row, t blocks.Type, o []float32, a []Row, packed []byte, panels, rows, n,
	oStride, aStride int, _ *Memory) {
	of := t.Traits()
	size := n / (of.Inputs / blocks.Inputs) * of.Packed
	for p := range panels {
		multiplyBlocksGeneric(t, o[p*panel:], a, packed[p*size:], rows, n, oStride, aStride)
	}
}

func Few(*tuning.Row, blocks.Type, int) bool { return false }

func MultiplyFew(cpu *tuning.Row, t blocks.Type, o []float32, a []Row, packed, _ []byte, panels,
	rows, n, oStride, aStride int) {
	Multiply(cpu, t, o, a, packed, panels, rows, n, oStride, aStride, nil)
}

func Decode(_ tuning.ISA, t blocks.Type, dst []float32, packed []byte, n int, _ *Memory) {
	decodeBlocksGeneric(t, dst, packed, n)
}
