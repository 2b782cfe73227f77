package attn

import (
	"bytes"
	"math/bits"
	"unsafe"
)

// What rows see of a block by position, tree, mask and blocks is asked before anything of it is
// read: none of its keys, all, or some. Blocks of which no row of a chunk sees a key are not
// touched, and tiles that see all of them take the way of full blocks.

// What a chunk's rows see of a block together. The zero value is not known yet.
const (
	sawNone = 1 + iota
	sawSome
	sawEverywhere // each row some keys of the first panel and of the last one, or near these
	sawAll
)

// look finds out which keys of a part the chunk's rows see, and reports whether some row sees one.
// Where some rows see some, there is a bit for each key in w.seen. What heads see alike is looked
// at for the first of them: for others it is known where nobody sees a key, or all see the block.
func (w *scratch) look(p *plan, c *chunk, b *part) (any bool) {
	known := w.knownOf(p, c, b)
	if *known != sawNone && *known != sawAll {
		*known = w.lookAt(p, c, b)
	}
	b.looked, b.every, b.trims = true, *known == sawAll, *known == sawSome
	return *known != sawNone
}

// knownOf is where it is noted what a chunk's rows see of a block.
func (w *scratch) knownOf(p *plan, c *chunk, b *part) *uint8 {
	shared := (p.mask.Data == nil || p.mask.SH == 0) && (p.blocked.Data == nil || p.blocked.SH == 0)
	blocks := parts(p.lk, Block)
	if !shared || p.listed || p.sequences != nil || p.kvHeads == 1 ||
		p.chunksPerHead*blocks > maxKnown {
		w.unknown = 0
		return &w.unknown
	}
	if w.knownEntry != c.b {
		w.knownEntry = c.b
		w.known = grow(w.known, p.chunksPerHead*blocks)
		clear(w.known[:p.chunksPerHead*blocks])
	}
	return &w.known[c.row/p.chunkRows*blocks+b.first/Block]
}

// maxKnown bounds the memory of what is known.
const maxKnown = 1 << 20

// lookAt leaves what rows see in w.seen.
func (w *scratch) lookAt(p *plan, c *chunk, b *part) uint8 {
	if p.blocked.Data != nil && !w.blocksSeen(p, c, b) {
		return sawNone
	}
	seen, whole := w.seen[:c.rows], lowBits(b.hi)&^lowBits(b.lo)
	for r := range seen {
		if seen[r] = whole; !b.equal && p.parents == nil { // paths end where positions do
			lo, hi := b.keyRange(p, c, r)
			seen[r] = lowBits(hi) &^ lowBits(lo)
		}
	}
	if p.parents != nil {
		w.lookAtTree(p, c, b, seen)
	}
	if p.blocked.Data != nil {
		w.lookAtBlocks(p, c, b, seen)
	}
	if p.mask.Data != nil {
		w.lookAtMask(p, c, b, seen)
	}
	some, every, lo, hi := uint64(0), ^uint64(0), 0, Block
	for _, e := range seen {
		some |= e
		every &= e
		lo, hi = max(lo, bits.TrailingZeros64(e)), min(hi, bits.Len64(e))
	}
	switch {
	case some == 0:
		return sawNone
	case every == ^uint64(0):
		return sawAll
	case lo < panel && hi > Block-panel:
		return sawEverywhere
	}
	return sawSome
}

// blocksSeen reports whether some block of queries of the chunk sees a block of keys.
func (w *scratch) blocksSeen(p *plan, c *chunk, b *part) bool {
	first, last := c.row/p.group-c.query, (c.row+c.rows-1)/p.group-c.query
	from, to := (c.base+b.first+b.lo)/Block, (c.base+b.first+b.hi-1)/Block // one, or two of a document
	heads := min(p.group, c.rows)
	if p.blocked.SH == 0 {
		heads = 1
	}
	for g := range heads {
		for i := first / Block; i <= last/Block; i++ {
			at := p.blocked.offset(c.b, c.kv*p.group+g, c.blockRow+i)
			if p.blocked.Data[at+from] || p.blocked.Data[at+to] {
				return true
			}
		}
	}
	return false
}

// lookAtBlocks takes keys out of seen whose block a row's own block of queries does not see.
func (w *scratch) lookAtBlocks(p *plan, c *chunk, b *part, seen []uint64) {
	for r := 0; r < len(seen); {
		h, i := p.locate(c.kv, c.row+r)
		i -= c.query
		n := 1 // rows of one head's block of queries, if heads differ or there is one
		if p.group == 1 || p.blocked.SH == 0 {
			n = min(len(seen)-r, (i/Block+1)*Block*p.group-(c.row+r-c.query*p.group))
		}
		keys := c.keysOfBlocks(b, p.blocked.Data[p.blocked.offset(c.b, h, c.blockRow+i/Block):])
		for j := range seen[r : r+n] {
			seen[r+j] &= keys
		}
		r += n
	}
}

// keysOfBlocks is the keys of a part that a row of Options.Blocks shows. Those of a document may be
// in two of its blocks.
func (c *chunk) keysOfBlocks(b *part, row []bool) (keys uint64) {
	at := c.base + b.first
	first := lowBits(Block - at%Block)
	if row = row[at/Block:]; row[0] {
		keys = first
	}
	if b.hi > Block-at%Block && row[1] {
		keys |= ^first
	}
	return keys
}

// lookAtMask takes keys out of seen that the mask does not allow. A mask that is the same for all
// heads is looked at once for those of the group.
func (w *scratch) lookAtMask(p *plan, c *chunk, b *part, seen []uint64) {
	if p.listed {
		w.lookAtListMask(p, c, b, seen)
		return
	}
	group := p.group
	if p.mask.SH != 0 {
		for r := range min(group, len(seen)) {
			h, i := p.locate(c.kv, c.row+r)
			from := p.mask.offset(c.b, h, i) + c.base + b.first + b.lo
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
	from := p.mask.offset(c.b, 0, first) + c.base + b.first + b.lo
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
	several := p.mask.SL != 0 || p.mask.SH != 0
	if p.mask.Data == nil || p.listed || c.heads > 1 || c.rows > inPlaceRows && several {
		return lo
	}
	rows := c.rows
	if p.mask.SL == 0 && p.mask.SH == 0 {
		rows = 1
	}
	next := hi
	for r := range rows {
		h, i := p.locate(c.kv, c.row+r)
		at := p.mask.offset(c.b, h, i) + c.base
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
func (w *scratch) trim(b *part, t *tile) {
	if t.uniform = false; !b.trims {
		return
	}
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
