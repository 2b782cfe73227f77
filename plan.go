package attn

import (
	"fmt"
	"slices"
	"sort"

	"github.com/seed-1415985d/attn/internal/distance"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/pages"
	"github.com/seed-1415985d/attn/internal/ragged"
)

// plan is a validated call: its arguments, with all defaults filled in, and how it will be
// computed.
type plan struct {
	// newPlan sets the arguments; checks make strides explicit.
	dst, q Tensor
	source // keys and values
	bufferOptions

	// init, initPacked and initQueries set the shape.
	batch, heads, kvHeads int
	lq, lk                int
	d, dv                 int
	group                 int // query heads that share a key/value head

	// initScalars sets the options without memory, and their consequences for scores.
	scoreScale  float32 // |Scale|, by which scores are multiplied
	flip        bool    // Scale is negative: so queries are negated, which is exact
	softcap     float32
	natural     bool    // an option needs scores multiplied by the scale; else they stay products
	unit        float32 // of scores and maxima: 1 if natural, else scoreScale
	c           float32 // unit·log₂e, for powers of 2
	integers    bool    // products are sums of integers; each row has its unit
	bfloat16    bool    // products are sums over pairs of bfloat16
	biased      bool    // Bias or Distance adds to scores
	causal      Causal
	offset      int
	left, right int // window, −1 if unbounded

	// These depend on the kind of call: over rotated tokens, a cache or store, lists, trees, a State,
	// sequences.
	unrotate  int              // size of the matrix by which outputs are rotated back, if more than 1
	listed    bool             // queries have lists of keys
	along     int              // with Options.Tree the window's left side along paths; −1 if unbounded
	near      distance.Numbers // of Options.Distance
	update    bool             // of a State; the first key may be any key of a sequence
	sequences *ragged.Call     // of a call over several sequences, else nil

	// decide and decideSequences set it last.
	schedule
}

// bufferOptions are the options that refer to memory.
type bufferOptions struct {
	given bool // some of them

	mask    Mask        // Data is nil if there is none
	blocked Mask        // Options.Blocks, likewise
	lists   View[int32] // Options.Keys, if there are queries that have some
	bias    Tensor
	weights Tensor
	distant Distance
	slopes  []float32
	sinks   []float32
	lse     []float32
	parents []int // Options.Tree

	queryLens, keyLens []int
}

// schedule is every decision of a call. Nothing in it changes a bit of the result. [plan.decide]
// makes it, each group of fields in a step of its own.
type schedule struct {
	// beginSchedule sets the fields that do not depend on the division of the call, and defaults of
	// the others.

	keyKind, valueKind kind

	workers  int     // workers that share the call
	tileRows int     // rows of a tile
	oStride  int     // distance of output rows in scratch: whole vectors
	bytes    float64 // of keys and values
	plain    bool    // scores are plain products
	looks    bool    // pairs may be hidden: look is called for each block before it is read

	// decide, or decideSequences, and partition divide the call.

	headsPerChunk int // key/value heads
	chunkRows     int // rows of a chunk, for each of its heads
	segments      int // of each chunk, which workers compute one by one; 1 if a chunk is whole
	segment       int // the first segment

	// countChunks counts.

	chunks        int // of the call
	chunksOfHeads int // of the heads of a batch entry, for the same queries
	chunksPerHead int // of the queries of a head

	// decideKernels chooses operands that kernels read in place.

	queriesInPlace bool // kernels read queries in place
	full           bool // full blocks of float32 are computed as full tiles
	fullIntegers   bool // and full blocks of integers, with common operands computed once
	typedRows      int  // up to this many rows widen whole blocks of fewer bits in their kernels
	codeRows       int  // up to this many rows look codes of I4 up in their kernels

	// decidePrefetch chooses the order in which memory is read; decideViews may change that for views.

	keys, values    placement
	inOrder         bool // keys and values in place are read in order
	oneStream       bool // keys and values in place are prefetched in one stream, along a pointer
	inOrderRows     int  // up to this many rows of a chunk read panels of a cache or store in order
	panelRows       int  // from this many rows on, panels of a cache or store are packed keys
	further         int  // bytes that three to five rows prefetch beyond tuning.Row.PrefetchFew
	ahead           int  // bytes that few rows of integers prefetch ahead
	integersInOrder bool // few rows of integers read panels of keys in turn, not side by side

	// decideReads and decideViews choose the size of spans.

	blocks   int // of a span, at most
	spanRows int // up to this many rows of a chunk have spans of several blocks
	step     int // keys of a step: Block, or less if the heads of a chunk alternate in a block
}

