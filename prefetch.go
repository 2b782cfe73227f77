package attn

// What score prefetches while it computes: a queue of rows. (For few rows kernels go along a
// pointer, see pointerOf in kind_floats.go.) No result depends on any of it.

// outputBlocks is during how many blocks before a chunk's last one outputs are prefetched, a part
// in each: under a causal mask few rows see these blocks, so one is not enough.
const outputBlocks = 4

// prefetchTokens fills the queue for the block at key first: with the next block's keys and values
// and some of the chunk's outputs, in the last block of the chunk with the keys and values that the
// next chunk begins with, and its queries. It is for chunks of enough rows that computing takes
// longer than memory.
func (w *scratch) prefetchTokens(p *plan, c *chunk, first int) {
	if w.queue.clear(); c.apart {
		return
	}
	runs := w.queue.runs[:pairRuns]
	if next := first + Block; next < c.hi {
		runs = p.appendBlock(runs, c, next, c.hi)
		later := (c.hi - next + Block - 1) / Block // blocks after this one
		parts := min((c.hi-c.lo/Block*Block-1)/Block, outputBlocks)
		runs = p.appendRows(runs, &p.dst, c, parts-later, parts)
	} else {
		if first <= c.lo { // the only block
			runs = p.appendRows(runs, &p.dst, c, 0, 1)
		}
		if x := &w.next; x.rows > 0 {
			runs = p.appendBlock(runs, x, x.lo/Block*Block, x.hi)
			runs = p.appendRows(runs, &p.q, x, 0, 1)
		}
	}
	if len(runs) > pairRuns {
		w.queue.end = firstRun + len(runs)*sizeOfRun
		w.queue.start(pairRuns, tokenEvery)
	}
}

// appendBlock appends the keys from first on, at most a block of them, and their values: as many
// rows as fit tuned.PrefetchBytes, because score goes through the lines of a row in one go.
func (p *plan) appendBlock(runs []prefetchRun, c *chunk, first, end int) []prefetchRun {
	n := min(Block, end-first)
	if p.packed != nil || p.listed || n <= 0 {
		return runs
	}
	first += c.base
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

// prefetchPairs puts the bias of a tile, or the next block's mask if there is no bias, in front of
// the queue: the bias is read as soon as the tile's scores are there.
func (w *scratch) prefetchPairs(p *plan, c *chunk, b *part, t *tile) {
	if c.rows <= inPlaceRows || p.listed {
		return
	}
	heads := min(p.group, t.rows, pairRuns)
	for first := range heads {
		h, i := p.locate(c.kv, c.row+t.row+first)
		rows := p.rowsOfHead(t, first)
		at := &w.queue.runs[pairRuns-heads+first]
		if p.bias.Data != nil {
			from := p.bias.offset(c.b, h, i) + c.base + b.first + t.lo
			*at = prefetchRunOf(p.bias.Data, from, p.bias.SL, rows, t.hi-t.lo)
		} else if next := b.first + Block; p.mask.Data != nil && next < c.hi {
			from := p.mask.offset(c.b, h, i) + c.base + next // it was looked at for this block
			*at = prefetchRunOf(p.mask.Data, from, p.mask.SL, rows, min(Block, c.hi-next))
		} else {
			return
		}
	}
	w.queue.start(pairRuns-heads, pairEvery)
}
