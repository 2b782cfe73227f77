// Package segment says which states of segments wait to be merged. Segments merge as a binary tree
// by their index: node (k, i) covers segments [i·2ᵏ, (i+1)·2ᵏ) and is its left half merged with its
// right half. A half of which no key is visible changes nothing, so the segments before the first
// one and after the last do not matter: any cut of the keys into nodes gives the same bits.
package segment

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// Node is the range of keys that a node covers.
type Node struct {
	First, Keys int
	Open        bool // it is a segment that accepts more keys
}

// regular reports whether a node belongs to the tree of segments.
func (n *Node) regular() bool {
	return n.Keys%kernel.Segment == 0 && bits.OnesCount(uint(n.Keys)) == 1 && n.First%n.Keys == 0
}

// Most bounds the nodes in a List. The tree needs fewer; the rest is for states that were merged at
// other cuts.
const Most = 64

// List is the nodes that wait for the other half of a larger node, in the order of their keys. The
// tree has at most one of each size.
type List []Node

// Take returns nodes whose last one accepts the key at a position, the next one, and how many times
// the last two nodes were merged before to make room.
func (s List) Take(position int) (nodes List, merges int) {
	if last := len(s) - 1; last >= 0 && s[last].Open {
		return s, 0
	}
	s, merges = s.Room()
	return append(s, Node{First: position, Open: true}), merges
}

// Room makes room for one more node, and returns how many times the last two were merged.
func (s List) Room() (nodes List, merges int) {
	if len(s) < Most {
		return s, 0
	}
	last := len(s) - 1
	s[last-1].Keys += s[last].Keys
	return s[:last], 1
}

// Fill extends the last node to all keys before a position, and returns how many times the last two
// nodes were merged then.
func (s List) Fill(end int) (nodes List, merges int) {
	last := &s[len(s)-1]
	last.Keys, last.Open = end-last.First, end%kernel.Segment != 0
	return s.Settle()
}

// Settle merges the last nodes as long as they are halves of a larger node or do not belong to the
// tree, and returns how many times. The range before the first node counts as empty: with it the
// node may be half of a larger one.
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

// Replay returns the number of nodes after steps that add keys [from, to), segment by segment, and
// how many of the first nodes stay as they are.
func (s List) Replay(from, to int) (nodes, kept int) {
	kept = len(s)
	if last := kept - 1; last >= 0 && s[last].Open && from%kernel.Segment+to-from < kernel.Segment {
		return kept, last // the usual case: a segment accepts a few more keys
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

// End is where the segment of a position ends, or where all keys end.
func End(position, end int) int { return min(end, (position/kernel.Segment+1)*kernel.Segment) }
