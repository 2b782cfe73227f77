package attn

import (
	"math"
	"unsafe"
)

// Score asks for memory that will be needed soon, while it has something to
// compute: packing, scaling and adding a bias would wait for it otherwise. It asks
// for a row now and then, because requests are dropped when too many are
// under way: of 32 KiB asked for at once, next to nothing comes.
//
// No result depends on it, so the generic code does not look at it.

// ahead is what score asks for, a queue that it uses up. It goes from the cursor to the end without
// looking for anything else, so the zero value is none: clear or fill it before the kernels of a block; cleared, it stays so.
type prefetchQueue struct {
	left   int // rows of single panels until the next request
	every  int // rows of single panels from one request to the next
	cursor int // bytes from here to the run at hand
	end    int // and to where runs end

	access
	behind int // rows of keys that follow those at hand and may be read, see series.go

	runs [pairRuns + tokenRuns]prefetchRun
}

// run is rows of memory at equal distances. With AVX-512, if n is a multiple of 4 and requests
// are pagedPrefetch, they are asked for from four places in turn, a quarter of the rows from each: that
// way the Xeon reads faster (see pagedPrefetch). AVX2 computes for longer than memory takes in order,
// and loses 1 % so. NEON's score has no use for back.
type prefetchRun struct {
	at    uintptr // of the next row; not a pointer, for a stack may move
	step  int     // from a row to the one that is asked for next, in bytes
	lines int     // cache lines of a row, at least 1
	n     int     // rows left
	back  int     // beside step, behind every fourth row: when n is a multiple of 4 again; 0 if in order
}

const (
	pairRuns  = 16             // the bias or mask of a tile: one for each head of a group
	tokenRuns = 2 + 2*pairRuns // keys and values of the next block, outputs, queries of the next chunk
)

// A full tile has four panels, so this is two requests for each row of queries,
// and a bit more than one for each row of a bias.
const (
	tokenEvery = 2
	pairEvery  = 3
)

// outputBlocks is during how many blocks before a chunk's last one outputs are asked for, a
// part in each: under a causal mask few rows see these blocks, so one is not enough.
const outputBlocks = 4

const cacheLine = 64

// prefetchRunOf returns n rows of d elements, stride elements apart, from x[at] on.
func prefetchRunOf[T any](x []T, at, stride, n, d int) prefetchRun {
	if n <= 0 {
		return prefetchRun{}
	}
	size := int(unsafe.Sizeof(x[0]))
	first, step, back := uintptr(unsafe.Pointer(&x[at])), stride*size, 0
	if tuned.quarterSteps && n%4 == 0 {
		back = step - n*step
		step *= n / 4
	}
	return prefetchRun{first, step, (int(first%cacheLine) + d*size + cacheLine - 1) / cacheLine, n, back}
}

// touched is how many rows behind those at hand scoreRows may read at most.
func (a *prefetchQueue) touched() int {
	if a == nil || !a.sequential {
		return 0
	}
	return min(a.behind, inPlaceKeys)
}

// stop empties the queue.
func (a *prefetchQueue) stop() { a.left = math.MaxInt }

// clear leaves room for the rows of a bias or mask and nothing else.
func (a *prefetchQueue) clear() {
	a.stop()
	a.end = a.place(pairRuns)
}

// start begins with run first.
func (a *prefetchQueue) start(first, every int) {
	a.left, a.every = every, every
	a.cursor = a.place(first)
}

// place is where run i is, in bytes from here.
func (a *prefetchQueue) place(i int) int {
	return int(unsafe.Offsetof(a.runs)) + i*int(unsafe.Sizeof(prefetchRun{}))
}

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
