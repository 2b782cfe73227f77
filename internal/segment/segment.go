// Package segment says which states of segments wait for each other. Segments merge as a binary
// tree by their index: node (k, i) covers segments [i·2ᵏ, (i+1)·2ᵏ) and is its left half merged
// with its right one. A half that nothing is seen of changes nothing, so what comes before the
// first segment or after the last does not matter: any cut of the keys into nodes gives the same
// bits.
package segment

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// Node is which keys a node has.
type Node struct {
	First, Keys int
	Open        bool // it is a segment that takes more keys
}

// regular reports whether a node is one of the tree of segments.
func (n *Node) regular() bool {
	return n.Keys%kernel.Segment == 0 && bits.OnesCount(uint(n.Keys)) == 1 && n.First%n.Keys == 0
}

// Most is more nodes than the tree has, for states that were merged in other cuts.
const Most = 64

// List is which nodes wait for the other half of a larger one, in the order of their keys: in
// the tree at most one of each size.
type List []Node

// Take returns nodes of which the last one takes the key at a position, the next one, and how many
// times the last two before it have merged, to make room.
func (s List) Take(position int) (nodes List, merges int) {
	if last := len(s) - 1; last >= 0 && s[last].Open {
		return s, 0
	}
	s, merges = s.Room()
	return append(s, Node{First: position, Open: true}), merges
}

// Room makes sure that there is room for one more node, and returns how many times the last two
// have merged.
func (s List) Room() (nodes List, merges int) {
	if len(s) < Most {
		return s, 0
	}
	last := len(s) - 1
	s[last-1].Keys += s[last].Keys
	return s[:last], 1
}

// Fill gives the last node the keys before a position, and returns how many times the last two
// nodes have merged then.
func (s List) Fill(end int) (nodes List, merges int) {
	last := &s[len(s)-1]
	last.Keys, last.Open = end-last.First, end%kernel.Segment != 0
	return s.Settle()
}

// Settle merges the last nodes as long as they are the halves of a larger one, or none of the tree,
// and returns how many times. What is left of the first node is empty: with that, it may be half of
// a larger one.
func (s List) Settle() (nodes List, merges int) {
	for {
		last := len(s) - 1
		n := &s[last]
		if last == 0 {
			if n.First == 0 || !n.regular() || n.First%(2*n.Keys) == 0 {
				return s, merges
			}
			n.First, n.Keys = n.First-n.Keys, 2*n.Keys
			continue
		}
		left := &s[last-1]
		if half := left.regular(); n.Open || half != n.regular() ||
			half && (left.Keys != n.Keys || left.First%(2*left.Keys) != 0) {
			return s, merges
		}
		left.Keys += n.Keys
		s, merges = s[:last], merges+1
	}
}

// Replay returns how many nodes there are after steps that take keys [from, to), segment by
// segment, and how many of the first ones stay as they are.
func (s List) Replay(from, to int) (nodes, kept int) {
	kept = len(s)
	if last := kept - 1; last >= 0 && s[last].Open && from%kernel.Segment+to-from < kernel.Segment {
		return kept, last // the usual case: a segment takes a few more
	}
	var buffer [Most]Node
	x := append(buffer[:0], s...)
	for at := from; at < to; {
		var merges int
		if x, merges = List(x).Take(at); merges > 0 {
			kept = min(kept, len(x)-2)
		}
		at = End(at, to)
		x, _ = List(x).Fill(at)
		kept = min(kept, len(x)-1)
	}
	return len(x), kept
}

// End is where the segment of a position ends, or all keys do.
func End(position, end int) int { return min(end, (position/kernel.Segment+1)*kernel.Segment) }
