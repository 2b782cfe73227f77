package attn

import (
	"bytes"
	"math/bits"
	"unsafe"
)

// What rows see of a block by position, mask and blocks is asked before anything of it is read:
// none of its keys, all, or some. Blocks of which no row of a chunk sees a key are not touched, and
// tiles that see all of them take the way of full blocks.

// look finds out which keys of a part the chunk's rows see, a bit for each in w.seen. It reports
// whether some row sees a key, and notes whether all see the whole block.
func (w *scratch) look(p *plan, c *chunk, b *part) (any bool) {
	seen := w.seen[:c.rows]
	whole := lowBits(b.hi) &^ lowBits(b.lo)
	for r := range seen {
		if seen[r] = whole; !b.equal {
			lo, hi := b.keyRange(p, c, r)
			seen[r] = lowBits(hi) &^ lowBits(lo)
		}
	}
	if p.blocked.Data != nil {
		w.lookAtBlocks(p, c, b, seen)
	}
	if p.mask.Data != nil {
		w.lookAtMask(p, c, b, seen)
	}
	some, every := uint64(0), ^uint64(0)
	for _, e := range seen {
		some |= e
		every &= e
	}
	b.looked, b.every = true, every == ^uint64(0)
	return some != 0
}

// lookAtBlocks takes keys out of seen whose block a row's own block of queries does not see.
func (w *scratch) lookAtBlocks(p *plan, c *chunk, b *part, seen []uint64) {
	for r := range seen {
		h, i := p.locate(c.kv, c.row+r)
		at := p.blocked.offset(c.b, h, c.blockRow+(i-c.query)/Block)
		if !p.blocked.Data[at+b.first/Block] {
			seen[r] = 0
		}
	}
}

// lookAtMask takes keys out of seen that the mask does not allow. A mask that is the same for all
// heads is looked at once for those of the group.
func (w *scratch) lookAtMask(p *plan, c *chunk, b *part, seen []uint64) {
	group := p.group
	if p.mask.SH != 0 {
		for r := range min(group, len(seen)) {
			h, i := p.locate(c.kv, c.row+r)
			from := p.mask.offset(c.b, h, i) + b.first + b.lo
			rows := (len(seen) - r + group - 1) / group
			maskKeys(p.mask.Data[from:], seen[r:], rows, group, p.mask.SL, b.lo, b.hi-b.lo)
		}
		return
	}
	first := c.row / group
	queries := (c.row+len(seen)-1)/group - first + 1
	if p.mask.SL == 0 {
		queries = 1
	}
	allowed := w.allowed[:queries]
	for i := range allowed {
		allowed[i] = ^uint64(0)
	}
	from := p.mask.offset(c.b, 0, first) + b.first + b.lo
	maskKeys(p.mask.Data[from:], allowed, queries, 1, p.mask.SL, b.lo, b.hi-b.lo)
	for r := range seen {
		i := 0
		if queries > 1 {
			i = (c.row+r)/group - first
		}
		seen[r] &= allowed[i]
	}
}

// skipHidden is the first key from lo to hi−1 at which the block begins, or lo, of which a mask or
// blocks may show some row a key; hi if there is none. It asks less than look, for few rows only or
// where a row of the mask stands for all, so that long runs that nobody sees take no time.
func (p *plan) skipHidden(c *chunk, lo, hi int) int {
	if p.mask.Data == nil || c.heads > 1 || c.rows > inPlaceRows && (p.mask.SL != 0 || p.mask.SH != 0) {
		return lo
	}
	rows := c.rows
	if p.mask.SL == 0 && p.mask.SH == 0 {
		rows = 1
	}
	next := hi
	for r := range rows {
		h, i := p.locate(c.kv, c.row+r)
		at := p.mask.offset(c.b, h, i)
		if n := indexTrue(p.mask.Data[at+lo : at+next]); n >= 0 {
			next = lo + n
		}
	}
	if next == hi {
		return hi
	}
	return max(lo, next/Block*Block)
}

// indexTrue is the index of the first true element, −1 if there is none.
func indexTrue(x []bool) int {
	if len(x) == 0 {
		return -1
	}
	return bytes.IndexByte(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)), 1)
}

// trim makes a tile of rows that were looked at one of what they see: fewer keys, and fewer rows
// where the first ones see the same, or where rows see other ends of the block, as at a diagonal.
func (w *scratch) trim(p *plan, c *chunk, t *tile) {
	seen := w.seen[t.row:][:t.rows]
	same := 1
	for same < len(seen) && seen[same] == seen[0] {
		same++
	}
	if same >= diagonalRows {
		t.rows = same
	} else if t.rows > diagonalRows && farApart(seen[0], seen[len(seen)-1]) {
		t.rows = diagonalRows
	}
	seen = seen[:t.rows]
	some, every := uint64(0), ^uint64(0)
	for _, e := range seen {
		some |= e
		every &= e
	}
	t.lo, t.hi = bits.TrailingZeros64(some), bits.Len64(some)
	t.uniform = some == every && some == lowBits(t.hi)&^lowBits(t.lo)
	if some == 0 {
		t.lo = 0
	}
}

// runOfAll is how many rows from one on see all keys of the block that was looked at.
func (w *scratch) runOfAll(row, rows int) (n int) {
	for row+n < rows && w.seen[row+n] == ^uint64(0) {
		n++
	}
	return n
}

// farApart reports whether what two rows see begins or ends a panel apart.
func farApart(a, b uint64) bool {
	lo := bits.TrailingZeros64(a) - bits.TrailingZeros64(b)
	hi := bits.Len64(a) - bits.Len64(b)
	return max(lo, -lo, hi, -hi) >= panel
}
