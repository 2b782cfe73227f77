package nn

import (
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/views"
)

// argument is a named view that a call was given.
type argument = views.Argument

func argumentOf(name string, v *attn.Tensor) argument {
	return argument{Name: name, Data: v.Data, Geometry: views.Geometry{B: v.B, H: v.H, L: v.L, D: v.D,
		SB: v.SB, SH: v.SH, SL: v.SL, Len: len(v.Data)}}
}

// checkViews validates the arguments of a call, outputs first. All must have the dimensions of the
// last one, an input.
func checkViews(all []argument, outputs int, lists ...floatList) error {
	for i := range all {
		if err := all[i].Check(all[i].Name); err != nil {
			return err
		}
	}
	like := &all[len(all)-1]
	for i := range all {
		if a := &all[i]; a.B != like.B || a.H != like.H || a.L != like.L || a.D != like.D {
			return views.Fail(attn.ErrShape, "%s is [%d %d %d %d], want [%d %d %d %d] as %s is", a.Name, a.B,
				a.H, a.L, a.D, like.B, like.H, like.L, like.D, like.Name)
		}
	}
	for i := range all[:outputs] {
		if err := all[i].CheckDistinct(all[i].Name); err != nil {
			return err
		}
	}
	return checkApart(all, outputs, lists)
}

// floatList is a named argument of type []float32.
type floatList struct {
	name string
	data []float32
}

// checkApart makes sure that outputs overlap no other argument, unless they are exactly an input.
func checkApart(all []argument, outputs int, lists []floatList) error {
	if all[0].Empty() {
		return nil
	}
	for i := range outputs {
		out := &all[i]
		a := out.Memory()
		for j := range all {
			if j == i || j >= outputs && out.Same(&all[j]) {
				continue
			}
			if b := all[j].Memory(); a.Overlaps(&b) {
				return views.Fail(attn.ErrOverlap, "%s overlaps %s, want separate memory%s", out.Name,
					all[j].Name, orSame(j >= outputs))
			}
		}
		for _, l := range lists {
			if l.overlaps(&a) {
				return views.Fail(attn.ErrOverlap, "%s overlaps %s, want separate memory", out.Name, l.name)
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