// kind is a form of keys or of values, see kind.go.
type kind uint8

const (
	kindViews    kind = iota // the caller's rows
	kindPanels               // float32 in the panels of a cache or store
	kindBits                 // fewer bits in the panels of a cache or store
	kindIntegers             // integers of 8 bits, multiplied as such
	kindLatent               // of values: they are part of keys
	kindPairs                // any of them but integers, multiplied in bfloat16
)

// placement is where the kernels read keys, or values: where the caller has them, or packed.
type placement struct {
	inPlaceRows int  // chunks of up to this many rows read them in place; 0: all read packed ones
	pagedRows   int  // chunks of up to this many rows prefetch them along a pointer
	shared      bool // each head of a chunk prefetches its share of all heads' tokens
}

// String is for tests, and for people who want to know how a call is computed.
func (s *schedule) String() string {
	return fmt.Sprintf("%d workers, %d segments, chunks of %d heads × %d rows, tiles of %d rows, "+
		"keys %v, values %v, spans of %d blocks in steps of %d keys, full %t, in order %t, one "+
		"stream %t",
		s.workers, s.segments, s.headsPerChunk, s.chunkRows, s.tileRows,
		s.keys, s.values, s.blocks, s.step, s.full, s.inOrder, s.oneStream)
}

func (p placement) String() string {
	return fmt.Sprintf("{in place up to %d rows, paged up to %d, shared %t}",
		p.inPlaceRows, p.pagedRows, p.shared)
}

// The rows of a batch entry and key/value head kv are its queries, each by the heads of the group:
// row r is query r/group of query head kv·group + r%group. So the heads of a group share each key
// that they load, and the rows of a tile have near positions. A chunk or a tile may begin with any
// row, of any head of the group, and may have fewer rows than the group. Only these four functions
// depend on the order of rows.

// locate returns the query head and query index of a row.
func (p *plan) locate(kv, row int) (h, i int) {
	if p.group == 1 {
		return kv, row // a division for each row costs a few per cent of a small call
	}
	return kv*p.group + row%p.group, row / p.group
}

// queries returns the queries of n rows from row on: the first, and their number.
func (p *plan) queries(row, n int) (first, count int) {
	_, first = p.locate(0, row)
	_, last := p.locate(0, row+n-1)
	return first, last - first + 1
}

// rowsBefore returns the number of rows from row on before the first row of a query.
func (p *plan) rowsBefore(query, row int) int { return query*p.group - row }

// ofHead returns, for row r of n rows from row on, its head, its query, and how many rows of that
// head there are from row r on: every group-th row, of consecutive queries. The first rows, as many
// as the group has heads, are of different heads.
func (p *plan) ofHead(kv, row, n, r int) (h, first, count int) {
	h, first = p.locate(kv, row+r)
	return h, first, (n - r + p.group - 1) / p.group
}

// rowIndex returns the index of the chunk's row r, counted in scratch, among all B×H×Lq rows.
func (p *plan) rowIndex(c *chunk, r int) int {
	h, i := p.locate(c.kv+r/c.rows, c.row+r%c.rows)
	return (c.b*p.heads+h)*p.lq + i
}

// A chunk is the unit of work: rows of queries that share a key/value head.
//
// A chunk may have several key/value heads (schedule.headsPerChunk), each with these rows.
type chunk struct {
	b         int
	kv, heads int // the first key/value head, and their number
	row, rows int
	at        int // index of the first row in scratch
	position  int // position of query 0 of the batch entry among the keys
	from      int // the batch entry's keys begin here,
	keys      int // and end here
	base      int // key 0 in views and options: the first key of a document
	query     int // the entry's first query, if several entries are packed,
	blockRow  int // and its first block of queries in Options.Blocks

	list, listed int // offset of the list of the rows, and its number of keys

	table    *pages.Table   // of the sequence of the keys, in a call over several,
	packed   *packed.Blocks // and its store, if it is not the plan's
	together int            // number of sequences with a common prefix, see scratch.prefix
	apart    bool           // rows are of several sequences: outputs are not adjacent

	lo, hi       int // keys [lo, hi) are seen by some row, by position
	allLo, allHi int // keys [allLo, allHi) are seen by every row
}

// countChunks sets the number of chunks of the call.
func (p *plan) countChunks() int {
	p.chunksOfHeads = p.kvHeads // divisions cost small calls a few per cent
	if p.headsPerChunk > 1 {
		p.chunksOfHeads = (p.kvHeads + p.headsPerChunk - 1) / p.headsPerChunk
	}
	p.chunksPerHead = (p.lq*p.group + p.chunkRows - 1) / p.chunkRows
	p.chunks = p.batch * p.chunksOfHeads * p.chunksPerHead
	return p.chunks
}

