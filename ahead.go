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

// ahead is what score asks for, a queue that it uses up.
type ahead struct {
	left   int // rows of single panels until the next request
	every  int // rows of single panels from one request to the next
	cursor int // bytes from here to the run at hand
	end    int // and to where runs end
	runs   [pairRuns + tokenRuns]run
}

// run is rows of memory at equal distances.
type run struct {
	at     uintptr // of the next row; not a pointer, for a stack may move
	stride int     // in bytes
	lines  int     // cache lines of a row, at least 1
	n      int     // rows left
}

const (
	pairRuns  = 16 // the bias or mask of a tile: one for each head of a group
	tokenRuns = 3  // keys and values of the next block, queries of the next chunk
)

// A full tile has four panels, so this is two requests for each row of queries,
// and a bit more than one for each row of a bias.
const (
	tokenEvery = 2
	pairEvery  = 3
)

// firstQueries is how many queries of the next chunk are asked for; from there on
// the processor has seen that they are read in order.
const firstQueries = 256

const cacheLine = 64

// runOf returns n rows of d elements, stride elements apart, from x[at] on.
func runOf[T any](x []T, at, stride, n, d int) run {
	if n <= 0 {
		return run{}
	}
	size := int(unsafe.Sizeof(x[0]))
	first := uintptr(unsafe.Pointer(&x[at]))
	return run{first, stride * size, (int(first%cacheLine) + d*size + cacheLine - 1) / cacheLine, n}
}

// stop empties the queue.
func (a *ahead) stop() { a.left = math.MaxInt }

// start begins with run first.
func (a *ahead) start(first, every int) {
	a.left, a.every = every, every
	a.cursor, a.end = int(unsafe.Offsetof(a.runs)), int(unsafe.Sizeof(*a))
	a.cursor += first * int(unsafe.Sizeof(run{}))
}

// expect notes which chunk comes behind the one at hand; next is its number in the call, or
// not less than the number of chunks.
func (w *scratch) expect(p *plan, next int) {
	if next < p.items() {
		w.next, _ = p.chunk(next)
	}
}

// askForTokens fills the queue for the block at key first: the next block of
// the chunk, or in its last one the first block and queries of the next chunk.
func (w *scratch) askForTokens(p *plan, c *chunk, first int) {
	w.ahead.stop()
	runs := w.ahead.runs[pairRuns:]
	clear(runs)
	if p.cache != nil || c.rows <= rawRows {
		return
	}
	_, end := p.chunkKeys(c)
	if first += Block; first >= end {
		if w.next.rows == 0 {
			return
		}
		c = &w.next
		first, end = p.chunkKeys(c)
		first = first / Block * Block
		if p.group == 1 {
			runs[2] = runOf(p.q.Data, p.q.offset(c.b, c.kv, c.row), p.q.SL, min(c.rows, firstQueries), p.d)
		}
	}
	n := min(Block, end-first)
	runs[0] = runOf(p.k.Data, p.k.offset(c.b, c.kv, first), p.k.SL, n, p.d)
	runs[1] = runOf(p.v.Data, p.v.offset(c.b, c.kv, first), p.v.SL, n, p.dv)
	w.ahead.start(pairRuns, tokenEvery)
}

// askForPairs puts the bias, or the mask if there is no bias, of a tile in front
// of the queue: it is read as soon as the tile's scores are there.
func (w *scratch) askForPairs(p *plan, c *chunk, b *block, t *tile) {
	if c.rows <= rawRows {
		return
	}
	heads := min(p.group, t.rows, pairRuns)
	for first := range heads {
		h, i := p.locate(c.kv, c.row+t.row+first)
		rows := p.rowsOfHead(t, first)
		at := &w.ahead.runs[pairRuns-heads+first]
		if p.bias.Data != nil {
			*at = runOf(p.bias.Data, p.bias.offset(c.b, h, i)+b.first+t.lo, p.bias.SL, rows, t.hi-t.lo)
		} else {
			*at = runOf(p.mask.Data, p.mask.offset(c.b, h, i)+b.first+t.lo, p.mask.SL, rows, t.hi-t.lo)
		}
	}
	w.ahead.start(pairRuns-heads, pairEvery)
}
