package attn

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// nodeOf is the state of segments [first, first+n) by the recursive definition: the left half,
// merged with the right one.
func nodeOf(segments []online.State, first, n int, c float32) online.State {
	if first >= len(segments) {
		return emptyState(len(segments[0].M), len(segments[0].O)/len(segments[0].M))
	}
	if n == 1 {
		x := segments[first]
		return online.State{M: slices.Clone(x.M), L: slices.Clone(x.L), O: slices.Clone(x.O)}
	}
	left, right := nodeOf(segments, first, n/2, c), nodeOf(segments, first+n/2, n/2, c)
	rows := len(left.M)
	x, y := make([]float32, rows), make([]float32, rows)
	floats.MergeSums(tuning.Generic, left.M, left.L, right.M, right.L, x, y, c)
	d := len(left.O) / rows
	for r := range rows {
		floats.Merge(tuning.Generic, left.O[r*d:], right.O[r*d:][:d], x[r], y[r])
	}
	return left
}

func emptyState(rows, d int) online.State {
	x := online.State{M: make([]float32, rows), L: make([]float32, rows), O: make([]float32, rows*d)}
	fillWith(x.M, negInf)
	return x
}

// Segments merge as the tree of their indices, in which those that are not there are empty: from
// calls, states and pools.
func TestTreeIsTheRecursiveDefinition(t *testing.T) {
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		const rows, d, most = 3, 8, 13
		r := random("tree")
		q, k, v := tensor(r, normal, 1, 1, rows, d), tensor(r, normal, 1, 1, most*Segment, d), tensor(r,
			normal, 1, 1, most*Segment, d)
		var segments []online.State
		var unit float32
		for i := range most {
			s, err := NewState(StateConfig{1, 1, rows, d})
			must(t, err)
			must(t, s.Update(q, rowsOf(k, i*Segment, Segment), rowsOf(v, i*Segment, Segment), nil))
			segments, unit = append(segments, s.tree.Rows[0].State), s.units.All
		}
		pool := NewPool(3)
		defer pool.Close()
		for n := 1; n <= most; n++ {
			root := nodeOf(segments[:n], 0, 16, float32(float64(unit)*f32.Log2E))
			want, wantLSE := make([]float32, rows*d), make([]float32, rows)
			floats.Normalize(tuning.Generic, want, root.O, root.L, rows, d, d, d)
			for i := range wantLSE {
				wantLSE[i] = f32.FMA(root.M[i], unit, f32.Log(root.L[i]))
			}
			for name, attend := range map[string]attender{"Attend": Attend, "Pool": pool.Attend,
				"State": attendState} {
				dst, lse := nans(rows*d), nans(rows)
				must(t, attend(BHLD(dst, 1, 1, rows, d), q, rowsOf(k, 0, n*Segment), rowsOf(v, 0, n*Segment),
					&Options{LSE: lse}))
				mustEqualBits(t, fmt.Sprintf("%s of %d segments: output", name, n), dst, want)
				mustEqualBits(t, fmt.Sprintf("%s of %d segments: LSE", name, n), lse, wantLSE)
			}
		}
	})
}

// A row's bits do not depend on keys that it does not see, also where they are whole segments
// before, between and after those that it sees: rows of a causal call, of windows and of masks give
// what they give with those keys alone.
func TestTreeOfRowsAlone(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("tree of rows")
		for range max(2, budget(24)) {
			n := Segment*(3+r.IntN(9)) + r.IntN(Segment)
			p := newProblem(r, normal, shape{1, 1, 1, 1 + r.IntN(3), n, 4, 4})
			last := 1 + r.IntN(n) // the first row sees as many keys
			p.opt.Causal, p.opt.Offset = TopLeft, last-1
			if r.IntN(2) == 0 {
				p.opt.Window = Window{Left: r.IntN(n) + 1, Right: 1}
			}
			whole := p.solve(t, Attend)
			alone := *p
			alone.k, alone.v = rowsOf(p.k, 0, min(n, last+p.q.L-1)), rowsOf(p.v, 0, min(n, last+p.q.L-1))
			sameOutputs := func(what string, got *result) {
				mustEqualBits(t, fmt.Sprintf("%d of %d keys %s: output", last, n, what), got.o, whole.o)
				mustEqualBits(t, fmt.Sprintf("%d of %d keys %s: LSE", last, n, what), got.lse, whole.lse)
			}
			sameOutputs("alone", alone.solve(t, Attend))
			masked := *p
			mask := BHLD(make([]bool, p.q.L*n), 1, 1, p.q.L, n)
			for i := range p.q.L {
				for j := range n {
					mask.row(0, 0, i)[j] = j <= last-1+i && (p.opt.Window.Left == 0 ||
						j > last-1+i-p.opt.Window.Left)
				}
			}
			masked.opt = Options{Mask: mask}
			sameOutputs("by a mask", masked.solve(t, Attend))
		}
	})
}

