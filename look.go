package attn

import (
	"slices"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/sight"
)

// Before a block is read, look finds which of its keys rows see by position, tree, mask, bias and
// blocks: none, all, or some. Blocks that no row of a chunk sees are not read, and tiles that see
// all keys are computed like full blocks.

// look finds which keys of a block the chunk's rows see, and reports whether some row sees one. If
// some rows see some keys, w.seen has a bit for each key. If all heads see alike, the first head's
// result is kept for the others: blocks that nobody sees, and blocks that all rows see. The bias of
// many rows is much memory, so look only finds whether it leaves some key visible; see does the
// rest.
func (w *scratch) look(p *plan, c *chunk, b *blockKeys) (any bool) {
	known := w.knownOf(p, c, b)
	b.looked, b.asks, b.biased = true, false, *known&sight.Bias != 0
	if b.saw = *known &^ sight.Bias; b.saw != sight.None && b.saw != sight.All {
		b.asks = p.biased && !p.near.Slide && c.rows > p.tileRows && !c.apart
		b.saw = w.lookAt(p, c, b)
		if b.asks && b.saw != sight.None && !w.biasShows(p, c, b) {
			b.saw = sight.None
		}
		if *known = b.saw; b.saw == sight.All {
			*known = b.knownAll()
		}
	}
	b.partly = b.saw != sight.All || b.asks
	return b.saw != sight.None
}

// see reduces a tile to the keys that its rows see, and notes whether their scores have a bias. If
// the bias has hidden nothing recently, the search is left to the addition of the bias, which then
// reads it only once.
func (w *scratch) see(p *plan, c *chunk, b *blockKeys, t *tile) {
	t.asks = b.asks && !b.hides && !w.biasHid && !p.integers
	if b.asks && !t.asks {
		hides, adds := w.lookAtBias(p, c, b, t.row, t.rows)
		b.biased, w.biasHid = b.biased || adds, hides
		if hides {
			b.hides = true
			w.trim(c, t)
			return
		}
	}
	switch b.saw {
	case sight.Some:
		w.trim(c, t)
	case sight.Everywhere:
		t.uniform = false
	}
}

// learn notes for other heads that a bias has hidden no key of a block.
func (w *scratch) learn(p *plan, c *chunk, b *blockKeys) {
	if b.saw == sight.All && !b.hides {
		known := w.knownOf(p, c, b)
		b.asks = false
		*known = b.knownAll()
	}
}

// knownAll returns the note for a block that all rows see by mask and blocks.
func (b *blockKeys) knownAll() uint8 {
	switch {
	case b.asks:
		return sight.Some
	case b.biased:
		return sight.All | sight.Bias
	}
	return sight.All
}

// knownOf returns the note on what a chunk's rows see of a block.
func (w *scratch) knownOf(p *plan, c *chunk, b *blockKeys) *uint8 {
	known := w.knownBlocks(p, c)
	if known == nil {
		w.unknown = 0
		return &w.unknown
	}
	return &known[b.first/Block]
}

// knownBlocks returns the notes on all blocks, if heads see alike; else nil.
func (w *scratch) knownBlocks(p *plan, c *chunk) []uint8 {
	shared := p.mask.SH == 0 && p.bias.SH == 0 && p.blocked.SH == 0 && // 0 if there is none
		p.distant.Query.SH == 0 && p.distant.Key.SH == 0
	blocks := partsOf(p.lk, Block)
	if !shared || p.listed || p.sequences != nil || p.kvHeads == 1 ||
		p.chunksPerHead*blocks > maxKnown {
		return nil
	}
	if w.knownEntry != c.b {
		w.knownEntry = c.b
		w.known = grow(w.known, p.chunksPerHead*blocks)
		clear(w.known[:p.chunksPerHead*blocks])
	}
	return w.known[c.row/p.chunkRows*blocks:][:blocks]
}

// maxKnown bounds the memory of these notes.
const maxKnown = 1 << 20

// lookAt sets w.seen to the keys that rows see.
func (w *scratch) lookAt(p *plan, c *chunk, b *blockKeys) uint8 {
	if !c.apart {
		return w.lookAtRows(p, c, b, w.blocksAhead(p, c, b))
	}
	saw := w.lookAtRows(p, &w.beside[0].chunk, b, 1)
	for i := range w.beside[1:] {
		saw = sight.Both(saw, w.lookAtRows(p, &w.beside[1+i].chunk, b, 1))
	}
	return saw
}

