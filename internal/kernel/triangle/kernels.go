package triangle

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Substitute is substituteGeneric.
func Substitute(isa tuning.ISA, u, r, w, g, beta, v []float32, s *Shape) {
	s.operands(u, r, w, g)
	operand.Reads(beta, s.Rows)
	operand.ReadsRows(v, s.Rows, s.Outer, s.Cols)
	substituteGeneric(u, r, w, g, beta, v, s)
}

// Outputs is outputsGeneric.
func Outputs(isa tuning.ISA, dst, o, w, g, u []float32, scale float32, s *Shape) {
	s.operands(u, o, w, g)
	operand.WritesRows(dst, s.Rows, s.Outer, s.Cols)
	outputsGeneric(dst, o, w, g, u, scale, s)
}

// operands are those that both have.
func (s *Shape) operands(u, sums, w, g []float32) {
	cols := kernel.RoundUp(s.Cols, kernel.Panel)
	operand.UpdatesRows(u, s.First+s.Rows, s.Updates, cols)
	operand.UpdatesRows(sums, s.Rows, s.Sums, cols)
	operand.Reads(w, s.Rows*kernel.Panel)
	if g != nil {
		operand.Reads(g, s.Rows)
	}
}

// DecayRow is decayRowGeneric.
func DecayRow(isa tuning.ISA, w, a []float32, i int) {
	operand.Reads(a, len(a))
	operand.Updates(w, len(a)*kernel.Panel)
	decayRowGeneric(w, a, i)
}

// DecayedSums is decayedSumsGeneric.
func DecayedSums(isa tuning.ISA, sum *[kernel.Panel]float32, x, w, k []float32) {
	operand.Reads(x, len(x))
	operand.Reads(w, len(x)*kernel.Panel)
	operand.Reads(k, len(x)*kernel.Panel)
	decayedSumsGeneric(sum, x, w, k)
}