// A State holds one state for each bit of the number of its segments, and as many more for parts
// that were cut otherwise as there is room for.
func TestTreeKeepsStatesSmall(t *testing.T) {
	update := func(s *State, keys int) {
		x := repeated(make([]float32, 1), 1, 1, keys, 1)
		must(t, s.Update(BHLD([]float32{1}, 1, 1, 1, 1), x, x, nil))
	}
	for segments, want := range map[int]int{1: 1, 2: 1, 3: 2, 16: 1, 21: 3, 31: 5, 64: 1} {
		s, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(s, segments*Segment)
		if len(s.tree.Rows) != want {
			t.Errorf("%d segments: %d nodes, want %d", segments, len(s.tree.Rows), want)
		}
		update(s, 5)
		if len(s.tree.Rows) != want+1 {
			t.Errorf("%d segments and 5 keys: %d nodes, want %d", segments, len(s.tree.Rows), want+1)
		}
		if got, most := len(s.tree.Rows)+len(s.tree.Spare), bits.Len(uint(segments+1)); got > most {
			t.Errorf("%d segments and 5 keys: memory for %d nodes, want at most %d", segments, got, most)
		}
	}
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	for i := range 1000 {
		part, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(part, 1+i*37%2000)
		must(t, s.Merge(part))
		if len(s.tree.Rows) > segment.Most {
			t.Fatalf("%d nodes after %d parts, want at most %d", len(s.tree.Rows), i+1, segment.Most)
		}
	}
	dst := make([]float32, 1)
	must(t, s.Finish(BHLD(dst, 1, 1, 1, 1), nil))
	if dst[0] != 0 {
		t.Errorf("the mean of zeros is %v", dst[0])
	}
}

// Updates in different units are right up to rounding, and bring the state to natural units once.
func TestStateChangesItsUnit(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("units")
		p := newProblem(r, normal, shape{1, 2, 1, 3, 3 * Segment, 8, 8})
		want := p.solve(t, Attend)
		bias := BHLD(make([]float32, 3*Segment), 1, 1, 3, Segment)
		for _, second := range []Options{{Bias: bias}, {Slopes: make([]float32, 2)}} {
			s, err := NewState(StateConfig{1, 2, 3, 8})
			must(t, err)
			for i, opt := range []Options{{}, second, {}} {
				must(t, s.Update(p.q, rowsOf(p.k, i*Segment, Segment), rowsOf(p.v, i*Segment, Segment), &opt))
			}
			if s.units.All != 1 {
				t.Errorf("the unit is %v, want 1", s.units.All)
			}
			dst := nans(len(want.o))
			must(t, s.Finish(BHLD(dst, 1, 2, 3, 8), nil))
			closeTo(t, "output", dst, want.o)
			// Merging does the same.
			a, b := p.stateOf(t, 0, Segment, nil), p.stateOf(t, Segment, 3*Segment,
				&Options{Slopes: make([]float32, 2)})
			must(t, a.Merge(b))
			must(t, a.Finish(BHLD(dst, 1, 2, 3, 8), nil))
			closeTo(t, "merged output", dst, want.o)
		}
	})
}

func (p *problem) stateOf(t *testing.T, lo, hi int, opt *Options) *State {
	s, err := NewState(StateConfig{p.q.B, p.q.H, p.q.L, p.v.D})
	must(t, err)
	must(t, s.Update(p.q, rowsOf(p.k, lo, hi-lo), rowsOf(p.v, lo, hi-lo), opt))
	return s
}

// Parts of 3 segments and of 1 in turn are nodes that never merge. There are as many as a binary
// form may have, and an Update after them makes no more.
func TestTreeOfOddPartsIsBounded(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	update := func(s *State, keys int) {
		x := repeated([]float32{1}, 1, 1, keys, 1)
		must(t, s.Update(BHLD([]float32{1}, 1, 1, 1, 1), x, x, nil))
	}
	for i := 0; len(s.tree.Rows) < segment.Most; i++ {
		part, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(part, [...]int{Segment - 24, 2*Segment + 24, Segment}[i%3])
		must(t, s.Merge(part))
	}
	for _, keys := range []int{1, Segment, 3 * Segment} {
		update(s, keys)
		data, err := s.MarshalBinary()
		must(t, err)
		var again State
		must(t, again.UnmarshalBinary(data))
		if again.Keys() != s.Keys() {
			t.Errorf("the state that travelled has %d keys, want %d", again.Keys(), s.Keys())
		}
	}
	dst := []float32{0}
	must(t, s.Finish(BHLD(dst, 1, 1, 1, 1), nil))
	if dst[0] != 1 {
		t.Errorf("the mean of ones is %v", dst[0])
	}
}
