package attn

import "github.com/seed-1415985d/attn/internal/operand"

// What the engine has prefetched while kernels compute, and in which way: a queue of rows for
// score, and for few rows a pointer along which their kernels go through pages
// (gen/prefetch_pages.go), or line by line (gen/sequential.go). What these prefetch is
// prefetchWindow after the pointer. No result depends on any of it.

const (
	// outputBlocks is during how many blocks before a chunk's last one outputs are prefetched, a
	// part in each: under a causal mask few rows see these blocks, so one is not enough.
	outputBlocks = 4
)

// prefetchTokens fills the queue for the block at key first. It is for chunks of enough rows that
// computing takes longer than memory.
func (w *scratch) prefetchTokens(p *plan, c *chunk, first int) {
	a := &w.queue
	if a.stop(); c.apart {
		a.end = a.place(pairRuns)
		return
	}
	runs := w.appendTokens(a.runs[:pairRuns], p, c, first)
	a.end = a.place(len(runs))
	if len(runs) > pairRuns {
		a.start(pairRuns, tokenEvery)
	}
}

// appendTokens appends the next block's keys and values and some of the chunk's outputs. In the
// last block of the chunk, these are the keys and values that the next chunk begins
// with, and its queries.
func (w *scratch) appendTokens(runs []prefetchRun, p *plan, c *chunk, first int) []prefetchRun {
	if next := first + Block; next < c.hi {
		runs = p.appendBlock(runs, c, next, c.hi)
		later := (c.hi - next + Block - 1) / Block // blocks after this one
		parts := min((c.hi-c.lo/Block*Block-1)/Block, outputBlocks)
		return p.appendRows(runs, &p.dst, c, parts-later, parts)
	}
	if first <= c.lo { // the only block
		runs = p.appendRows(runs, &p.dst, c, 0, 1)
	}
	if w.next.rows == 0 {
		return runs
	}
	runs = p.appendBlock(runs, &w.next, w.next.lo/Block*Block, w.next.hi)
	return p.appendRows(runs, &p.q, &w.next, 0, 1)
}

// appendBlock appends the keys from first on, at most a block of them, and their values: as many
// rows as fit tuned.PrefetchBytes, because score goes through the lines of a row in one go.
func (p *plan) appendBlock(runs []prefetchRun, c *chunk, first, end int) []prefetchRun {
	n := min(Block, end-first)
	if p.packed != nil || n <= 0 {
		return runs
	}
	if c.rows > p.keys.pagedRows {
		keys := min(n, tuned.PrefetchBytes()/4/p.k.D)
		runs = append(runs, prefetchRunOf(p.k.Data, p.k.offset(c.b, c.kv, first), p.k.SL, keys, p.k.D))
	}
	if c.rows > p.values.pagedRows {
		values := min(n, tuned.PrefetchBytes()/4/p.v.D)
		runs = append(runs, prefetchRunOf(p.v.Data, p.v.offset(c.b, c.kv, first), p.v.SL, values, p.v.D))
	}
	return runs
}

// appendRows appends one of several parts of the chunk's queries or outputs: rows that
// follow each other, for each head of the group. A part below 0 is none.
func (p *plan) appendRows(runs []prefetchRun, x *Tensor, c *chunk, part, parts int) []prefetchRun {
	if part < 0 || x.D == 0 { // a State has no outputs yet
		return runs
	}
	heads := min(p.group, c.rows, pairRuns)
	n := min(c.rows/p.group, tuned.PrefetchBytes()/4/x.D/heads)
	from, to := n*part/parts, n*(part+1)/parts
	for r := range heads {
		h, i := p.locate(c.kv, c.row+r)
		runs = append(runs, prefetchRunOf(x.Data, x.offset(c.b, h, i+from), x.SL, to-from, x.D))
	}
	return runs
}

