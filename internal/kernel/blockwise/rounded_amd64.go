//go:build !purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

const (
	// roundedTile rows are the most that a kernel has.
	roundedTile = 4

	// roundedBlocks blocks of 32 inputs, of a panel or of several, are a call for roundedTile rows.
	// One or two rows have twice as many, since unpacking is most of the work.
	roundedBlocks = 64
)

// HasRounded reports whether a type has a kernel of MultiplyRounded.
func HasRounded(isa tuning.ISA, t blocks.Type) bool {
	switch {
	case isa.Lanes16():
		return kernelsOf[t].roundedAVX512
	case isa.Integers():
		return kernelsOf[t].roundedAVX2
	}
	return false
}

// MultiplyRounded computes a product in bfloat16 of few rows by any number of panels, whose scales
// are finite. It needs no memory for unpacked blocks and reads memory in one stream.
func MultiplyRounded(cpu *tuning.Row, x *Rounded) {
	operand.WritesRows(x.O, x.Rows, x.OStride, x.Panels*panel)
	operand.ReadsRows(x.A, x.Rows, x.AStride, x.N*blocks.Inputs)
	operand.Reads(x.Packed, x.Panels*x.PanelBytes())
	if !HasRounded(cpu.ISA, x.Type) {
		multiplyRoundedGeneric(x)
		return
	}
	for r := range x.Rows {
		clear(x.O[r*x.OStride:][:x.Panels*panel])
	}
	of, n := x.Type.Traits(), roundedBlocks
	if x.Rows <= 2 {
		n *= 2
	}
	per := of.Inputs / blocks.Inputs
	whole := x.N / per // packed blocks of a panel
	most, length := max(1, n/x.N), min(whole, n/per)
	for p := 0; p < x.Panels; p += most {
		for k := 0; k < whole; k += length {
			x.multiply(cpu, p, min(most, x.Panels-p), k, min(length, whole-k))
		}
	}
}

// multiply adds products of all rows by n packed blocks of some panels, from a panel and a block
// on, to outputs.
func (x *Rounded) multiply(cpu *tuning.Row, first, panels, block, n int) {
	of := x.Type.Traits()
	at := first*x.PanelBytes() + block*of.Packed
	var call blockCall
	call.w, call.panels, call.blocks = &x.Packed[at], panels, n
	call.part, call.parts = of.Part(), of.Inputs/blocks.Inputs
	call.request = operand.Address(x.Packed, at) + uintptr(cpu.PrefetchBlocks)
	call.oStride, call.aStride = x.OStride, x.AStride
	for r := 0; r < x.Rows; r += call.rows {
		call.rows = min(roundedTile, x.Rows-r)
		last := r + call.rows - 1
		call.o, call.lastO = &x.O[r*x.OStride+first*panel], &x.O[last*x.OStride+first*panel]
		call.floats = &x.A[r*x.AStride+block*of.Inputs]
		call.lastFloats = &x.A[last*x.AStride+block*of.Inputs]
		if cpu.ISA.Lanes16() {
			roundedAVX512(x.Type, &call)
		} else {
			roundedAVX2(x.Type, &call)
		}
	}
}
