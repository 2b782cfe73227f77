package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/sight"
)

// A mask is read some blocks ahead: a row of one block is a cache line, and rows are in pages of
// their own.

// aheadBits bounds the memory for what is kept for other heads.
const aheadBits = 1 << 19

// blocksAhead is how many blocks of the mask to read: those from b on that are not known.
func (w *scratch) blocksAhead(p *plan, c *chunk, b *blockKeys) (n int) {
	known := w.knownBlocks(p, c)
	if known == nil {
		if p.headsPerChunk > 1 && p.mask.SH != 0 {
			return 1 // heads take turns
		}
		return aheadBlocks
	}
	for _, saw := range known[b.first/Block:] {
		if saw = saw &^ sight.Bias; saw == sight.None || saw == sight.All || n == aheadBlocks {
			break
		}
		n++
	}
	return n
}

// aheadOf is where the mask for a chunk's rows is.
func (w *scratch) aheadOf(p *plan, c *chunk) *maskAhead {
	n, i := 1, 0
	if p.mask.SH == 0 && p.sequences == nil && p.kvHeads > 1 &&
		p.lq*min(partsOf(p.lk, Block), aheadBlocks) <= aheadBits {
		n, i = p.chunksPerHead, c.row/p.chunkRows
	}
	for len(w.ahead) < n {
		w.ahead = append(w.ahead, maskAhead{})
	}
	return &w.ahead[i]
}

// find brings the block at key first to hand, and returns its index.
func (a *maskAhead) find(p *plan, c *chunk, first, blocks int) (i int) {
	kv := c.kv
	if p.mask.SH == 0 {
		kv = -1
	}
	if i = (first - a.first) / Block; first < a.first || i >= a.blocks || c.row != a.row ||
		kv != a.kv || c.b != a.b {
		a.b, a.kv, a.row, a.first = c.b, kv, c.row, first
		a.blocks = min(blocks, partsOf(c.hi-first, Block))
		a.read(p, c)
		i = 0
	}
	return i
}

// read takes the bits of all blocks from the mask, row by row.
func (a *maskAhead) read(p *plan, c *chunk) {
	first, queries := p.queries(c.row, c.rows)
	switch a.queries = c.rows; {
	case p.mask.SH != 0: // a mask for each row
	case p.mask.SL == 0:
		a.queries = 1
	default:
		a.queries = queries
	}
	whole, rest := (c.hi-a.first)/Block, (c.hi-a.first)%Block
	whole = min(whole, a.blocks)
	a.bits = grow(a.bits, a.blocks*a.queries)
	bits := a.bits[:a.blocks*a.queries]
	sight.Fill(bits)
	for r := range a.queries {
		h, i := 0, first+r
		if p.mask.SH != 0 {
			h, i = p.locate(c.kv, c.row+r)
		}
		x := p.mask.Data[p.mask.offset(c.b, h, i)+c.base+a.first:]
		if whole > 0 {
			floats.MaskKeys(tuned.ISA, x, bits[r:], whole, a.queries, Block, 0, Block)
		}
		if whole < a.blocks {
			at := whole*a.queries + r
			bits[at] = kernel.LowBits(rest)
			floats.MaskKeys(tuned.ISA, x[whole*Block:], bits[at:], 1, 1, 0, 0, rest)
		}
	}
	for k := range a.blocks {
		a.some[k], a.every[k] = sight.Keys(bits[k*a.queries:][:a.queries])
	}
}

// allow takes keys out of seen that block i hides from the rows of a chunk.
func (a *maskAhead) allow(p *plan, c *chunk, i int, seen []uint64) {
	bits := a.bits[i*a.queries:][:a.queries]
	switch {
	case len(bits) == len(seen):
		for r, e := range bits {
			seen[r] &= e
		}
	case len(bits) == 1:
		for r := range seen {
			seen[r] &= bits[0]
		}
	default:
		_, first := p.locate(0, c.row)
		for r := range seen {
			_, i := p.locate(0, c.row+r)
			seen[r] &= bits[i-first]
		}
	}
}
