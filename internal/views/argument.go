package views

import "github.com/seed-1415985d/attn/internal/operand"

// Argument is a named view argument of a call. After Check its strides are explicit, and 0 repeats.
type Argument struct {
	Name string
	Data []float32
	Geometry
}

// Given reports whether the argument is not the zero view.
func (a *Argument) Given() bool {
	return len(a.Data) != 0 || a.B|a.H|a.L|a.D|a.SB|a.SH|a.SL != 0
}

// From returns the elements from batch entry b, head h, position l on.
func (a *Argument) From(b, h, l int) []float32 { return a.Data[b*a.SB+h*a.SH+l*a.SL:] }

// Row returns the D elements of batch entry b, head h, position l.
func (a *Argument) Row(b, h, l int) []float32 {
	at := b*a.SB + h*a.SH + l*a.SL
	return a.Data[at : at+a.D : at+a.D]
}

// Memory describes the memory of a checked argument. It is on the heap, so that it does not move.
func (a *Argument) Memory() Extent {
	m := a.Extent(a.Name, 4)
	m.Begin = operand.Address(a.Data, 0)
	return m
}

// Same reports whether both arguments are the same elements of the same memory. Strides of
// dimensions of 1 do not matter.
func (a *Argument) Same(o *Argument) bool {
	return operand.Address(a.Data, 0) == operand.Address(o.Data, 0) && a.SameStrides(o)
}

// SameStrides reports whether both have the same dimensions' strides.
func (a *Argument) SameStrides(o *Argument) bool {
	return (a.B == 1 || a.SB == o.SB) && (a.H == 1 || a.SH == o.SH) && (a.L == 1 || a.SL == o.SL)
}

// Dense reports whether the elements have no gaps between them.
func (a *Argument) Dense() bool { return a.End() == a.B*a.H*a.L*a.D }
