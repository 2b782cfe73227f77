package views

import "unsafe"

// View is a strided view of a buffer. It has the fields of package attn's View, which is converted
// to it. After Check its strides are explicit, and 0 repeats; the other methods require that.
type View[T any] struct {
	Data       []T
	B, H, L, D int
	SB, SH, SL int
}

// Tensor is a view of float32 values.
type Tensor = View[float32]

// Contiguous views data as a contiguous [b, h, l, d] array.
func Contiguous[T any](data []T, b, h, l, d int) View[T] {
	return View[T]{Data: data, B: b, H: h, L: l, D: d, SB: h * l * d, SH: l * d, SL: d}
}

func (v *View[T]) geometry() Geometry {
	return Geometry{B: v.B, H: v.H, L: v.L, D: v.D, SB: v.SB, SH: v.SH, SL: v.SL, Len: len(v.Data)}
}

// Check validates the view, and makes its strides explicit.
func (v *View[T]) Check(name string) error {
	g := v.geometry()
	if err := g.Check(name); err != nil {
		return err
	}
	v.SB, v.SH, v.SL = g.SB, g.SH, g.SL
	return nil
}

// Checked returns a valid view with explicit strides.
func (v View[T]) Checked() View[T] {
	if v.SB|v.SH|v.SL == 0 {
		v.SB, v.SH, v.SL = v.H*v.L*v.D, v.L*v.D, v.D
	}
	v.SB, v.SH, v.SL = max(v.SB, 0), max(v.SH, 0), max(v.SL, 0)
	return v
}

// CheckDistinct makes sure that no two elements of an output coincide.
func (v *View[T]) CheckDistinct(name string) error {
	g := v.geometry()
	return g.CheckDistinct(name)
}

// Extent describes what the view touches, without its address: see CheckApart.
func (v *View[T]) Extent(name string) Extent {
	var element T
	g := v.geometry()
	return g.Extent(name, unsafe.Sizeof(element))
}

// Empty reports whether the view has no elements.
func (v *View[T]) Empty() bool { return v.B == 0 || v.H == 0 || v.L == 0 }

// Offset returns the index in Data of element (b, h, i, 0).
func (v *View[T]) Offset(b, h, i int) int { return b*v.SB + h*v.SH + i*v.SL }

// Row returns row (b, h, i), D elements long.
func (v *View[T]) Row(b, h, i int) []T {
	at := v.Offset(b, h, i)
	return v.Data[at : at+v.D : at+v.D]
}
