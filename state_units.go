package attn

import (
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
)

// The units of a State's maxima, and whether its outputs are rotated. Products that are sums of
// integers have a unit for each row.

// fixUnit makes the state's unit and the plan's the same.
func (s *State) fixUnit(w *scratch, p *plan) {
	var units []float32
	if p.int8 && !p.natural {
		units = w.unitsOf(p)
	}
	if s.unit == 0 {
		s.unit, s.units = p.unit, append(s.units, units...)
	}
	if !s.sameUnit(p.unit, units) {
		s.toNatural()
		p.natural, p.unit, p.c = true, 1, f32.Log2E
	}
}

// unitsOf is the units of all rows of a call in integers, in the order of a State's rows.
func (w *scratch) unitsOf(p *plan) []float32 {
	x := &w.int8
	x.row, w.q = grow(x.row, roundUp(p.d, 4)), grow(w.q, p.d)
	x.all = grow(x.all, p.batch*p.heads*p.lq)
	units := x.all[:p.batch*p.heads*p.lq]
	for r := range units {
		query := p.q.row(r/p.lq/p.heads, r/p.lq%p.heads, r%p.lq)
		units[r], _ = x.quantizeQuery(p, w.q[:p.d], query)
	}
	return units
}

// sameUnit reports whether the state's maxima are in a unit, or in those of its rows if there are
// some.
func (s *State) sameUnit(unit float32, units []float32) bool {
	return s.unit == unit && slices.Equal(s.units, units)
}

// factor is the factor of a row's powers of 2, its unit times log₂e.
func (s *State) factor(row int) float32 {
	if len(s.units) > 0 {
		return int8Factor(s.units[row])
	}
	return float32(float64(s.unit) * f32.Log2E)
}

// toNatural brings the maxima to natural units.
func (s *State) toNatural() {
	for i := range s.nodes {
		s.nodeToNatural(&s.nodes[i])
	}
	s.unit, s.units = 1, s.units[:0]
}

// nodeToNatural brings the maxima of a node from the state's units to natural ones.
func (s *State) nodeToNatural(node *stateNode) {
	for r, unit := range s.units {
		node.toNatural(r, 1, unit)
	}
	if len(s.units) == 0 {
		node.toNatural(0, s.rows(), s.unit)
	}
}

// A State's outputs over values that are rotated (kv_latent.go) stay rotated until Finish, so that
// parts which travel merge as they are. The matrix is its own inverse.

// rotation is the size of the matrix that values of the state's dimension are rotated by.
func (s *State) rotation() int { return s.d & -s.d }

// fixRotation makes outputs so far rotated, or not, as the values that come next.
func (s *State) fixRotation(rotated bool) {
	if s.rotated != rotated {
		s.rotateNodes(s.nodes)
	}
	s.rotated = rotated
}

// fixRotations makes copies of t's nodes rotated if those of s are.
func (s *State) fixRotations(t *State, copies []stateNode) {
	if s.unit == 0 {
		s.rotated = t.rotated
	} else if s.rotated != t.rotated {
		s.rotateNodes(copies)
	}
}

// rotateNodes rotates the outputs of nodes, or back.
func (s *State) rotateNodes(nodes []stateNode) {
	for i := range nodes {
		rotateAll(nodes[i].o[:s.rows()*s.d], s.rotation())
	}
}
