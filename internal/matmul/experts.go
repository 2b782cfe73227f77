package matmul

import (
	"runtime"
	"slices"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// MulExperts multiplies rows by the matrices that they have chosen, as package attn says.
func MulExperts(t *tuning.Row, dst, a *views.Tensor, ms []*Matrix, experts *views.View[int32],
	biases [][]float32) error {
	x := expertCall{t: t, dst: *dst, a: *a, ms: ms, chosen: *experts, biases: biases}
	if err := x.check(); err != nil || x.dst.Empty() {
		return err
	}
	w := memories.Get().(*Memory)
	x.route(&w.routes)
	q := targets{[]views.Tensor{x.dst}, ms, biases}
	q.multiply(x.inputs(&w.routes))
	memories.Put(w)
	runtime.KeepAlive(ms) // and with them their memory
	return nil
}

// expertCall is a call of MulExperts.
type expertCall struct {
	t      *tuning.Row
	dst, a views.Tensor
	ms     []*Matrix
	chosen views.View[int32]
	biases [][]float32
}

// check validates the arguments.
func (x *expertCall) check() error {
	if err := x.chosen.Check("experts"); err != nil {
		return err
	}
	if err := x.a.Check("a"); err != nil {
		return err
	}
	if err := x.dst.Check("dst"); err != nil {
		return err
	}
	if err := x.checkMatrices(); err != nil {
		return err
	}
	tokens, n := x.chosen.L, x.chosen.D
	switch {
	case x.chosen.B != 1 || x.chosen.H != 1:
		return views.Fail(views.ErrShape, "experts is [%d %d …], want [1 1 …]", x.chosen.B, x.chosen.H)
	case x.a.B != 1 || x.a.H != 1 && x.a.H != n || x.a.L != tokens:
		return views.Fail(views.ErrShape, "a is [%d %d %d …], want [1, %s, %d, …] as experts has %d for "+
			"each of %d tokens", x.a.B, x.a.H, x.a.L, views.OrOne(n), tokens, n, tokens)
	case x.dst.B != 1 || x.dst.H != n || x.dst.L != tokens:
		return views.Fail(views.ErrShape, "dst is [%d %d %d …], want [1 %d %d …] as experts has %d for "+
			"each of %d tokens", x.dst.B, x.dst.H, x.dst.L, n, tokens, n, tokens)
	}
	if err := x.dst.CheckDistinct("dst"); err != nil {
		return err
	}
	if err := x.checkApart(); err != nil {
		return err
	}
	return x.checkChosen() // dst has at least as many rows
}

// checkMatrices validates the matrices and their biases.
func (x *expertCall) checkMatrices() error {
	if x.biases != nil && len(x.biases) != len(x.ms) {
		return views.Fail(views.ErrLength, "len(biases) is %d, want nil or %d as there are matrices",
			len(x.biases), len(x.ms))
	}
	for i, m := range x.ms {
		if !m.isOpen() {
			return errListed(x.ms, i)
		}
		switch {
		case m.b != 1 || m.h != 1:
			return views.Fail(views.ErrShape, "ms[%d] is [%d %d …], want [1 1 …]", i, m.b, m.h)
		case m.inner != x.a.D || m.cols != x.dst.D:
			return views.Fail(views.ErrShape, "ms[%d] has %d inputs and %d outputs, want %d as a.D and %d "+
				"as dst.D", i, m.inner, m.cols, x.a.D, x.dst.D)
		}
		if bias := biasOf(x.biases, i); bias != nil && len(bias) != m.cols {
			return views.Fail(views.ErrLength, "len(biases[%d]) is %d, want %d", i, len(bias), m.cols)
		}
	}
	return nil
}

// checkChosen verifies that there is a matrix for each index.
func (x *expertCall) checkChosen() error {
	for t := range x.chosen.L {
		for j, which := range x.chosen.Row(0, 0, t) {
			switch {
			case which == -1:
			case len(x.ms) == 0:
				return views.Fail(views.ErrOption, "experts[%d][%d] is %d, want -1 as there are no matrices", t,
					j, which)
			case which < 0 || int(which) >= len(x.ms):
				return views.Fail(views.ErrOption, "experts[%d][%d] is %d, want -1 to %d", t, j, which,
					len(x.ms)-1)
			}
		}
	}
	return nil
}

// checkApart verifies that dst shares no memory with other arguments.
func (x *expertCall) checkApart() error {
	all := [...]views.Extent{x.dst.Extent("dst"), x.a.Extent("a"),
		x.chosen.Extent("experts")}
	for i, at := range [len(all)]uintptr{operand.Address(x.dst.Data, 0), operand.Address(x.a.Data, 0),
		operand.Address(x.chosen.Data, 0)} {
		all[i].Begin = at
	}
	if err := views.CheckApart(all[:1], all[1:]); err != nil {
		return err
	}
	for i, bias := range x.biases {
		other := views.ExtentOfSlice("biases", bias)
		all[0].Begin, other.Begin = operand.Address(x.dst.Data, 0), operand.Address(bias, 0)
		if all[0].Overlaps(&other) {
			return views.Fail(views.ErrOverlap, "dst overlaps biases[%d], want separate memory", i)
		}
	}
	return nil
}

// route assigns places to all rows of dst, and clears the rows without one.
func (x *expertCall) route(r *routes) {
	tokens, n := x.chosen.L, x.chosen.D
	r.each = n / x.a.H
	r.places, r.ends = resize(r.places, tokens*n), resize(r.ends, len(x.ms))
	stop.Clear(r.ends)
	for t := range tokens {
		for j, which := range x.chosen.Row(0, 0, t) {
			if which < 0 {
				stop.Clear(x.dst.Row(0, j, t))
			} else {
				r.ends[which]++
			}
		}
	}
	all := 0
	for i, rows := range r.ends {
		r.ends[i] = all // where they begin, until all rows have a place
		all += rows
	}
	r.offsets, r.needs = resize(r.offsets, all), resize(r.needs, all)
	for t := range tokens {
		for j, which := range x.chosen.Row(0, 0, t) {
			if r.places[t*n+j] = -1; which < 0 {
				continue
			}
			at := r.ends[which]
			r.ends[which]++
			r.places[t*n+j], r.offsets[at] = at, x.dst.Offset(0, j, t)
			if r.needs[at] = x.ms[which].needs(); r.needs[at] == 0 {
				r.needs[at] = needsCopy
			}
		}
	}
}

// resize is x with n elements of any value.
func resize[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }

// inputs returns the preparation of a for the chosen matrices.
func (x *expertCall) inputs(r *routes) preparation {
	y := preparation{t: x.t, a: x.a, routes: r, rotation: 1}
	for i, m := range x.ms {
		if begin := r.firstPlace(i); begin < r.ends[i] {
			y.needs |= r.needs[begin]
			y.rotation = max(y.rotation, m.rotation)
		}
	}
	return y
}
