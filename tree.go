package attn

import (
	"math"
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Segments merge as a binary tree by their index: node (k, i) covers segments [i·2ᵏ, (i+1)·2ᵏ) and
// is its left half merged with its right one. A half that nothing is seen of changes nothing, so
// what comes before the first segment or after the last does not matter: any cut of the keys into
// nodes gives the same bits.

// nodeKeys is which keys a node has.
type nodeKeys struct {
	first, keys int
	open        bool // it is a segment that takes more keys
}

// regular reports whether a node is one of the tree of segments.
func (n *nodeKeys) regular() bool {
	return n.keys%Segment == 0 && bits.OnesCount(uint(n.keys)) == 1 && n.first%n.keys == 0
}

// maxNodes is more nodes than the tree has, for states that were merged in other cuts.
const maxNodes = 64

// nodeList is which nodes wait for the other half of a larger one, in the order of their keys: in
// the tree at most one of each size.
type nodeList []nodeKeys

// take returns nodes of which the last one takes the key at a position, the next one, and how many
// times the last two before it have merged, to make room.
func (s nodeList) take(position int) (nodes nodeList, merges int) {
	if last := len(s) - 1; last >= 0 && s[last].open {
		return s, 0
	}
	s, merges = s.room()
	return append(s, nodeKeys{first: position, open: true}), merges
}

// room makes sure that there is room for one more node, and returns how many times the last two
// have merged.
func (s nodeList) room() (nodes nodeList, merges int) {
	if len(s) < maxNodes {
		return s, 0
	}
	last := len(s) - 1
	s[last-1].keys += s[last].keys
	return s[:last], 1
}

// fill gives the last node the keys before a position, and returns how many times the last two
// nodes have merged then.
func (s nodeList) fill(end int) (nodes nodeList, merges int) {
	last := &s[len(s)-1]
	last.keys, last.open = end-last.first, end%Segment != 0
	return s.settle()
}

// settle merges the last nodes as long as they are the halves of a larger one, or none of the tree,
// and returns how many times. What is left of the first node is empty: with that, it may be half of
// a larger one.
func (s nodeList) settle() (nodes nodeList, merges int) {
	for {
		last := len(s) - 1
		n := &s[last]
		if last == 0 {
			if n.first == 0 || !n.regular() || n.first%(2*n.keys) == 0 {
				return s, merges
			}
			n.first, n.keys = n.first-n.keys, 2*n.keys
			continue
		}
		left := &s[last-1]
		if half := left.regular(); n.open || half != n.regular() ||
			half && (left.keys != n.keys || left.first%(2*left.keys) != 0) {
			return s, merges
		}
		left.keys += n.keys
		s, merges = s[:last], merges+1
	}
}

// replay returns how many nodes there are after steps that take keys [from, to), segment by
// segment, and how many of the first ones stay as they are.
func (s nodeList) replay(from, to int) (nodes, kept int) {
	kept = len(s)
	if last := kept - 1; last >= 0 && s[last].open && from%Segment+to-from < Segment {
		return kept, last // the usual case: a segment takes a few more
	}
	var buffer [maxNodes]nodeKeys
	x := append(buffer[:0], s...)
	for at := from; at < to; {
		var merges int
		if x, merges = nodeList(x).take(at); merges > 0 {
			kept = min(kept, len(x)-2)
		}
		at = segmentEnd(at, to)
		x, _ = nodeList(x).fill(at)
		kept = min(kept, len(x)-1)
	}
	return len(x), kept
}

// segmentEnd is where the segment of a position ends, or all keys do.
func segmentEnd(position, end int) int { return min(end, (position/Segment+1)*Segment) }

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
	shape nodeList
	rows  []nodeRows // of the nodes
	spare []nodeRows // memory of nodes that there were, or will be
}

// reset empties the tree and keeps its memory.
func (t *tree) reset() {
	t.spare = append(t.spare, t.rows...)
	t.shape, t.rows = t.shape[:0], t.rows[:0]
}

// push adds a node with its rows, whose keys follow those before, and merges what merges then.
func (t *tree) push(n nodeKeys, x nodeRows, rows, stride int, u *units) {
	t.rows = append(t.rows, x)
	shape, merges := append(t.shape, n).settle()
	t.merge(shape, merges, rows, stride, u)
}

// merge gives the tree a shape in which the last two nodes have merged some times, and merges their
// rows.
func (t *tree) merge(shape nodeList, merges, rows, stride int, u *units) {
	t.shape = shape
	for range merges {
		last := len(t.rows) - 1
		t.rows[last-1].merge(&t.rows[last].state, rows, stride, u)
		t.spare = append(t.spare, t.rows[last])
		t.rows[last] = nodeRows{}
		t.rows = t.rows[:last]
	}
}

// units is in which units the scores and maxima of rows are: in one for all, or where products are
// sums of integers, in one for each row.
type units struct {
	all float32   // 0: none yet
	own []float32 // of each row; empty if all are in one
}

// of is the unit of a row, and the factor of its powers of 2: the unit times log₂e, finite as the
// unit is.
func (u *units) of(row int) (unit, factor float32) {
	if unit = u.all; len(u.own) > 0 {
		unit = u.own[row]
	}
	return unit, float32(min(float64(unit)*f32.Log2E, math.MaxFloat32))
}

// equal reports whether rows are in the same units.
func (u *units) equal(v *units) bool { return u.all == v.all && slices.Equal(u.own, v.own) }

// set makes them those of others, in memory of their own.
func (u *units) set(v *units) { u.all, u.own = v.all, append(u.own[:0], v.own...) }

// merge adds rows of t, whose keys come after those of s.
func (s *state) merge(t *state, rows, stride int, u *units) {
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
func (s *state) toNatural(rows int, u *units) {
	for r, m := range s.m[:rows] {
		if unit, _ := u.of(r); unit != 1 && m != negInf {
			s.m[r] = min(max(float32(m*unit), -math.MaxFloat32), math.MaxFloat32)
		}
	}
}