// prefetchPairs puts what is looked at next in front of the queue: the bias of the next tile, which
// is much memory, or if there is none, the tile's mask for the next block.
func (w *scratch) prefetchPairs(p *plan, c *chunk, b *part, t *tile) {
	row, first := c.row+t.row, b.first+Block
	if p.bias.Data != nil {
		if row += t.rows; t.row+t.rows < c.rows {
			first = b.first
		} else {
			row = c.row
		}
	} else if p.mask.Data == nil {
		return
	}
	if c.rows <= inPlaceRows || first >= c.hi || c.apart {
		return
	}
	keys, all := min(Block, c.hi-first), min(t.rows, c.row+c.rows-row)
	heads := min(p.group, all, pairRuns)
	for r := range heads {
		h, i := p.locate(c.kv, row+r)
		at, rows := &w.queue.runs[pairRuns-heads+r], (all-r+p.group-1)/p.group
		if p.bias.Data != nil {
			*at = prefetchRunOf(p.bias.Data, p.bias.offset(c.b, h, i)+first, p.bias.SL, rows, keys)
		} else {
			*at = prefetchRunOf(p.mask.Data, p.mask.offset(c.b, h, i)+first, p.mask.SL, rows, keys)
		}
	}
	w.queue.start(pairRuns-heads, pairEvery)
}

// pointerOf is where kernels are that read keys or values of the block at key first, page by page;
// 0 if they do not. Rows of a head that follow each other are one run of memory. If those of all
// heads of a token do, the tokens are one: while head h reads a block, it prefetches share h of the
// next one, so the pointer is a window before that.
func (p *plan) pointerOf(at placement, x *Tensor, c *chunk, first int) uintptr {
	switch {
	case c.rows > at.pagedRows:
		return 0
	case !at.shared:
		return operand.Address(x.Data, x.offset(c.b, c.kv, first))
	}
	return sharePointer(x, c, first+Block, Block)
}

// sharePointer is where kernels of a head are that prefetch its share of n tokens from next on; 0
// if these do not exist.
func sharePointer(x *Tensor, c *chunk, next, n int) uintptr {
	if next >= x.L {
		return 0
	}
	return operand.Address(x.Data, x.offset(c.b, 0, next)+c.kv*n*x.D) - prefetchWindow
}

// stepPointers are the pointers of a head while it reads a step of keys, and of values, that ends
// at key end of the block at first: the step after it is prefetched, after the last of keys the
// first of values, and after that of values the next block's first keys.
func (p *plan) stepPointers(c *chunk, first, end int) (keys, values uintptr) {
	if end < Block {
		return sharePointer(&p.k, c, first+end, p.step), sharePointer(&p.v, c, first+end, p.step)
	}
	return sharePointer(&p.v, c, first, p.step), sharePointer(&p.k, c, first+Block, p.step)
}

// hintKeys says how score goes through the keys of a part of a view.
func (w *scratch) hintKeys(p *plan, c *chunk, b *part) {
	w.queue.inOrder = p.inOrder && p.keysInPlace(c)
	if p.step < Block && b.hi-b.lo == p.step {
		w.pointer, _ = p.stepPointers(c, b.first, b.hi)
	} else {
		w.pointer = p.pointerOf(p.keys, &p.k, c, b.first)
	}
}

// hintPanels says how score goes through keys in panels: those of a cache or store, or made here,
// where w.pointer is in what they were made of.
func (w *scratch) hintPanels(p *plan, c *chunk, k []float32) {
	w.queue.pointer = w.pointer
	if p.keyKind == kindViews {
		return
	}
	w.queue.inOrder = c.rows <= p.inOrderRows
	if w.queue.pointer = 0; p.keyKind == kindPanels && c.rows <= p.keys.pagedRows {
		w.queue.pointer = operand.Address(k, 0)
	}
}

// hintValues says how kernels go through the values of a part of a view.
func (w *scratch) hintValues(p *plan, c *chunk, b *part) {
	if p.step < Block && b.hi-b.lo == p.step {
		_, w.layout.pointer = p.stepPointers(c, b.first, b.hi)
	} else {
		w.layout.pointer = p.pointerOf(p.values, &p.v, c, b.first)
	}
}
