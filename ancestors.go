package attn

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// Options.Tree: the last keys of an entry are the queries' own tokens, of which a query sees its
// own and those of its ancestors. Keys before these are seen as without a tree, so only the last
// blocks are looked at.

// ancestors is the trees of a call, and which of the queries' own tokens the rows at hand see.
type ancestors struct {
	tree []treeQuery // of all queries, as they are packed

	// What the queries of a chunk see of some words of own tokens: words for each query.
	seen                []uint64
	words               int
	first, queries, low int // the first query, their number, and the first word
}

// treeQuery is what a query is in its tree. Own tokens are counted from the entry's first query, in
// words of Block, so that a path through many words takes a step for each.
type treeQuery struct {
	word  uint64 // those of its own word that it sees
	near  int32  // its last ancestor in a word before, −1 if there is none,
	far   int32  // and its last one in a segment of words before
	depth int32  // how many ancestors it has
}

// heldWords is how many words of own tokens are known at a time: those of a segment of keys, which
// begins anywhere in one.
const heldWords = Segment/Block + 1

// fit learns the trees of a call.
func (a *ancestors) fit(p *plan) {
	a.tree, a.queries = grow(a.tree, len(p.parents)), 0
	if p.sequences == nil {
		plant(a.tree, p.parents)
		return
	}
	for i := range p.sequences.sequences {
		s := &p.sequences.sequences[i]
		plant(a.tree[s.query:], p.parents[s.query:][:s.queries])
	}
}

// plant makes a tree of the parents of its queries.
func plant(tree []treeQuery, parents []int) {
	for i, parent := range parents {
		q := treeQuery{word: 1 << (i % Block), near: int32(parent), far: int32(parent)}
		if parent >= 0 {
			above := &tree[parent]
			q.depth = above.depth + 1
			if parent/Block == i/Block {
				q.word, q.near = q.word|above.word, above.near
			}
			if parent/Segment == i/Segment {
				q.far = above.far
			}
		}
		tree[i] = q
	}
}

// hold makes known what a chunk's queries see of two words of own tokens, from one on, and of those
// behind. Words are the same for all heads and entries.
func (a *ancestors) hold(p *plan, c *chunk, word int) {
	first, queries := p.queries(c.row, c.rows)
	if a.first == first && a.queries == queries && a.low <= word && word+2 <= a.low+a.words {
		return
	}
	a.first, a.queries, a.low = first, queries, word
	a.words = max(2, min((first+queries-1-c.query)/Block+1-word, heldWords))
	a.seen = grow(a.seen, queries*a.words)
	clear(a.seen[:queries*a.words])
	for i := range queries {
		a.walk(a.tree[c.query:], first-c.query+i, a.seen[i*a.words:][:a.words])
	}
}

// walk goes from a query to its first ancestor, and notes the words in between that are held.
func (a *ancestors) walk(tree []treeQuery, i int, seen []uint64) {
	end, begin := (a.low+a.words)*Block, max(0, a.low*Block)
	for i >= end {
		if far := int(tree[i].far); far >= end {
			i = far
		} else {
			i = int(tree[i].near)
		}
	}
	for i >= begin {
		seen[i/Block-a.low] = tree[i].word
		i = int(tree[i].near)
	}
}

// lookAtTree takes keys out of seen that are own tokens of other queries than a row's and its
// ancestors', or that a window hides, which counts along that path.
func (w *scratch) lookAtTree(p *plan, c *chunk, b *part, seen []uint64) {
	a, own := &w.ancestors, b.first-c.firstOwn() // the block's first key among own tokens
	before := lowBits(min(max(-own, 0), Block))
	if own > -Block {
		a.hold(p, c, own>>6)
	}
	_, first := p.locate(0, c.row)
	for i, r := 0, 0; r < len(seen); i++ {
		keys := before
		if own > -Block {
			keys |= a.ownKeys(i, own)
		}
		if p.along >= 0 {
			keys = windowOf(a.tree[c.query:], keys, before, first+i-c.query, own, p.along)
		}
		for end := min(len(seen), p.rowsBefore(first+i+1, c.row)); r < end; r++ {
			seen[r] &= keys
		}
	}
}

// ownKeys is what the i-th query of the chunk sees of a block that begins with one of the own
// tokens, or before them.
func (a *ancestors) ownKeys(i, own int) uint64 {
	seen, shift := a.seen[i*a.words+own>>6-a.low:], own&(Block-1)
	return seen[0]>>shift | seen[1]<<(Block-shift)
}

// windowOf leaves those keys that are at most left steps before a query: positions before own
// tokens, and ancestors, which are one step each.
func windowOf(tree []treeQuery, keys, before uint64, i, own, left int) uint64 {
	oldest := int(tree[i].depth) - left // the depth of the first that is seen, or a position before
	if oldest <= 0 {
		return keys &^ lowBits(min(max(oldest-own, 0), Block))
	}
	if keys &^= before; keys == 0 {
		return 0
	}
	last := tree[own+bits.Len64(keys)-1].depth
	for drop := bits.OnesCount64(keys) - (int(last) - oldest + 1); drop > 0 && keys != 0; drop-- {
		keys &= keys - 1
	}
	return keys
}

// addTreeSlopes is addSlopes with distances along the paths of a tree. Where a row sees own tokens
// that follow each other, so do their depths.
func (w *scratch) addTreeSlopes(p *plan, c *chunk, b *part, t *tile, at int) {
	first, tree := c.firstOwn(), w.ancestors.tree
	before := min(max(first-b.first, t.lo), t.hi)
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		s, slope, depth := w.s[(at+r)*Block:], p.slopes[h], int(tree[i].depth)
		floats.Alibi(tuned.ISA, s[t.lo:before], slope, b.first+t.lo-first-depth)
		seen := lowBits(t.hi) &^ lowBits(before)
		if b.partly {
			seen &= w.seen[c.at+t.row+r]
		}
		for seen != 0 {
			lo := bits.TrailingZeros64(seen)
			hi := lo + bits.TrailingZeros64(^(seen >> lo))
			floats.Alibi(tuned.ISA, s[lo:hi], slope, int(tree[c.query+b.first+lo-first].depth)-depth)
			seen &^= lowBits(hi)
		}
	}
}
