package attn

import (
	"fmt"
	"math/bits"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/pages"
)

// plan is a validated call as a value: what is asked for, with all defaults filled in, and how it will be computed.
type plan struct {
	dst, q Tensor
	source // keys and values

	batch, heads, kvHeads int
	lq, lk                int
	d, dv                 int
	group                 int // query heads that share a key/value head
	oStride               int // distance of output rows in scratch: whole vectors

	scale   float32 // |Scale|, by which scores are multiplied
	flip    bool    // Scale is negative: so are the queries, which is exact
	softcap float32
	natural bool    // scores are multiplied by the scale, because an option needs them so; else they stay products
	unit    float32 // of scores and maxima: 1 if natural, else the scale
	c       float32 // unit·log₂e, for powers of 2
	causal  Causal
	offset  int
	left    int // window, −1 if unbounded
	right   int

	bufferOptions

	schedule

	ragged *ragged // the sequences of a call over several, else nil
}

// bufferOptions are the options that refer to memory.
type bufferOptions struct {
	mask    Mask // Data is nil if there is none
	bias    Tensor
	weights Tensor
	slopes  []float32
	sinks   []float32
	lse     []float32

	queryLens, keyLens []int
}

// schedule is every decision of a call. Nothing in it changes a bit of the result. [plan.decide] makes it.
type schedule struct {
	workers       int // that the call is divided among
	segments      int // pieces of keys that each chunk is divided into for them, 1 if it is whole
	headsPerChunk int // key/value heads
	chunkRows     int // rows of a chunk, for each of its heads
	tileRows      int // rows of a tile

	typedRows      int  // chunks of up to so many rows widen keys and values of fewer bits in their kernels, for whole blocks
	queriesInPlace bool // queries lie in memory as kernels read them
	keys, values   placement

	blocks         int  // most blocks of a span,
	spanRows       int  // for chunks of up to so many rows; more have one
	step           int  // keys of a step: Block, or less where heads of a chunk take turns within a block
	full           bool // scores are products and nothing more: full blocks go from kernel to kernel
	sequential     bool // keys and values in place are read in order
	sequentialRows int  // and by chunks of up to so many rows those of a store
}

// placement is where the kernels read keys, or values: where the caller has them, or packed.
type placement struct {
	inPlaceRows int  // chunks of up to so many rows read them in place; 0: all read them packed
	pagedRows   int  // chunks of up to so many rows prefetch them along a pointer: page by page, or in order if that is how they are read
	shared      bool // and each head of a chunk prefetches its share of all heads' tokens
}

// levels is how many levels the tree of the call's segments has, 0 if there is a single segment.
func (p *plan) levels() int {
	if p.lk <= Segment {
		return 0
	}
	return bits.Len(uint((p.lk-1)/Segment)) + 1
}

// scoredRows is the number of rows whose scores are kept at a time.
func (s *schedule) scoredRows() int {
	if s.step == Block {
		return mostTileRows
	}
	return max(mostTileRows, s.headsPerChunk*s.chunkRows)
}

// String is for tests and for people who ask why a call goes its way.
func (s *schedule) String() string {
	return fmt.Sprintf("%d workers, %d segments, chunks of %d heads × %d rows, tiles of %d rows, keys %v, values %v, spans of %d blocks in steps of %d keys, full %t, sequential %t",
		s.workers, s.segments, s.headsPerChunk, s.chunkRows, s.tileRows, s.keys, s.values, s.blocks, s.step, s.full, s.sequential)
}

func (p placement) String() string {
	return fmt.Sprintf("{in place up to %d rows, paged up to %d, shared %t}", p.inPlaceRows, p.pagedRows, p.shared)
}

// queryLen and keyLen are the lengths of batch entry b.
func (p *plan) queryLen(b int) int {
	if p.queryLens != nil {
		return p.queryLens[b]
	}
	return p.lq
}

func (p *plan) keyLen(b int) int {
	if p.keyLens != nil {
		return p.keyLens[b]
	}
	return p.lk
}

// position is the absolute position of query 0 of batch entry b among the keys.
func (p *plan) position(b int) int {
	if p.causal == BottomRight {
		return p.keyLen(b) - p.queryLen(b)
	}
	return p.offset
}

// pairwise reports whether single pairs of query and key may be masked.
func (p *plan) pairwise() bool { return p.mask.Data != nil || p.bias.Data != nil }

// plainScores reports whether scores are products and nothing more.
func (p *plan) plainScores() bool { return !p.pairwise() && !p.natural }

// setUnit chooses the unit of scores: that of products, or 1 if an option, or who calls, needs it so.
func (p *plan) setUnit(natural bool) {
	if p.natural, p.unit = natural, p.scale; natural {
		p.unit = 1
	}
	p.c = float32(float64(p.unit) * f32.Log2E)
}

// locate returns the query head and query index of a row.
func (p *plan) locate(kv, row int) (h, i int) {
	if p.group == 1 {
		return kv, row // a division a row is felt
	}
	return kv*p.group + row%p.group, row / p.group
}

