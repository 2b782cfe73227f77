package attn

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/memory"
)

// The nodes of a State: which keys they have, when they merge, and their memory.

// stateNode is the state of consecutive keys.
type stateNode struct {
	nodeKeys
	nodeRows
}

// nodeKeys is which keys a node has.
type nodeKeys struct {
	first, keys int
	open        bool // it is a segment that takes more keys
}

// nodeRows is the state of all rows. They are (b·H + h)·L + i, their outputs d apart.
type nodeRows struct {
	state
	memory *memory.Mapping // what the rows are in
}

// maxNodes is more nodes than the tree has, for states that were merged in other cuts.
const maxNodes = 64

// regular reports whether a node is one of the tree of segments.
func (n *nodeKeys) regular() bool {
	return n.keys%Segment == 0 && bits.OnesCount(uint(n.keys)) == 1 && n.first%n.keys == 0
}

// extend adds the keys before a position.
func (n *nodeKeys) extend(end int) {
	n.keys = end - n.first
	n.open = end%Segment != 0
}

// mergeable reports whether two nodes that follow each other merge: they are the halves of a larger
// one, or none of the tree.
func mergeable(a, b *nodeKeys) bool {
	if b.open {
		return false
	}
	if a.regular() || b.regular() {
		return a.regular() && b.regular() && a.keys == b.keys && a.first%(2*a.keys) == 0
	}
	return true
}

// nodesDuring is the largest number of nodes that the state has during an Update of so many keys.
// It makes the same steps without their rows, so that all memory is there before anything changes.
func (s *State) nodesDuring(keys int) int {
	if last := len(s.nodes) - 1; last >= 0 && s.nodes[last].open && s.keys%Segment+keys <= Segment {
		return len(s.nodes) // the usual case: a segment takes a few more
	}
	var buffer [maxNodes]nodeKeys
	nodes := buffer[:0]
	for i := range s.nodes {
		nodes = append(nodes, s.nodes[i].nodeKeys)
	}
	peak := len(nodes)
	mergeLast := func() {
		last := len(nodes) - 1
		nodes[last-1].keys += nodes[last].keys
		nodes = nodes[:last]
	}
	for at, end := s.keys, s.keys+keys; at < end; {
		if last := len(nodes) - 1; last < 0 || !nodes[last].open {
			if len(nodes) == maxNodes {
				mergeLast()
			}
			nodes = append(nodes, nodeKeys{first: at})
		}
		peak = max(peak, len(nodes))
		at = min(end, (at/Segment+1)*Segment)
		nodes[len(nodes)-1].extend(at)
		for last := len(nodes) - 1; last > 0 && mergeable(&nodes[last-1], &nodes[last]); last-- {
			mergeLast()
		}
	}
	return peak
}

// reserve makes sure that there is memory for so many more nodes.
func (s *State) reserve(nodes int) error {
	for len(s.spare) < nodes {
		rows := s.rows()
		m, err := memory.Allocate(4 * rows * (s.d + 2)) // zero, and at a cache line
		if err != nil {
			return fail(ErrMemory, "node %d of the State is %d×%d×%d×(%d+2) numbers: %v",
				len(s.nodes)+len(s.spare), s.b, s.h, s.l, s.d, err)
		}
		x := m.Floats()
		s.spare = append(s.spare, nodeRows{state{m: x[:rows], l: x[rows : 2*rows], o: x[2*rows:]}, m})
	}
	return nil
}

// newRows returns memory that was reserved.
func (s *State) newRows() nodeRows {
	last := len(s.spare) - 1
	x := s.spare[last]
	s.spare[last] = nodeRows{}
	s.spare = s.spare[:last]
	return x
}
