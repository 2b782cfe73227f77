// Package ancestors computes which tokens the queries of a tree see: the last tokens are the
// queries' own, and a query sees its own token and its ancestors' tokens. Own tokens are counted
// from the first query, in words of a block, one bit a token, so that a path costs one step for
// each word.
package ancestors

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// Tree is the queries of a tree, each after its parent.
type Tree []query

// query is a query in its tree.
type query struct {
	word  uint64 // the tokens of its own word that it sees
	near  int32  // its last ancestor in an earlier word, −1 if there is none,
	far   int32  // and its last ancestor in an earlier segment of words
	depth int32  // number of ancestors
}

// Plant builds the tree from the parents of its queries: an index of an earlier query, or −1.
func (t Tree) Plant(parents []int) {
	for i, parent := range parents {
		q := query{word: 1 << (i % kernel.Block), near: int32(parent), far: int32(parent)}
		if parent >= 0 {
			above := &t[parent]
			q.depth = above.depth + 1
			if parent/kernel.Block == i/kernel.Block {
				q.word, q.near = q.word|above.word, above.near
			}
			if parent/kernel.Segment == i/kernel.Segment {
				q.far = above.far
			}
		}
		t[i] = q
	}
}

// Depth returns the number of ancestors of a query.
func (t Tree) Depth(i int) int { return int(t[i].depth) }

// Window keeps those of the keys that query i sees which are at most left steps before it. Keys are
// a block that begins with an own token, or before the own tokens; before marks the keys before own
// tokens, which count one step for each position. Ancestors are one step each.
func (t Tree) Window(keys, before uint64, i, own, left int) uint64 {
	oldest := int(t[i].depth) - left // depth of the first visible ancestor, or a position
	if oldest <= 0 {
		return keys &^ lowBits(min(max(oldest-own, 0), kernel.Block))
	}
	if keys &^= before; keys == 0 {
		return 0
	}
	last := t[own+bits.Len64(keys)-1].depth
	for drop := bits.OnesCount64(keys) - (int(last) - oldest + 1); drop > 0 && keys != 0; drop-- {
		keys &= keys - 1
	}
	return keys
}

// lowBits has bits 0 to n−1 set.
func lowBits(n int) uint64 { return 1<<n - 1 }

// Seen holds which tokens of some words some queries see.
type Seen struct {
	seen  []uint64
	words int // for each query
	low   int // the first word

	first, queries int // the queries, and their number
}

// heldWords is the number of words that are held at a time: a segment of keys, which may begin
// within a word.
const heldWords = kernel.Segment/kernel.Block + 1

// Forget drops everything, for a new tree.
func (s *Seen) Forget() { s.queries = 0 }

// Holds reports whether two words are held for n queries from from on.
func (s *Seen) Holds(first, n, word int) bool {
	return s.first == first && s.queries == n && s.low <= word && word+2 <= s.low+s.words
}

// Hold computes which tokens of two words, and of the words after them, n queries see, from the
// tree's query from on. The number of the first query identifies them.
func (s *Seen) Hold(t Tree, from, first, n, word int) {
	s.first, s.queries, s.low = first, n, word
	s.words = max(2, min((from+n-1)/kernel.Block+1-word, heldWords))
	if size := n * s.words; len(s.seen) < size {
		s.seen = make([]uint64, size)
	} else {
		clear(s.seen[:size])
	}
	for i := range n {
		s.walk(t, from+i, s.seen[i*s.words:][:s.words])
	}
}

// walk walks from a query to its first ancestor, and records the held words on the path.
func (s *Seen) walk(t Tree, i int, seen []uint64) {
	end, begin := (s.low+s.words)*kernel.Block, max(0, s.low*kernel.Block)
	for i >= end {
		if far := int(t[i].far); far >= end {
			i = far
		} else {
			i = int(t[i].near)
		}
	}
	for i >= begin {
		seen[i/kernel.Block-s.low] = t[i].word
		i = int(t[i].near)
	}
}

// Of returns the tokens that the i-th query sees of a block that begins with an own token, or
// before them.
func (s *Seen) Of(i, own int) uint64 {
	seen, shift := s.seen[i*s.words+own>>6-s.low:], own&(kernel.Block-1)
	return seen[0]>>shift | seen[1]<<(kernel.Block-shift)
}
