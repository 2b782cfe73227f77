// Package ancestors says which tokens the queries of a tree see: the last tokens are the queries'
// own, of which a query sees its own and those of its ancestors. Own tokens are counted from the
// first query, in words of a block each, one bit a token, so that a path through many words takes a
// step for each.
package ancestors

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// Tree is the queries of a tree, each behind its parent.
type Tree []query

// query is what a query is in its tree.
type query struct {
	word  uint64 // those of its own word that it sees
	near  int32  // its last ancestor in a word before, −1 if there is none,
	far   int32  // and its last one in a segment of words before
	depth int32  // how many ancestors it has
}

// Plant makes a tree of the parents of its queries: an index of one before, or −1.
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

// Depth is how many ancestors a query has.
func (t Tree) Depth(i int) int { return int(t[i].depth) }

// Window leaves those of the keys that query i sees that are at most left steps before it. Keys are
// those of a block that begins with an own token, or before them: those before own tokens, which
// count one step for each position, are in before; ancestors are one step each.
func (t Tree) Window(keys, before uint64, i, own, left int) uint64 {
	oldest := int(t[i].depth) - left // the depth of the first that is seen, or a position before
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

// Seen is what some queries see of some words of own tokens.
type Seen struct {
	seen  []uint64
	words int // for each query
	low   int // the first of them

	first, queries int // which queries, and their number
}

// heldWords is how many words are known at a time: those of a segment of keys, which begins
// anywhere in one.
const heldWords = kernel.Segment/kernel.Block + 1

// Forget makes nothing known, as for a new tree.
func (s *Seen) Forget() { s.queries = 0 }

// Holds reports whether it is known what n queries from one on see of two words.
func (s *Seen) Holds(first, n, word int) bool {
	return s.first == first && s.queries == n && s.low <= word && word+2 <= s.low+s.words
}

// Hold makes known what n queries, from the tree's query from on, see of two words and of those
// behind. The queries are named by the number of the first.
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

// walk goes from a query to its first ancestor, and notes the words in between that are held.
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

// Of is what the i-th of the queries sees of a block that begins with one of the own tokens, or
// before them.
func (s *Seen) Of(i, own int) uint64 {
	seen, shift := s.seen[i*s.words+own>>6-s.low:], own&(kernel.Block-1)
	return seen[0]>>shift | seen[1]<<(kernel.Block-shift)
}