// lookAtRows is lookAt for rows of one head and one sequence. If it has to read the mask, it reads
// that of several blocks.
func (w *scratch) lookAtRows(p *plan, c *chunk, b *blockKeys, blocks int) uint8 {
	seen, whole := w.seen[c.at:][:c.rows], kernel.LowBits(b.hi)&^kernel.LowBits(b.lo)
	var ahead *sight.Ahead
	var mask sight.Mask
	at := 0
	if p.mask.Data != nil && !p.listed {
		ahead, mask = w.aheadOf(p, c), p.maskOf(c)
		at = ahead.Find(tuned.ISA, &mask, b.first, c.hi, blocks)
	}
	if ahead != nil && ahead.Some[at]&whole == 0 || p.blocked.Data != nil && !p.blocksSeen(c, b) {
		clear(seen)
		return sight.None
	}
	if w.rowsInRuns(p, c, b) {
		return p.lookAtRuns(c, b)
	}
	hides := p.lookAtPositions(c, b, seen, whole)
	if ahead != nil && ahead.Every[at] != ^uint64(0) {
		hides = true
		ahead.Allow(&mask, at, seen)
	}
	more, some := w.lookAtOptions(p, c, b, seen)
	switch {
	case hides || more:
		return sight.Of(seen)
	case some:
		return sight.Some
	}
	return sight.All
}

// lookAtRuns counts the rows that see nothing of a block, where all others see it all.
func (p *plan) lookAtRuns(c *chunk, b *blockKeys) uint8 {
	b.inRuns = true
	for row := 0; row < c.rows; {
		sees, rows := p.runOfBlocks(c, b, row)
		if row += rows; !sees {
			b.blind += rows
		}
	}
	if b.blind == 0 {
		return sight.All
	}
	return sight.Some
}

// lookAtPositions sets seen to the keys that rows see by position, and reports whether some may not
// be the whole block.
func (p *plan) lookAtPositions(c *chunk, b *blockKeys, seen []uint64, whole uint64) (hides bool) {
	if whole == ^uint64(0) && (b.equal || p.parents != nil) {
		sight.Fill(seen)
		return !b.equal
	}
	for r := range seen {
		if seen[r] = whole; !b.equal && p.parents == nil { // with a tree, only paths limit what rows see
			lo, hi := b.keyRange(p, c, r)
			seen[r] = kernel.LowBits(hi) &^ kernel.LowBits(lo)
		}
	}
	return true
}

// lookAtOptions clears in seen the keys that a tree, blocks, the mask of lists or a bias hide. It
// reports whether one of them hides a key, and whether blocks hide the whole block from some rows.
func (w *scratch) lookAtOptions(p *plan, c *chunk, b *blockKeys, seen []uint64) (hides, some bool) {
	if p.parents != nil {
		hides = true
		w.lookAtTree(p, c, b, seen)
	}
	if p.blocked.Data != nil {
		some = w.lookAtBlocks(p, c, b, seen)
		hides = hides || some && c.base%Block != 0 // perhaps only a part of the block
	}
	if p.mask.Data != nil && p.listed {
		hides = true
		w.lookAtListMask(p, c, b, seen)
	}
	if p.biased && !p.near.Shows && !b.asks {
		x, adds := w.lookAtBias(p, c, b, 0, c.rows)
		hides, b.biased = hides || x, b.biased || adds
	}
	return hides, some
}

// blocksSeen reports whether some row of the chunk sees a block of keys by its block of queries.
func (p *plan) blocksSeen(c *chunk, b *blockKeys) bool {
	if p.blocked.SH == 0 {
		first, queries := p.queries(c.row, c.rows)
		return p.blockSeen(c, b, 0, first, queries)
	}
	for r := range min(p.group, c.rows) {
		if h, first, queries := p.ofHead(c.kv, c.row, c.rows, r); p.blockSeen(c, b, h, first, queries) {
			return true
		}
	}
	return false
}

// blockSeen reports whether the blocks of queries from first on, of a head, see a block of keys.
func (p *plan) blockSeen(c *chunk, b *blockKeys, h, first, queries int) bool {
	from, to := (c.base+b.first+b.lo)/Block, (c.base+b.first+b.hi-1)/Block // two if of a document
	first -= c.query
	for i := first / Block; i <= (first+queries-1)/Block; i++ {
		at := p.blocked.offset(c.b, h, c.blockRow+i)
		if p.blocked.Data[at+from] || p.blocked.Data[at+to] {
			return true
		}
	}
	return false
}

// rowsInRuns reports whether only Options.Blocks decide which rows see a block, and these rows can
// be computed as full tiles. Then runs of rows are found when needed, and w.seen is not written.
func (w *scratch) rowsInRuns(p *plan, c *chunk, b *blockKeys) bool {
	alike := p.group == 1 || p.blocked.SH == 0
	return p.blocked.Data != nil && p.mask.Data == nil && !p.biased && p.parents == nil &&
		p.weights.Data == nil && alike && c.base%Block == 0 && b.equal && b.hi-b.lo == Block &&
		p.full && c.rows > p.keys.inPlaceRows && !c.apart
}