// entry sets c to the batch entry b, and returns the number of its rows for a key/value head.
func (p *plan) entry(b int, c *chunk) (rows int) {
	queries := p.lq
	if p.queryLens != nil {
		queries = p.queryLens[b]
	}
	c.b, c.heads, c.position, c.base, c.keys = b, 1, p.offset, 0, p.lk
	if p.keyLens != nil {
		c.keys = p.keyLens[b]
	}
	c.from = min(p.first, c.keys)
	if p.causal == BottomRight {
		c.position = c.keys - queries
	}
	return queries * p.group
}

// chunk sets c to chunk i of the call, without rows after the batch entry's query length, and
// returns the number of these rows for each head.
func (p *plan) chunk(i int, c *chunk) (padding int) {
	per, heads := p.chunksPerHead, p.chunksOfHeads
	existing := p.entry(i/per/heads, c)
	c.kv, c.row = i/per%heads*p.headsPerChunk, i%per*p.chunkRows
	c.heads, c.at = min(p.headsPerChunk, p.kvHeads-c.kv), 0
	rows := min(p.chunkRows, p.lq*p.group-c.row)
	if c.rows = min(rows, max(0, existing-c.row)); c.rows > 0 {
		p.bound(c)
	}
	return rows - c.rows
}

// seenSegments returns the first segment with a key that some query may see by position, and the
// number of segments up to the last such one.
func (p *plan) seenSegments() (first, n int) {
	entries, lo, hi := p.batch, p.lk, 0
	if p.queryLens == nil && p.keyLens == nil {
		entries = 1 // all entries are alike
	}
	var c chunk
	for b := range entries {
		if rows := p.entry(b, &c); rows > 0 {
			from, _ := p.keyRange(&c, 0)
			_, last := p.locate(0, rows-1)
			if _, to := p.keyRange(&c, last); from < to {
				lo, hi = min(lo, from), max(hi, to)
			}
		}
	}
	if lo >= hi {
		return 0, 1
	}
	return lo / Segment, partsOf(hi, Segment) - lo/Segment
}

// bound finds which keys the rows see by position. The bounds of rows never decrease, so the first
// and the last row determine them.
func (p *plan) bound(c *chunk) {
	if p.parents != nil {
		p.boundTree(c)
		return
	}
	if p.listed {
		p.findList(c)
	}
	_, first := p.locate(c.kv, c.row)
	_, last := p.locate(c.kv, c.row+c.rows-1)
	c.lo, c.allHi = p.keyRange(c, first)
	c.allLo, c.hi = p.keyRange(c, last)
	c.hi = max(c.lo, c.hi)
}

// boundTree is bound for a call with Options.Tree. Depths are not known here; a query's depth is 0
// to its index.
func (p *plan) boundTree(c *chunk) {
	_, last := p.locate(c.kv, c.row+c.rows-1)
	if c.allLo = c.from; p.along >= 0 {
		c.allLo = max(c.from, c.position+last-p.along)
		c.from = max(c.from, c.firstOwn()-p.along)
	}
	c.lo, c.allHi = c.from, c.firstOwn()
	c.hi = max(c.lo, c.position+last+1)
}

// firstOwn returns the first key that is a query's own token, with Options.Tree.
func (c *chunk) firstOwn() int { return c.position + c.query }

// keyRange returns the keys [lo, hi) that query i of the chunk's batch entry sees by position.
// Neither bound decreases with i. Empty ranges have hi = lo.
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
	if hi = max(lo, hi); p.listed {
		return p.listRange(c, lo, hi)
	}
	return lo, hi
}

// The units in which kernels process keys and rows.

// span is the keys of one segment that the kernels process together. Most spans are one block of
// one head, which is loaded once for all tiles of rows.
//
// Spans of several blocks, or of several heads in steps, are for few rows, which wait for memory:
// they first read all keys and then all values, because memory pauses at each change between keys
// and values. Only the order of independent steps differs, so the bits are the same.
type span struct {
	first  int  // key at which its first block begins, a multiple of Block
	lo, hi int  // keys of its last block that some row may see; only a single block has lo > 0
	blocks int  // more than one only if equal
	step   int  // keys of a step: Block, or less for several heads that see the whole block
	equal  bool // by position, every row sees all keys from first to the last one of the span
	biased bool // some scores of a span of several blocks or heads have a bias
}

