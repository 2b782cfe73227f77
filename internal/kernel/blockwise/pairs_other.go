//go:build !amd64 || purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// DecodePairs is decodePairsGeneric by the kernels of Decode. It uses up memory.
func DecodePairs(isa tuning.ISA, t blocks.Type, dst []uint16, packed []byte, n int,
	memory *Memory) {
	weights := memory.panel(n)
	Decode(isa, t, weights, packed, n, memory)
	pairs.OfPanel(isa, dst[:n*blocks.Inputs*panel], weights)
}

// HasRounded reports whether a type has a kernel of MultiplyRounded.
func HasRounded(tuning.ISA, blocks.Type) bool { return false }

// MultiplyRounded is multiplyRoundedGeneric: there are no kernels.
func MultiplyRounded(_ *tuning.Row, x *Rounded) { multiplyRoundedGeneric(x) }
