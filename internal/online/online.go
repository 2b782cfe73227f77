// Package online implements the online softmax of rows: running maxima, sums and outputs, and the
// tree in which segments merge.
package online

import (
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// State is the online softmax of some rows: running maximum, sum and output.
type State struct {
	M, L      []float32 // one per row
	O         []float32 // rows × stride
	Overwrite bool      // no block has been added: the content of O is not valid
}

// Grow makes the state large enough for some rows. (States may be swapped, so all have the same
// size.)
func (s *State) Grow(rows, stride int) {
	s.M, s.L = kernel.Grow(s.M, rows), kernel.Grow(s.L, rows)
	s.O = kernel.Grow(s.O, rows*stride)
}

// Reset empties the first rows rows of the state.
func (s *State) Reset(rows, stride int) {
	s.Restart(rows)
	s.Overwrite = false
	stop.Clear(s.O[:rows*stride])
}

// Copy copies the first rows of another state.
func (s *State) Copy(t *State, rows, stride int) {
	stop.Copy(s.M[:rows], t.M)
	stop.Copy(s.L[:rows], t.L)
	stop.Copy(s.O[:rows*stride], t.O)
}

// CopyRow copies a row with d outputs from another state. Rows of outputs are strides apart.
func (s *State) CopyRow(row, stride int, t *State, from, tStride, d int) {
	s.M[row], s.L[row] = t.M[from], t.L[from]
	stop.Copy(s.O[row*stride:], t.O[from*tStride:][:d])
}

// Restart is Reset without the outputs, for a state to which a block is added next: then each tile
// clears its own outputs, which also loads them into the cache.
func (s *State) Restart(rows int) {
	for r := range s.M[:rows] {
		s.M[r] = kernel.NegInf
	}
	clear(s.L[:rows])
	s.Overwrite = true
}

// ClearMasked clears the outputs of rows that have seen no score above −Inf: they were empty
// before, and a weight of 0 was multiplied by a value that may be NaN.
func ClearMasked(m, o []float32, rows, stride int) {
	for r := range rows {
		if m[r] == kernel.NegInf {
			clear(o[r*stride:][:stride])
		}
	}
}

// Node is the state of the rows of a node of a tree.
type Node struct {
	State
	Memory *memory.Mapping // the memory of a State's rows; rows of scratch are Go memory
}

// Tree is nodes with the states of their rows.
type Tree struct {
	Shape segment.List
	Rows  []Node // of the nodes
	Spare []Node // memory of removed nodes, or reserved for new ones
}

// Reset empties the tree and keeps its memory.
func (t *Tree) Reset() {
	t.Spare = append(t.Spare, t.Rows...)
	t.Shape, t.Rows = t.Shape[:0], t.Rows[:0]
}

// Reserve allocates memory for some more nodes of rows of d outputs.
func (t *Tree) Reserve(nodes, rows, d int) error {
	for len(t.Spare) < nodes {
		m, err := memory.Allocate(4 * rows * (d + 2)) // zero, and at a cache line
		if err != nil {
			return err
		}
		x := m.Floats()
		st := State{M: x[:rows], L: x[rows : 2*rows], O: x[2*rows:]}
		t.Spare = append(t.Spare, Node{State: st, Memory: m})
	}
	return nil
}

// Reserved returns memory that was reserved.
func (t *Tree) Reserved() Node {
	last := len(t.Spare) - 1
	x := t.Spare[last]
	t.Spare[last] = Node{}
	t.Spare = t.Spare[:last]
	return x
}

// Close empties the tree and releases its memory.
func (t *Tree) Close() (first error) {
	t.Reset()
	for i := range t.Spare {
		if err := t.Spare[i].Memory.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Extend gives the tree the shape after keys [from, to) were added. Their rows exist already;
// merged nodes become spare memory.
func (t *Tree) Extend(from, to int) {
	for from < to {
		end := segment.End(from, to)
		t.Shape, _ = t.Shape.Take(from)
		t.Shape, _ = t.Shape.Fill(end)
		from = end
	}
	t.Spare = append(t.Spare, t.Rows[len(t.Shape):]...)
	clear(t.Rows[len(t.Shape):])
	t.Rows = t.Rows[:len(t.Shape)]
}

// New adds the rows of a node, in spare memory if there is any. (It does not allocate earlier,
// because rows may see few of many keys.)
func (t *Tree) New(rows, stride int) *State {
	var x Node
	if last := len(t.Spare) - 1; last >= 0 {
		x, t.Spare = t.Spare[last], t.Spare[:last]
	}
	x.Grow(rows, stride)
	t.Rows = append(t.Rows, x)
	return &t.Rows[len(t.Rows)-1].State
}

// Append adds nodes of another tree with their rows; their keys begin at a position.
func (t *Tree) Append(isa tuning.ISA, nodes segment.List, states []Node, position, rows,
	stride int, u *Units) {
	if last := len(t.Shape) - 1; last >= 0 && len(nodes) > 0 {
		t.Shape[last].Open = false // the next keys do not belong to it
		shape, merges := t.Shape.Settle()
		t.Merge(isa, shape, merges, rows, stride, u)
	}
	for i, n := range nodes {
		n.First, n.Open = position+n.First, n.Open && position%kernel.Segment == 0
		shape, merges := t.Shape.Room()
		t.Merge(isa, shape, merges, rows, stride, u)
		t.Push(isa, n, states[i], rows, stride, u)
	}
}

// Push adds a node with its rows, whose keys follow the tree's, and merges nodes that are complete.
func (t *Tree) Push(isa tuning.ISA, n segment.Node, x Node, rows, stride int, u *Units) {
	t.Rows = append(t.Rows, x)
	shape, merges := append(t.Shape, n).Settle()
	t.Merge(isa, shape, merges, rows, stride, u)
}

// Merge gives the tree a shape in which the last two nodes have merged some times, and merges their
// rows.
func (t *Tree) Merge(isa tuning.ISA, shape segment.List, merges, rows, stride int, u *Units) {
	t.Shape = shape
	for range merges {
		last := len(t.Rows) - 1
		t.Rows[last-1].State.Merge(isa, &t.Rows[last].State, rows, stride, u)
		t.Spare = append(t.Spare, t.Rows[last])
		t.Rows[last] = Node{}
		t.Rows = t.Rows[:last]
	}
}

// Units are the units of the scores and maxima of rows: one for all or, if products are sums of
// integers, one for each row.
type Units struct {
	All float32   // 0: none yet
	Own []float32 // of each row; empty if all are in one
}

// Of returns the unit of a row, and the factor of its powers of 2: the unit times log₂e; both are
// finite.
func (u *Units) Of(row int) (unit, factor float32) {
	if unit = u.All; len(u.Own) > 0 {
		unit = u.Own[row]
	}
	return unit, float32(min(float64(unit)*f32.Log2E, math.MaxFloat32))
}

// Equal reports whether rows are in the same units.
func (u *Units) Equal(v *Units) bool {
	return u.All == v.All && slices.Equal(u.Own, v.Own)
}

// Set copies the units of others.
func (u *Units) Set(v *Units) { u.All, u.Own = v.All, append(u.Own[:0], v.Own...) }

// Merge adds rows of t, whose keys follow those of s.
func (s *State) Merge(isa tuning.ISA, t *State, rows, stride int, u *Units) {
	var x, y [64]float32
	together := len(x)
	if len(u.Own) > 0 {
		together = 1
	}
	for r := 0; r < rows; r += together {
		n := min(together, rows-r)
		_, c := u.Of(r)
		floats.MergeSums(isa, s.M[r:r+n], s.L[r:], t.M[r:], t.L[r:], x[:], y[:], c)
		floats.MergeRows(isa, s.O[r*stride:], t.O[r*stride:], x[:n], y[:n], stride)
	}
}

// ToNatural converts the maxima of rows to natural units. Maxima that overflow become the largest
// number, so that earlier keys still count.
func (s *State) ToNatural(rows int, u *Units) {
	for r, m := range s.M[:rows] {
		if unit, _ := u.Of(r); unit != 1 && m != kernel.NegInf {
			s.M[r] = min(max(float32(m*unit), -math.MaxFloat32), math.MaxFloat32)
		}
	}
}

// IntegerUnit returns the unit of products with a query whose integers have a scale, after the
// query was multiplied by a factor; unit is the unit of products of numbers.
func IntegerUnit(of, scale, factor float32) float32 {
	if scale == 0 {
		return of // all products are 0, in any unit
	}
	unit := float64(of) * float64(scale) // exact, and so is the rest
	if factor != 1 {
		unit /= math.Abs(float64(factor))
	}
	return float32(min(max(unit, math.SmallestNonzeroFloat32), math.MaxFloat32))
}

// FillNaN sets scores to NaN.
func FillNaN(s []float32) {
	for i := range s {
		s[i] = float32(math.NaN())
	}
}
