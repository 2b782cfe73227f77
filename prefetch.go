package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
)

// The queue of rows that score prefetches while it computes. (For few rows kernels prefetch along a
// pointer, see pointerOf in kind_floats.go.) No result depends on it.

// queues reports whether score prefetches a queue for a chunk: in float32, for many rows.
func (p *plan) queues(c *chunk) bool {
	return c.rows > inPlaceRows && !p.integers && !p.bfloat16
}

// outputBlocks is the number of blocks before a chunk's last one in which a part of the outputs is
// prefetched: under a causal mask few rows see these blocks, so one is not enough.
const outputBlocks = 4

// prefetchTokens fills the queue for the block at key first: with the next block's keys and values
// and some of the chunk's outputs; in the last block of the chunk with the first keys and values of
// the next chunk, and its queries. It is for chunks of so many rows that computing is slower than
// memory.
func (w *scratch) prefetchTokens(p *plan, c *chunk, first int) {
	if w.queue.Clear(); c.apart {
		return
	}
	runs := w.queue.Runs[:kernel.PairRuns]
	if next := first + Block; next < c.hi {
		runs = w.appendBlock(runs, p, c, next, c.hi)
		later := (c.hi - next + Block - 1) / Block // blocks after this one
		parts := min((c.hi-c.lo/Block*Block-1)/Block, outputBlocks)
		runs = p.appendRows(runs, &p.dst, c, parts-later, parts)
	} else {
		if first <= c.lo { // the only block
			runs = p.appendRows(runs, &p.dst, c, 0, 1)
		}
		if x := &w.next; x.rows > 0 {
			runs = w.appendBlock(runs, p, x, x.lo/Block*Block, x.hi)
			runs = p.appendRows(runs, &p.q, x, 0, 1)
		}
	}
	if len(runs) > kernel.PairRuns {
		w.queue.End = kernel.FirstRun + len(runs)*kernel.SizeOfRun
		w.queue.Start(kernel.PairRuns, kernel.TokenEvery)
	}
}

// appendBlock appends the keys from first on, at most a block of them, and their values: as many
// rows as fit tuned.PrefetchBytes, because score prefetches all lines of a row at once.
func (w *scratch) appendBlock(runs []kernel.PrefetchRun, p *plan, c *chunk, first,
	end int) []kernel.PrefetchRun {
	n := min(Block, end-first)
	if p.packed != nil || p.listed || n <= 0 || p.integers &&
		w.ints.blocks.Has(packed.Head{B: c.b, KV: c.kv, Base: c.base}, first/Block) {
		return runs
	}
	first += c.base
	if c.rows > p.keys.pagedRows {
		keys := min(n, tuned.PrefetchBytes()/4/p.k.D)
		runs = append(runs, kernel.PrefetchRunOf(&tuned, p.k.Data, p.k.offset(c.b, c.kv, first), p.k.SL,
			keys, p.k.D))
	}
	if c.rows > p.values.pagedRows {
		values := min(n, tuned.PrefetchBytes()/4/p.v.D)
		runs = append(runs, kernel.PrefetchRunOf(&tuned, p.v.Data, p.v.offset(c.b, c.kv, first), p.v.SL,
			values, p.v.D))
	}
	return runs
}

// appendRows appends one of several parts of the chunk's queries or outputs: consecutive rows for
// each head of the group. A part below 0 is none.
func (p *plan) appendRows(runs []kernel.PrefetchRun, x *Tensor, c *chunk, part,
	parts int) []kernel.PrefetchRun {
	if part < 0 || x.D == 0 { // a State has no outputs yet
		return runs
	}
	heads := min(p.group, c.rows, kernel.PairRuns)
	_, whole := p.locate(0, c.rows) // queries of all heads
	n := min(whole, tuned.PrefetchBytes()/4/x.D/heads)
	from, to := n*part/parts, n*(part+1)/parts
	for r := range heads {
		h, i := p.locate(c.kv, c.row+r)
		runs = append(runs, kernel.PrefetchRunOf(&tuned, x.Data, x.offset(c.b, h, i+from), x.SL, to-from,
			x.D))
	}
	return runs
}

// prefetchPairs puts the bias that is read next at the front of the queue, which is much memory:
// the tile's, or the next tile's if the tile's was read already. Rows of Distance are as much.
// Without a bias it is the tile's mask for the next block.
func (w *scratch) prefetchPairs(p *plan, c *chunk, b *blockKeys, t *tile) {
	row, first := c.row+t.row, b.first+Block
	distant := p.bias.Data == nil && p.parents == nil && max(p.distant.Query.SL, p.distant.Key.SL) > 0
	switch {
	case p.bias.Data == nil && !distant:
		if p.mask.Data == nil {
			return
		}
	case t.asks:
		first = b.first
	default:
		if row += t.rows; t.row+t.rows < c.rows {
			first = b.first
		} else {
			row = c.row
		}
	}
	if c.rows <= inPlaceRows || first >= c.hi || c.apart || p.listed {
		return
	}
	keys, all := min(Block, c.hi-first), min(t.rows, c.row+c.rows-row)
	runs := w.queue.Runs[:0:kernel.PairRuns]
	heads := min(p.group, all, kernel.PairRuns)
	if distant {
		heads = min(heads, kernel.PairRuns/2)
	}
	for r := range heads {
		h, i, rows := p.ofHead(c.kv, row, all, r)
		if distant {
			runs = w.distantRuns(runs, p, c, h, i, rows, first, keys)
		} else if x := &p.bias; x.Data != nil {
			runs = appendRun(runs, x, x.offset(c.b, h, i)+c.base+first, x.SL, rows, keys)
		} else {
			x := &p.mask
			runs = append(runs, kernel.PrefetchRunOf(&tuned, x.Data, x.offset(c.b, h, i)+c.base+first, x.SL,
				rows, keys))
		}
	}
	at := kernel.PairRuns - len(runs)
	copy(w.queue.Runs[at:], runs)
	w.queue.Start(at, kernel.PairEvery)
}

// distantRuns appends the numbers that rows of a head, from query i on, have for keys from first
// on.
func (w *scratch) distantRuns(runs []kernel.PrefetchRun, p *plan, c *chunk, h, i, rows, first,
	keys int) []kernel.PrefetchRun {
	d := first - c.position - i
	if x := &p.distant.Query; x.SL > 0 {
		at, width, drift := w.buckets.Span(d, keys, rows, -1)
		runs = appendRun(runs, x, x.offset(c.b, h, i)+at, x.SL+drift, rows, width)
	}
	if x := &p.distant.Key; x.SL > 0 {
		at, width, drift := w.buckets.Span(d-rows+1, rows, keys, 1)
		runs = appendRun(runs, x, x.offset(c.b, h, c.base+first)+at, x.SL+drift, keys, width)
	}
	return runs
}

// appendRun appends n rows of a view, stride apart, of width elements each.
//
//go:noinline
func appendRun(runs []kernel.PrefetchRun, x *Tensor, at, stride, n,
	width int) []kernel.PrefetchRun {
	return append(runs, kernel.PrefetchRunOf(&tuned, x.Data, at, stride, n, width))
}
