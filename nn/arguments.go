package nn

import (
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

// argument is a view of a call, by name. After check its strides are explicit, and 0 repeats.
type argument struct {
	name string
	data []float32
	views.Geometry
}

func argumentOf(name string, v *attn.Tensor) argument {
	return argument{name, v.Data, views.Geometry{B: v.B, H: v.H, L: v.L, D: v.D, SB: v.SB, SH: v.SH,
		SL: v.SL, Len: len(v.Data)}}
}

// row is D elements of batch entry b, head h, position l.
func (a *argument) row(b, h, l int) []float32 {
	at := b*a.SB + h*a.SH + l*a.SL
	return a.data[at : at+a.D : at+a.D]
}

// same reports whether both are the same elements of the same memory.
func (a *argument) same(o *argument) bool {
	return operand.Address(a.data, 0) == operand.Address(o.data, 0) && a.sameStrides(o)
}

// sameStrides reports whether elements lie alike. Those of dimensions of 1 do not matter.
func (a *argument) sameStrides(o *argument) bool {
	return (a.B == 1 || a.SB == o.SB) && (a.H == 1 || a.SH == o.SH) && (a.L == 1 || a.SL == o.SL)
}

// dense reports whether there is nothing between the elements.
func (a *argument) dense() bool { return a.End() == a.B*a.H*a.L*a.D }

// checkViews validates the arguments of a call: some outputs, then inputs, the last of which says
// what dimensions all have.
func checkViews(all []argument, outputs int, lists ...floatList) error {
	for i := range all {
		if err := all[i].Check(all[i].name); err != nil {
			return err
		}
	}
	like := &all[len(all)-1]
	for i := range all {
		if a := &all[i]; a.B != like.B || a.H != like.H || a.L != like.L || a.D != like.D {
			return views.Fail(attn.ErrShape, "%s is [%d %d %d %d], want [%d %d %d %d] as %s is", a.name, a.B,
				a.H, a.L, a.D, like.B, like.H, like.L, like.D, like.name)
		}
	}
	for i := range all[:outputs] {
		if err := all[i].CheckDistinct(all[i].name); err != nil {
			return err
		}
	}
	return checkApart(all, outputs, lists)
}

// floatList is an argument that is a slice of float32.
type floatList struct {
	name string
	data []float32
}

// checkApart makes sure that outputs share memory with no other argument, but with inputs that they
// are exactly.
func checkApart(all []argument, outputs int, lists []floatList) error {
	if all[0].Empty() {
		return nil
	}
	for i := range outputs {
		out := &all[i]
		a := extentOf(out)
		for j := range all {
			if j == i || j >= outputs && out.same(&all[j]) {
				continue
			}
			if b := extentOf(&all[j]); a.Overlaps(&b) {
				return views.Fail(attn.ErrOverlap, "%s overlaps %s, want separate memory%s", out.name,
					all[j].name, orSame(j >= outputs))
			}
		}
		for _, l := range lists {
			if l.overlaps(&a) {
				return views.Fail(attn.ErrOverlap, "%s overlaps %s, want separate memory", out.name, l.name)
			}
		}
	}
	return nil
}

// overlaps reports whether a list shares memory with a view's extent.
func (l *floatList) overlaps(a *views.Extent) bool {
	b := views.ExtentOfSlice(l.name, l.data)
	b.Begin = operand.Address(l.data, 0)
	return a.Overlaps(&b)
}

func orSame(may bool) string {
	if may {
		return " or exactly the same elements"
	}
	return ""
}

// extentOf is what a checked argument touches. Its memory is on the heap, so that it does not move.
func extentOf(a *argument) views.Extent {
	m := a.Extent(a.name, 4)
	m.Begin = operand.Address(a.data, 0)
	return m
}

// checkList makes sure that a list is nil or has n elements.
func checkList(name string, data []float32, n int) error {
	if data != nil && len(data) != n {
		return views.Fail(attn.ErrLength, "len(%s) is %d, want D, %d", name, len(data), n)
	}
	return nil
}

func checkEps(eps float32) error {
	if !(eps >= 0 && eps <= math.MaxFloat32) {
		return views.Fail(attn.ErrOption, "eps is %v, want 0 or more and finite", eps)
	}
	return nil
}
