package integers

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
)

// Sums are rows of outputs to which kernels add values weighted by rows of integers:
//
//	o_rc = FMA(float32(Σ w_rj·v_jc), f_r, o_rc·alpha_r)
//
// Kernels also have as arguments the values and their layout, which says how many columns outputs
// have.
type Sums struct {
	O       []float32 // outputs
	W       *Rows     // integers
	Alpha   []float32 // outputs are multiplied by these before, row by row; nil: they stay
	F       []float32 // scales of the integers: one of a row, or of a matrix one of each Group
	Rows    int       // of outputs and of integers
	OStride int       // from a row of outputs to the next
	WStride int       // from a row of integers to the next
	FStride int       // from a row's scales to the next row's
}

// operands checks the memory that kernels read and write, for rows with some scales.
func (x *Sums) operands(b *kernel.PanelLayout, scales int) {
	operand.UpdatesRows(x.O, x.Rows, x.OStride, b.Cols)
	x.W.Reads(0, x.Rows, x.WStride, x.FStride, kernel.RoundUp(b.Keys, 4), scales)
	operand.ReadsRows(x.F, x.Rows, x.FStride, scales)
	if x.Alpha != nil {
		operand.Reads(x.Alpha, x.Rows)
	}
}

// SumsCall is the argument of a call of a kernel of sums. The generators read the offsets of its
// fields from this declaration (internal/dev/constants). It is set field by field, because a copy
// of a struct that has just been written waits for the stores.
type SumsCall struct {
	O        *float32
	W        *byte  // words, bytes or magnitudes, see Rows
	Starts   *int32 // for bytes and magnitudes
	V        *byte
	Alpha, F *float32
	Rows     int
	OStride  int
	WStride  int
	FStride  int
	B        *kernel.PanelLayout

	// Of tiles in the place of B.
	Panels, Steps, VLine, VStride int
	Overwrite                     bool
}

// Begin sets the numbers that are the same in all calls for x. (Pointers stored through a pointer
// would escape.)
func (x *SumsCall) Begin(s *Sums) {
	x.Rows, x.OStride, x.WStride, x.FStride = s.Rows, s.OStride, s.WStride, s.FStride
}

// At is where integers and starts of kernels begin, from an element and a group on.
func (x *Rows) At(element, group int) (w *byte, starts *int32) {
	switch {
	case x.Words != nil:
		return (*byte)(unsafe.Pointer(&x.Words[element])), nil
	case x.Magnitudes != nil:
		return (*byte)(unsafe.Pointer(&x.Magnitudes[2*element])), &x.Starts[group]
	}
	return (*byte)(unsafe.Pointer(&x.Bytes[element])), &x.Starts[group]
}

// from returns the call for its rows from row on; integers have size bytes.
func (x *SumsCall) from(row, size int) SumsCall {
	y := *x
	y.Rows = x.Rows - row
	y.O, y.F = operand.At(x.O, row*x.OStride), operand.At(x.F, row*x.FStride)
	y.W = operand.At(x.W, size*row*x.WStride)
	if x.Alpha != nil {
		y.Alpha = operand.At(x.Alpha, row)
	}
	if x.Starts != nil {
		y.Starts = operand.At(x.Starts, row*x.FStride)
	}
	return y
}