// rowIndex is the index of row r of the chunk, in scratch, among all B×H×Lq rows.
func (p *plan) rowIndex(c *chunk, r int) int {
	h, i := p.locate(c.kv+r/c.rows, c.row+r%c.rows)
	return (c.b*p.heads+h)*p.lq + i
}

// A chunk is the unit of work: rows of queries that share a key/value head.
// Row r of batch entry b and head kv is query r/group of query head
// kv·group + r%group, so that the heads of a group share each key they load,
// and the rows of a tile are near each other in position.
//
// A chunk may be of several key/value heads (see schedule.headsPerChunk). Then each of them has these rows.
type chunk struct {
	b         int
	kv, heads int // the first key/value head, and their number
	row, rows int
	at        int // the first row's place in scratch
	position  int // of query 0 of the batch entry among the keys
	from      int // the batch entry's keys begin here,
	keys      int // and end here

	table   *pages.Table // of the sequence that the keys are of, if the call is over several
	several bool   // rows are of several sequences, that begin with the same pages: scratch.members

	lo, hi       int // keys [lo, hi) are seen by some row, by position
	allLo, allHi int // keys [allLo, allHi) are seen by every row
}

// head makes h the part of the chunk that is its i-th head's, if there are several, and returns it.
func (c *chunk) head(i int, h *chunk) *chunk {
	if c.heads == 1 {
		return c // a copy is felt in small calls
	}
	*h = *c
	h.kv, h.heads, h.at = c.kv+i, 1, i*c.rows
	return h
}

// allRows is the number of rows in scratch.
func (c *chunk) allRows() int { return c.heads * c.rows }

// chunks is the number of chunks of the call.
func (p *plan) chunks() int {
	if p.ragged != nil {
		return p.ragged.chunks
	}
	return p.batch * p.chunksOfHeads() * p.chunksPerHead()
}

// chunksOfHeads is the number of chunks that the heads of a batch entry make for the same queries.
func (p *plan) chunksOfHeads() int {
	if p.headsPerChunk == 1 {
		return p.kvHeads // divisions are felt in small calls
	}
	return (p.kvHeads + p.headsPerChunk - 1) / p.headsPerChunk
}

func (p *plan) chunksPerHead() int {
	return (p.lq*p.group + p.chunkRows - 1) / p.chunkRows
}

// chunk makes c chunk i of the call. It returns the number of rows of each head that belong to the chunk, too,
// but come after the batch entry's query length; c has only those before.
func (p *plan) chunk(i int, c *chunk) (padding int) {
	per, heads := p.chunksPerHead(), p.chunksOfHeads()
	c.b, c.kv, c.row = i/per/heads, i/per%heads*p.headsPerChunk, i%per*p.chunkRows
	c.heads, c.at = min(p.headsPerChunk, p.kvHeads-c.kv), 0
	c.position, c.keys = p.position(c.b), p.keyLen(c.b)
	if p.table != nil {
		c.from = p.table.First()
	}
	rows := min(p.chunkRows, p.lq*p.group-c.row)
	c.rows = min(rows, max(0, p.queryLen(c.b)*p.group-c.row))
	if c.rows > 0 {
		p.bound(c)
	}
	return rows - c.rows
}

// bound finds out which keys the rows see by position. The bounds of rows never decrease, so the first and the last
// row tell.
func (p *plan) bound(c *chunk) {
	_, first := p.locate(c.kv, c.row)
	_, last := p.locate(c.kv, c.row+c.rows-1)
	c.lo, c.allHi = p.keyRange(c, first)
	c.allLo, c.hi = p.keyRange(c, last)
	c.hi = max(c.lo, c.hi)
}

// keyRange returns the keys [lo, hi) that query i of the chunk's batch entry sees
// by position. Neither bound decreases with i. Empty ranges have hi = lo.
func (p *plan) keyRange(c *chunk, i int) (lo, hi int) {
	at := c.position + i
	hi = c.keys
	if p.causal != Full {
		hi = min(hi, at+1)
	}
	if p.right >= 0 {
		hi = min(hi, at+p.right+1)
	}
	lo = c.from
	if p.left >= 0 {
		lo = min(max(lo, at-p.left), c.keys) // the window may begin after the last key
	}
	return lo, max(lo, hi)
}

// block is the memory of a store's block with key j of the chunk's batch entry and head.
func (p *plan) block(c *chunk, j int) []byte { return p.packed.data[p.placeOf(c, j):][:p.packed.block] }

// placeOf is where that block is.
func (p *plan) placeOf(c *chunk, j int) int {
	table := p.table // stored in the chunk, it would make the caller's buffers escape
	if c.table != nil {
		table = c.table
	}
	return p.packed.offsetOf(table, c.b, c.kv, j)
}

// findPlaces finds the places of the blocks from key j on. (Between kernels, to look for each of them is felt.)
func (p *plan) findPlaces(c *chunk, j int, places []int) {
	for i := range places {
		places[i] = p.placeOf(c, j+i*Block)
	}
}
