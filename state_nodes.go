package attn

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/memory"
)

// The nodes of a State: their memory, the units of their maxima, and whether their outputs are
// rotated.

// reserve makes sure that there is memory for so many more nodes.
func (s *State) reserve(nodes int) error {
	for len(s.tree.spare) < nodes {
		rows := s.rows()
		m, err := memory.Allocate(4 * rows * (s.d + 2)) // zero, and at a cache line
		if err != nil {
			return fail(ErrMemory, "node %d of the State is %d×%d×%d×(%d+2) numbers: %v",
				len(s.tree.rows)+len(s.tree.spare), s.b, s.h, s.l, s.d, err)
		}
		x := m.Floats()
		st := state{m: x[:rows], l: x[rows : 2*rows], o: x[2*rows:]}
		s.tree.spare = append(s.tree.spare, nodeRows{st, m})
	}
	return nil
}

// newRows returns memory that was reserved.
func (s *State) newRows() nodeRows {
	last := len(s.tree.spare) - 1
	x := s.tree.spare[last]
	s.tree.spare[last] = nodeRows{}
	s.tree.spare = s.tree.spare[:last]
	return x
}

// fixUnit makes the state's unit and the plan's the same.
func (s *State) fixUnit(w *scratch, p *plan) {
	u := units{all: p.unit}
	if p.integers && !p.natural {
		u.own = w.unitsOf(p)
	}
	if s.units.all == 0 {
		s.units.set(&u)
	}
	if !s.units.equal(&u) {
		s.toNatural()
		p.natural, p.unit, p.c = true, 1, f32.Log2E
	}
}

// unitsOf is the units of all rows of a call in integers, in the order of a State's rows.
func (w *scratch) unitsOf(p *plan) []float32 {
	x := &w.ints
	x.row, w.q = grow(x.row, roundUp(p.d, 4)), grow(w.q, p.d)
	x.all = grow(x.all, p.batch*p.heads*p.lq)
	units := x.all[:p.batch*p.heads*p.lq]
	for r := range units {
		query := p.q.row(r/p.lq/p.heads, r/p.lq%p.heads, r%p.lq)
		units[r], _ = x.quantizeQuery(p, w.q[:p.d], query)
	}
	return units
}

// toNatural brings the maxima to natural units.
func (s *State) toNatural() {
	for i := range s.tree.rows {
		s.tree.rows[i].toNatural(s.rows(), &s.units)
	}
	s.units.all, s.units.own = 1, s.units.own[:0]
}

// A State's outputs over values that are rotated (kind_latent.go) stay rotated until Finish, so
// that parts which travel merge as they are. The matrix is its own inverse.

// rotation is the size of the matrix that values of the state's dimension are rotated by.
func (s *State) rotation() int { return s.d & -s.d }

// fixRotation makes outputs so far rotated, or not, as the values that come next.
func (s *State) fixRotation(rotated bool) {
	if s.rotated != rotated {
		s.rotateNodes(s.tree.rows)
	}
	s.rotated = rotated
}

// fixRotations makes copies of t's nodes rotated if those of s are.
func (s *State) fixRotations(t *State, copies []nodeRows) {
	if s.units.all == 0 {
		s.rotated = t.rotated
	} else if s.rotated != t.rotated {
		s.rotateNodes(copies)
	}
}

// rotateNodes rotates the outputs of nodes, or back.
func (s *State) rotateNodes(nodes []nodeRows) {
	for i := range nodes {
		rotateAll(nodes[i].o[:s.rows()*s.d], s.rotation())
	}
}