// blockKeys is the keys [lo, hi) of one block of a head.
type blockKeys struct {
	first  int // the first key of the block; lo and hi count from it
	lo, hi int
	data   []byte // a cache or store, or the gathered block, and
	place  int    // the block's offset in it
	equal  bool   // by position, every row of the chunk sees all of these keys
	biased bool   // some scores have a bias

	looked bool  // w.seen says which keys rows see, unless they see the whole block:
	saw    uint8 // sight.Some to sight.All,
	asks   bool  // except a bias, which is read tile by tile;
	partly bool  // so they may not see the whole block
	hides  bool  // the bias has hidden keys of some row
	blind  int   // rows that are known to see nothing of the block
	inRuns bool  // by Options.Blocks rows see all or nothing, and w.seen is not set
}

// tile is the rows that the kernels process together, and the keys of the block that at least one
// of them sees.
type tile struct {
	row, rows int
	lo, hi    int
	uniform   bool // all rows see all keys of [lo, hi), by position
	asks      bool // except a bias, which is read when it is added
}

// diagonalRows rows are a tile where the rows of a block see different keys: as many as a panel has
// keys, so that a causal diagonal passes through the corners of panels.
const diagonalRows = 16

// tile sets t to the tile that starts at a row of the chunk: the plan's number of rows if they see
// the same keys, else fewer, so that few hidden scores are computed; or all rows that see no key of
// the block. (Returning a tile would copy it, which costs small calls a few per cent.)
func (b *blockKeys) tile(p *plan, c *chunk, row int, t *tile) {
	t.row, t.rows = row, min(p.tileRows, c.rows-row)
	if b.equal {
		t.lo, t.hi, t.uniform = b.lo, b.hi, true
		return
	}
	lo, hi := b.keyRange(p, c, row)
	if right := p.right; hi <= b.lo && !b.looked && !p.listed {
		if p.causal != Full {
			right = 0
		}
		last := min(b.first+b.lo-right-c.position, p.lq) // the first query that sees a key, or none
		t.rows = min(max(last*p.group-c.row-row, 1), c.rows-row)
		t.lo, t.hi, t.uniform = lo, hi, true
		return
	}
	lastLo, lastHi := b.keyRange(p, c, row+t.rows-1)
	if lo != lastLo || hi != lastHi {
		t.rows = min(diagonalRows, c.rows-row)
		lastLo, lastHi = b.keyRange(p, c, row+t.rows-1)
	}
	t.lo, t.hi = lo, lastHi // the bounds never decrease from row to row
	t.uniform = lo == lastLo && hi == lastHi
}

// keyRange returns the part of the block's keys that a row of the chunk sees by position.
func (b *blockKeys) keyRange(p *plan, c *chunk, row int) (lo, hi int) {
	_, i := p.locate(c.kv, c.row+row)
	lo, hi = p.keyRange(c, i)
	return min(max(lo-b.first, b.lo), b.hi), min(max(hi-b.first, b.lo), b.hi)
}

// findBlocks sets at to the offsets, in the bytes that it returns, of the block with key j of the
// chunk's batch entry and head and of the blocks after it. (Looking for each of them between
// kernels would let memory pause.)
func (p *plan) findBlocks(c *chunk, j int, at []int) (data []byte) {
	// stored in the chunk, they would make the caller's buffers escape
	table, blocks := p.table, p.packed
	if c.table != nil {
		table = c.table
	}
	if c.packed != nil {
		blocks = c.packed
	}
	for i := range at {
		at[i] = blocks.OffsetOf(table, c.b, c.kv, j+i*Block)
	}
	return blocks.Data
}

// Options.Keys: each query attends to the keys of a list, in the order of the list. The rows of a
// chunk share one list. Blocks, segments and bounds of a chunk count places in the list. Positions
// determine which places a row sees; since they ascend, these places are consecutive, as keys are
// in other calls.

// rowsPerList returns how many consecutive rows of a key/value head share a list.
func (p *plan) rowsPerList() int {
	switch {
	case p.lists.H == p.heads && p.lists.SH != 0:
		return 1
	case p.lists.SL == 0:
		return p.lq * p.group
	}
	return p.group
}

// findList finds the list of a chunk's rows, without its padding.
func (p *plan) findList(c *chunk) {
	h, i := p.locate(c.kv, c.row)
	if p.lists.H == p.kvHeads {
		h = c.kv
	}
	c.list = p.lists.offset(c.b, h, i)
	list := p.lists.Data[c.list:][:p.lists.D]
	c.listed = sort.Search(len(list), func(i int) bool { return list[i] < 0 })
}

// listOf returns the positions of the keys of a chunk's rows.
func (p *plan) listOf(c *chunk) []int32 { return p.lists.Data[c.list:][:c.listed] }