// runOfBlocks returns whether a row sees a block by Options.Blocks, and how many rows from it on
// see the same.
func (p *plan) runOfBlocks(c *chunk, b *blockKeys, row int) (sees bool, rows int) {
	h, i := p.locate(c.kv, c.row+row)
	i -= c.query
	at := p.blocked.offset(c.b, h, c.blockRow+i/Block) + (c.base+b.first)/Block
	sees = p.blocked.Data[at]
	for rows = p.rowsBefore(c.query+(i/Block+1)*Block, c.row+row); row+rows < c.rows; {
		if at += p.blocked.SL; p.blocked.Data[at] != sees {
			return sees, rows
		}
		rows += p.rowsBefore(Block, 0)
	}
	return sees, c.rows - row
}

// lookAtBlocks clears in seen the keys of blocks that a row's block of queries does not see, and
// reports whether there are any.
func (w *scratch) lookAtBlocks(p *plan, c *chunk, b *blockKeys, seen []uint64) (hides bool) {
	for r := 0; r < len(seen); {
		h, i := p.locate(c.kv, c.row+r)
		i -= c.query
		n := 1 // rows of one head's block of queries, if heads differ
		if p.group == 1 || p.blocked.SH == 0 {
			n = min(len(seen)-r, p.rowsBefore(c.query+(i/Block+1)*Block, c.row+r))
		}
		keys := c.keysOfBlocks(b, p.blocked.Data[p.blocked.offset(c.b, h, c.blockRow+i/Block):])
		if keys != ^uint64(0) {
			hides = true
			for j := range seen[r : r+n] {
				seen[r+j] &= keys
			}
		}
		r += n
	}
	return hides
}

// keysOfBlocks returns the keys of a block that a row of Options.Blocks shows. A document's keys
// may be in two of its blocks.
func (c *chunk) keysOfBlocks(b *blockKeys, row []bool) (keys uint64) {
	at := c.base + b.first
	first := kernel.LowBits(Block - at%Block)
	if row = row[at/Block:]; row[0] {
		keys = first
	}
	if b.hi > Block-at%Block && row[1] {
		keys |= ^first
	}
	return keys
}

// lookAtBias clears in w.seen the keys that the bias hides from some rows of a chunk. A bias that
// is the same for all heads is read once for the heads of the group. It reports whether a bias
// hides a key, and whether one is neither −Inf nor ±0.
func (w *scratch) lookAtBias(p *plan, c *chunk, b *blockKeys, row, rows int) (hides, adds bool) {
	seen, first := w.seen[c.at+row:][:rows], c.row+row
	query, queries := p.queries(first, rows)
	if !p.distant.none() || p.listed || p.bias.SH != 0 || p.group == 1 && p.bias.SL != 0 {
		keys, t := b.hi-b.lo, tile{row: row, rows: rows, lo: b.lo, hi: b.hi}
		for x := w.biasPart(p, c, b, &t, 0); x.rows > 0; x = w.biasPart(p, c, b, &t, x.next) {
			if x.stride < 0 && !slices.Contains(x.bias[:keys+x.rows-1], negInf) {
				adds = true
				continue
			}
			some, more := floats.MaskBias(tuned.ISA, x.bias, seen[x.row:], x.rows, x.step, x.stride, b.lo,
				keys)
			hides, adds = hides || some, adds || more
		}
		return hides, adds
	}
	if p.bias.SL == 0 {
		queries = 1
	}
	allowed := w.allowed[:queries]
	sight.Fill(allowed)
	x := p.bias.Data[p.bias.offset(c.b, 0, query)+c.base+b.first+b.lo:]
	hides, adds = floats.MaskBias(tuned.ISA, x, allowed, queries, 1, p.bias.SL, b.lo, b.hi-b.lo)
	for r := range seen {
		i := 0
		if queries > 1 {
			_, i = p.locate(0, first+r)
			i -= query
		}
		seen[r] &= allowed[i]
	}
	return hides, adds
}

// biasShows reports whether a bias leaves a key visible to some row; usually it does to the first
// one.
func (w *scratch) biasShows(p *plan, c *chunk, b *blockKeys) bool {
	for row, n := 0, 1; row < c.rows; row, n = row+n, p.tileRows {
		n = min(n, c.rows-row)
		hides, _ := w.lookAtBias(p, c, b, row, n)
		b.hides = b.hides || hides
		for _, e := range w.seen[c.at+row:][:n] {
			if e != 0 {
				return true
			}
		}
	}
	return false
}

