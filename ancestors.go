package attn

import (
	"math/bits"

	"github.com/seed-1415985d/attn/internal/ancestors"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// Options.Tree: the last keys of an entry are the queries' own tokens. A query sees its own token,
// its ancestors' tokens, and all keys before the own tokens as without a tree, so only the last
// blocks need a look.

// trees holds the trees of a call, and the own tokens that the current rows see.
type trees struct {
	tree ancestors.Tree // of all queries, in their packed order
	seen ancestors.Seen // of a chunk's queries
}

// fit builds the trees of a call.
func (a *trees) fit(p *plan) {
	a.tree = grow(a.tree, len(p.parents))
	a.seen.Forget()
	if p.sequences == nil {
		a.tree.Plant(p.parents)
		return
	}
	for i := range p.sequences.Sequences {
		s := &p.sequences.Sequences[i]
		a.tree[s.Query:].Plant(p.parents[s.Query:][:s.Queries])
	}
}

// hold computes which tokens of two words of own tokens a chunk's queries see. The words are the
// same for all heads and entries.
func (a *trees) hold(p *plan, c *chunk, word int) {
	first, queries := p.queries(c.row, c.rows)
	if !a.seen.Holds(first, queries, word) {
		a.seen.Hold(a.tree[c.query:], first-c.query, first, queries, word)
	}
}

// lookAtTree clears in seen the own tokens of queries that are neither the row's nor its
// ancestors', and tokens outside the window, which counts along the path.
func (w *scratch) lookAtTree(p *plan, c *chunk, b *blockKeys, seen []uint64) {
	a, own := &w.trees, b.first-c.firstOwn() // the block's first key among own tokens
	before := kernel.LowBits(min(max(-own, 0), Block))
	if own > -Block {
		a.hold(p, c, own>>6)
	}
	_, first := p.locate(0, c.row)
	for i, r := 0, 0; r < len(seen); i++ {
		keys := before
		if own > -Block {
			keys |= a.seen.Of(i, own)
		}
		if p.along >= 0 {
			keys = a.tree[c.query:].Window(keys, before, first+i-c.query, own, p.along)
		}
		for end := min(len(seen), p.rowsBefore(first+i+1, c.row)); r < end; r++ {
			seen[r] &= keys
		}
	}
}

// addTreeSlopes is addSlopes with distances along the paths of a tree. Consecutive own tokens that
// a row sees have consecutive depths.
func (w *scratch) addTreeSlopes(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	first, paths := c.firstOwn(), w.trees.tree
	before := min(max(first-b.first, t.lo), t.hi)
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		s, slope, depth := w.s[(at+r)*Block:], p.slopes[h], paths.Depth(i)
		floats.Alibi(tuned.ISA, s[t.lo:before], slope, b.first+t.lo-first-depth)
		seen := kernel.LowBits(t.hi) &^ kernel.LowBits(before)
		if b.partly {
			seen &= w.seen[c.at+t.row+r]
		}
		for seen != 0 {
			lo := bits.TrailingZeros64(seen)
			hi := lo + bits.TrailingZeros64(^(seen >> lo))
			floats.Alibi(tuned.ISA, s[lo:hi], slope, paths.Depth(c.query+b.first+lo-first)-depth)
			seen &^= kernel.LowBits(hi)
		}
	}
}