// listRange returns the places of a chunk's list that hold keys lo to hi−1.
func (p *plan) listRange(c *chunk, lo, hi int) (from, to int) {
	list := p.listOf(c)
	from, _ = slices.BinarySearch(list, int32(lo))
	to, _ = slices.BinarySearch(list[from:], int32(hi))
	return from, from + to
}

// source holds the keys and values of a call: views of the caller, or blocks of a cache or store,
// which are packed already.
type source struct {
	k, v   Tensor
	packed *packed.Blocks // if not nil, instead of views
	table  *pages.Table   // of the call's only sequence; nil if there are none or several
	first  int            // tokens before this position of the cache or sequence were dropped
	// blocks into which views may be packed once a call; nil if they may not
	once *packed.Blocks
}

// writing is tokens that are written from a position on: to the pages of a table or, without a
// table, to the blocks of batch entries.
type writing struct {
	blocks *packed.Blocks
	table  *pages.Table
	k, v   Tensor
	at     int
}

// tasks returns the number of tasks, each of at most packedRun tokens of a head.
func (x *writing) tasks() int {
	return x.k.B * x.k.H * partsOf(x.at%Block+x.k.L, packedRun)
}

// write writes the tokens of task i.
func (x *writing) write(w *packed.Writer, i int) {
	runs := partsOf(x.at%Block+x.k.L, packedRun)
	h, entry := i/runs%x.k.H, i/runs/x.k.H
	first := x.at/Block*Block + i%runs*packedRun
	w.Fit(x.blocks)
	end := min(first+packedRun, x.at+x.k.L)
	for j := max(first, x.at); j < end; {
		n := min(end-j, Block-j%Block)
		place := x.blocks.OffsetOf(x.table, entry, h, j)
		writeBlock(w, x.blocks, place, &x.k, &x.v, tokenRun{entry, h, j - x.at, j, n})
		j += n
	}
}

// cost estimates the nanoseconds of writing on one core: reading tokens, and reading and writing
// their blocks.
func (x *writing) cost() float64 {
	n := float64(x.k.B) * float64(x.k.H) * float64(x.k.L)
	return tuned.Cost(0, 3*4*n*float64(x.blocks.D+x.blocks.DV))
}

// tokenRun is n consecutive tokens of a head of a batch entry in one block: the first is token i in
// k and v, at position in the sequence.
type tokenRun struct{ entry, h, i, position, n int }

// writeBlock writes tokens of k and v to the block at place.
func writeBlock(w *packed.Writer, s *packed.Blocks, place int, k, v *Tensor, r tokenRun) {
	x, at := s.Data[place:][:s.Size], r.position%Block
	w.WriteKeys(&tuned, s, x, at, k.Data[k.offset(r.entry, r.h, r.i):], k.SL, r.n)
	if !s.ValuesInKeys {
		w.WriteValues(&tuned, s, x, at, v.Data[v.offset(r.entry, r.h, r.i):], v.SL, r.n)
	}
}

// packKeys packs a run of blocks of views for all chunks of a call: the tokens that some query may
// see by position.
func (p *plan) packKeys(w *packed.Writer, i int) {
	runs := partsOf(p.lk, packedRun)
	var c chunk
	rows := p.entry(i/runs/p.kvHeads, &c)
	if rows == 0 {
		return
	}
	lo, _ := p.keyRange(&c, 0)
	_, last := p.locate(0, rows-1)
	_, hi := p.keyRange(&c, last)
	first, head := i%runs*packedRun, i/runs%p.kvHeads
	w.Fit(p.packed)
	for j := max(first, lo/Block*Block); j < min(first+packedRun, hi); j += Block {
		writeBlock(w, p.packed, p.packed.OffsetOf(nil, c.b, head, j), &p.k, &p.v,
			tokenRun{c.b, head, j, j, min(Block, hi-j)})
	}
}

// packedRun tokens are packed as one task, of at least ten microseconds.
const packedRun = 2 * Block

// readTokens decodes tokens from position from on into one batch entry of k and v.
func readTokens(s *packed.Blocks, t *pages.Table, k, v *Tensor, entry, from int) {
	for h := range k.H {
		for i := range k.L {
			j := from + i
			x := s.Data[s.OffsetOf(t, entry, h, j):][:s.Size]
			s.ReadKey(tuned.ISA, k.row(entry, h, i), x, j%Block)
			if !s.ValuesInKeys {
				s.ReadValue(tuned.ISA, v.row(entry, h, i), x, j%Block)
			}
		}
	}
}
