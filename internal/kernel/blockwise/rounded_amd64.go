//go:build !purego

package blockwise

import (
	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

const (
	// roundedRows rows are the most for which it is faster to read blocks in memory order, roundedTile
	// rows at a time, than to unpack panels for all of them.
	roundedRows = 8
	roundedTile = 4

	// roundedBlocks blocks of 32 inputs, of a panel or of several, are a call for roundedTile rows.
	// One or two rows have twice as many, since unpacking is most of the work.
	roundedBlocks = 64
)

// FewRounded reports whether MultiplyRounded is for a type and a number of rows.
func FewRounded(isa tuning.ISA, t blocks.Type, rows int) bool {
	return rows <= roundedRows && hasRounded(isa, t)
}

// hasRounded reports whether a type has a kernel.
func hasRounded(isa tuning.ISA, t blocks.Type) bool {
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
	if !hasRounded(cpu.ISA, x.Type) {
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
	var call blockCall
	call.oStride, call.aStride, call.part, call.parts = x.OStride, x.AStride, of.Part(), per
	for p := 0; p < x.Panels; p += most {
		call.panels = min(most, x.Panels-p)
		for k := 0; k < whole; k += length {
			at := (p*whole + k) * of.Packed
			call.w, call.blocks = &x.Packed[at], min(length, whole-k)
			call.request = operand.Address(x.Packed, at) + uintptr(cpu.PrefetchBlocks)
			x.multiply(cpu.ISA, &call, p*panel, k*of.Inputs)
		}
	}
}

// multiply adds products of all rows to outputs from one on, of inputs from one on.
func (x *Rounded) multiply(isa tuning.ISA, call *blockCall, output, input int) {
	for r := 0; r < x.Rows; r += call.rows {
		call.rows = min(roundedTile, x.Rows-r)
		last := r + call.rows - 1
		call.o, call.lastO = &x.O[r*x.OStride+output], &x.O[last*x.OStride+output]
		call.floats, call.lastFloats = &x.A[r*x.AStride+input], &x.A[last*x.AStride+input]
		if isa.Lanes16() {
			roundedAVX512(x.Type, call)
		} else {
			roundedAVX2(x.Type, call)
		}
	}
}
