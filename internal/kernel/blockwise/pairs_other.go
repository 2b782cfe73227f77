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

// FewRounded reports whether MultiplyRounded is for a type and a number of rows.
func FewRounded(tuning.ISA, blocks.Type, int) bool { return false }

// MultiplyRounded is multiplyRoundedGeneric: there are no kernels.
func MultiplyRounded(_ *tuning.Row, x *Rounded) { multiplyRoundedGeneric(x) }