// seeSpan reduces a span of several whole blocks or heads to the first blocks that all rows of all
// heads see, or if there are none, to one block that heads process one after the other. It returns
// the span's end.
func (w *scratch) seeSpan(p *plan, c *chunk, s *span) (end int) {
	n := 0
	for s.biased = false; n < s.blocks && w.headsSeeWhole(p, c, s.first+n*Block, s); n++ {
	}
	if s.blocks = max(1, n); n == 0 {
		s.step = Block
	}
	return s.first + s.blocks*Block
}

// headsSeeWhole reports whether all rows of all heads of a chunk see a whole block.
func (w *scratch) headsSeeWhole(p *plan, c *chunk, first int, s *span) bool {
	var h chunk
	for g := range c.heads {
		b := blockKeys{first: first, hi: Block, equal: true}
		if !w.seesWhole(p, w.head(c, g, &h), &b) {
			return false
		}
		s.biased = s.biased || b.biased
	}
	return true
}

// seesWhole reports whether all rows of a chunk see a whole block.
func (w *scratch) seesWhole(p *plan, c *chunk, b *blockKeys) bool {
	if !w.look(p, c, b) || b.saw != sight.All {
		return false
	}
	hides := false
	if b.asks {
		hides, b.biased = w.lookAtBias(p, c, b, 0, c.rows)
	}
	return !hides
}

// skipHidden returns the first key in [lo, hi) that may be visible to some row, rounded down to a
// block or lo; hi if there is none. It checks less than look, and only for few rows or a mask with
// the same row for all, so that long hidden runs are skipped fast.
func (p *plan) skipHidden(c *chunk, lo, hi int) int {
	several := p.mask.SL != 0 || p.mask.SH != 0
	if p.mask.Data == nil || p.listed || c.heads > 1 || c.apart ||
		c.rows > inPlaceRows && several {
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
		if n := sight.IndexTrue(p.mask.Data[at+lo : at+next]); n >= 0 {
			next = lo + n
		}
	}
	if next == hi {
		return hi
	}
	return max(lo, next/Block*Block)
}

// trim reduces a tile to the keys that its rows see, and to fewer rows if the first rows see the
// same keys, or if rows see different ends of the block, as at a diagonal.
func (w *scratch) trim(c *chunk, t *tile) {
	seen := w.seen[c.at+t.row:][:t.rows]
	t.rows, t.lo, t.hi, t.uniform = sight.Trim(seen, diagonalRows)
}

// runOf returns how many rows from row on see exactly the given keys of the block.
func (w *scratch) runOf(keys uint64, c *chunk, row int) (n int) {
	return sight.Run(w.seen[c.at+row:c.at+c.rows], keys)
}

// aheadBits bounds the memory of masks that are kept for other heads.
const aheadBits = 1 << 19

// blocksAhead returns how many blocks of the mask to read: the blocks from b on without a note.
func (w *scratch) blocksAhead(p *plan, c *chunk, b *blockKeys) (n int) {
	known := w.knownBlocks(p, c)
	if known == nil {
		if p.headsPerChunk > 1 && p.mask.SH != 0 {
			return 1 // heads alternate
		}
		return sight.AheadBlocks
	}
	for _, saw := range known[b.first/Block:] {
		if saw = saw &^ sight.Bias; saw == sight.None || saw == sight.All || n == sight.AheadBlocks {
			break
		}
		n++
	}
	return n
}

// maskOf returns the mask's rows for a chunk's rows.
func (p *plan) maskOf(c *chunk) sight.Mask {
	kv := c.kv
	if p.mask.SH == 0 {
		kv = -1
	}
	h, i := p.locate(c.kv, 0)
	return sight.Mask{Data: p.mask.Data[p.mask.offset(c.b, h, i)+c.base:], SH: p.mask.SH,
		SL: p.mask.SL, Row: c.row, Rows: c.rows, Group: p.group, B: c.b, KV: kv}
}

// aheadOf returns the memory for the mask of a chunk's rows. If heads see alike, each chunk of a
// head has its own, so that other heads find it.
func (w *scratch) aheadOf(p *plan, c *chunk) *sight.Ahead {
	n, i := 1, 0
	if p.mask.SH == 0 && p.sequences == nil && p.kvHeads > 1 &&
		p.lq*min(partsOf(p.lk, Block), sight.AheadBlocks) <= aheadBits {
		n, i = p.chunksPerHead, c.row/p.chunkRows
	}
	for len(w.ahead) < n {
		w.ahead = append(w.ahead, sight.Ahead{})
	}
	return &w.ahead[i]
}
