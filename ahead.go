package attn

// outputBlocks is during how many blocks before a chunk's last one outputs are asked for, a
// part in each: under a causal mask few rows see these blocks, so one is not enough.
const outputBlocks = 4

// expect notes which chunk comes behind the one at hand; next is its number in the call, or
// not less than the number of chunks.
func (w *scratch) prefetchNext(p *plan, next int) {
	if next < p.items() {
		p.chunk(next, &w.next)
	}
}

// prefetchTokens fills the queue for the block at key first.
func (w *scratch) prefetchTokens(p *plan, c *chunk, first int) {
	a := &w.queue
	a.stop()
	runs := a.runs[:pairRuns]
	if c.rows > inPlaceRows {
		runs = w.appendTokens(runs, p, c, first)
	}
	a.end = a.place(len(runs))
	if len(runs) > pairRuns {
		a.start(pairRuns, tokenEvery)
	}
}

// appendTokens appends the next block's keys and values and some of the chunk's outputs. In the
// last block of the chunk, these are the keys and values that the next chunk begins
// with, and its queries.
func (w *scratch) appendTokens(runs []prefetchRun, p *plan, c *chunk, first int) []prefetchRun {
	lo, end := p.chunkKeys(c)
	if next := first + Block; next < end {
		runs = p.appendBlock(runs, c, next, end)
		later := (end - next + Block - 1) / Block // blocks behind this one
		parts := min((end-lo/Block*Block-1)/Block, outputBlocks)
		return p.appendRows(runs, &p.dst, c, parts-later, parts)
	}
	if first <= lo { // the only block
		runs = p.appendRows(runs, &p.dst, c, 0, 1)
	}
	if w.next.rows == 0 {
		return runs
	}
	lo, end = p.chunkKeys(&w.next)
	runs = p.appendBlock(runs, &w.next, lo/Block*Block, end)
	return p.appendRows(runs, &p.q, &w.next, 0, 1)
}

// appendBlock appends the keys from first on, at most a block of them, and their values: as many
// rows as prefetchBytes are, because score goes through the lines of a row in one go.
func (p *plan) appendBlock(runs []prefetchRun, c *chunk, first, end int) []prefetchRun {
	n := min(Block, end-first)
	if p.cache != nil || n <= 0 {
		return runs
	}
	for _, x := range [...]*Tensor{&p.k, &p.v} {
		if !p.follows(x, c) {
			runs = append(runs, prefetchRunOf(x.Data, x.offset(c.b, c.kv, first), x.SL, min(n, tuned.prefetchBytes()/4/x.D), x.D))
		}
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
	n := min(c.rows/p.group, tuned.prefetchBytes()/4/x.D/heads)
	from, to := n*part/parts, n*(part+1)/parts
	for r := range heads {
		h, i := p.locate(c.kv, c.row+r)
		runs = append(runs, prefetchRunOf(x.Data, x.offset(c.b, h, i+from), x.SL, to-from, x.D))
	}
	return runs
}

// prefetchPairs puts the bias, or the mask if there is no bias, of a tile in front
// of the queue: it is read as soon as the tile's scores are there.
func (w *scratch) prefetchPairs(p *plan, c *chunk, b *block, t *tile) {
	if c.rows <= inPlaceRows {
		return
	}
	heads := min(p.group, t.rows, pairRuns)
	for first := range heads {
		h, i := p.locate(c.kv, c.row+t.row+first)
		rows := p.rowsOfHead(t, first)
		at := &w.queue.runs[pairRuns-heads+first]
		if p.bias.Data != nil {
			*at = prefetchRunOf(p.bias.Data, p.bias.offset(c.b, h, i)+b.first+t.lo, p.bias.SL, rows, t.hi-t.lo)
		} else {
			*at = prefetchRunOf(p.mask.Data, p.mask.offset(c.b, h, i)+b.first+t.lo, p.mask.SL, rows, t.hi-t.lo)
		}
	}
	w.queue.start(pairRuns-heads, pairEvery)
}
