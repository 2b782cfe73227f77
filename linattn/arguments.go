package linattn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/views"
)

// argument is a named view that a call was given.
type argument = views.Argument

func argumentOf(name string, v *attn.Tensor) argument {
	return argument{Name: name, Data: v.Data, Geometry: views.Geometry{B: v.B, H: v.H, L: v.L, D: v.D,
		SB: v.SB, SH: v.SH, SL: v.SL, Len: len(v.Data)}}
}

// checkShape validates an argument whose dimensions must be [1 heads rows d].
func checkShape(a *argument, heads, rows, d int) error {
	if err := a.Check(a.Name); err != nil {
		return err
	}
	if a.B != 1 || a.H != heads || a.L != rows || a.D != d {
		return views.Fail(attn.ErrShape, "%s is [%d %d %d %d], want [1 %d %d %d]", a.Name, a.B, a.H, a.L,
			a.D, heads, rows, d)
	}
	return nil
}

// Indexes of the arguments of a call in job.all.
const (
	argDst = iota
	argQ
	argK
	argV
	argDecay
	argBeta
	arguments
)

// check validates the arguments of a call: the given number of rows in total, for states of a
// layout.
func (j *job) check(g *layout, rows int) error {
	for i, of := range [arguments]struct {
		heads, d int
		used     bool
	}{
		argDst: {g.outputs(), g.ValueDim, true}, argQ: {g.QueryHeads, g.KeyDim, true},
		argK: {g.KeyHeads, g.keyRow(), true}, argV: {g.Heads, g.ValueDim, true},
		argDecay: {g.Heads, max(1, g.decays), g.Rule.decays()}, argBeta: {g.Heads, 1, g.Rule.corrects()},
	} {
		a := &j.all[i]
		if !of.used {
			if a.Given() {
				return views.Fail(attn.ErrOption, "%s is given, and Config.Rule is %v, want the zero Tensor",
					a.Name, g.Rule)
			}
			continue
		}
		if (i == argDecay || i == argBeta) && !a.Given() {
			return views.Fail(attn.ErrShape, "%s is not given, and Config.Rule is %v, want [1 %d %d %d]",
				a.Name, g.Rule, of.heads, rows, of.d)
		}
		if err := checkShape(a, of.heads, rows, of.d); err != nil {
			return err
		}
	}
	dst := &j.all[argDst]
	if err := dst.CheckDistinct(dst.Name); err != nil {
		return err
	}
	var extents [arguments]views.Extent
	for i := range j.all {
		if a := &j.all[i]; a.Given() {
			extents[i] = a.Memory()
		}
	}
	return views.CheckApart(extents[:1], extents[1:])
}

// checkStates validates the states and the number of rows of each.
func checkStates(states []*State, lens []int, rows int) error {
	if err := views.CheckRows(lens, len(states), "state", "q.L", rows); err != nil {
		return err
	}
	if err := views.CheckOnce("states", "state", states); err != nil {
		return err
	}
	for i, s := range states {
		switch {
		case s == nil:
			return views.Fail(attn.ErrOption, "states[%d] is nil, want a state", i)
		case s.closed:
			return views.Fail(attn.ErrClosed, "states[%d] was closed", i)
		case s.layout != states[0].layout:
			return views.Fail(attn.ErrOption, "states[%d] has %+v, want %+v as states[0]", i, s.Config(),
				states[0].Config())
		}
	}
	return nil
}
