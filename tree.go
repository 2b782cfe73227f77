package attn

import (
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/stop"
)

// state is the online softmax of some rows: running maximum, sum and output.
type state struct {
	m, l      []float32 // one per row
	o         []float32 // rows × oStride
	overwrite bool      // no block has been added: what o holds means nothing
}

// grow makes the state large enough for some rows. (It may change places with others, so all
// have the same size.)
func (s *state) grow(rows, oStride int) {
	s.m, s.l, s.o = grow(s.m, rows), grow(s.l, rows), grow(s.o, rows*oStride)
}

// reset makes the first rows rows of the state empty.
func (s *state) reset(rows, oStride int) {
	s.restart(rows)
	s.overwrite = false
	stop.Clear(s.o[:rows*oStride])
}

// copy makes the first rows those of another state.
func (s *state) copy(t *state, rows, oStride int) {
	stop.Copy(s.m[:rows], t.m)
	stop.Copy(s.l[:rows], t.l)
	stop.Copy(s.o[:rows*oStride], t.o)
}

// restart is reset but for the outputs, for a state that gets a block next: then
// each tile clears its own, which also brings them to the cache.
func (s *state) restart(rows int) {
	for r := range s.m[:rows] {
		s.m[r] = negInf
	}
	clear(s.l[:rows])
	s.overwrite = true
}

// clearMasked empties the outputs of rows that have seen no score above −Inf: they
// were empty before, and a weight of 0 has met a value that may be NaN.
func clearMasked(m, o []float32, rows, stride int) {
	for r := range rows {
		if m[r] == negInf {
			clear(o[r*stride:][:stride])
		}
	}
}

// nodeRows is the state of a node's rows.
type nodeRows struct {
	state
	memory *memory.Mapping // what the rows of a State are in; those of scratch are Go's
}

// tree is nodes and the states of their rows.
type tree struct {
	shape segment.List
	rows  []nodeRows // of the nodes
	spare []nodeRows // memory of nodes that there were, or will be
}

// reset empties the tree and keeps its memory.
func (t *tree) reset() {
	t.spare = append(t.spare, t.rows...)
	t.shape, t.rows = t.shape[:0], t.rows[:0]
}

// push adds a node with its rows, whose keys follow those before, and merges what merges then.
func (t *tree) push(n segment.Node, x nodeRows, rows, stride int, u *scoreUnits) {
	t.rows = append(t.rows, x)
	shape, merges := append(t.shape, n).Settle()
	t.merge(shape, merges, rows, stride, u)
}

// merge gives the tree a shape in which the last two nodes have merged some times, and merges their
// rows.
func (t *tree) merge(shape segment.List, merges, rows, stride int, u *scoreUnits) {
	t.shape = shape
	for range merges {
		last := len(t.rows) - 1
		t.rows[last-1].merge(&t.rows[last].state, rows, stride, u)
		t.spare = append(t.spare, t.rows[last])
		t.rows[last] = nodeRows{}
		t.rows = t.rows[:last]
	}
}

// scoreUnits is in which units the scores and maxima of rows are: in one for all, or where products
// are sums of integers, in one for each row.
type scoreUnits struct {
	all float32   // 0: none yet
	own []float32 // of each row; empty if all are in one
}

// of is the unit of a row, and the factor of its powers of 2: the unit times log₂e, finite as the
// unit is.
func (u *scoreUnits) of(row int) (unit, factor float32) {
	if unit = u.all; len(u.own) > 0 {
		unit = u.own[row]
	}
	return unit, float32(min(float64(unit)*f32.Log2E, math.MaxFloat32))
}

// equal reports whether rows are in the same units.
func (u *scoreUnits) equal(v *scoreUnits) bool {
	return u.all == v.all && slices.Equal(u.own, v.own)
}

// set makes them those of others, in memory of their own.
func (u *scoreUnits) set(v *scoreUnits) { u.all, u.own = v.all, append(u.own[:0], v.own...) }

// merge adds rows of t, whose keys come after those of s.
func (s *state) merge(t *state, rows, stride int, u *scoreUnits) {
	var x, y [64]float32
	together := len(x)
	if len(u.own) > 0 {
		together = 1
	}
	for r := 0; r < rows; r += together {
		n := min(together, rows-r)
		_, c := u.of(r)
		floats.MergeSums(tuned.ISA, s.m[r:r+n], s.l[r:], t.m[r:], t.l[r:], x[:], y[:], c)
		floats.MergeRows(tuned.ISA, s.o[r*stride:], t.o[r*stride:], x[:n], y[:n], stride)
	}
}

// toNatural brings the maxima of rows from their units to natural ones. Those that overflow there
// become the largest number, so that what their rows have seen still counts.
func (s *state) toNatural(rows int, u *scoreUnits) {
	for r, m := range s.m[:rows] {
		if unit, _ := u.of(r); unit != 1 && m != negInf {
			s.m[r] = min(max(float32(m*unit), -math.MaxFloat32), math.MaxFloat32)
		}
	}
}
