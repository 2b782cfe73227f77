package attn

import (
	"sync"

	"github.com/seed-1415985d/attn/internal/distance"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/ragged"
	"github.com/seed-1415985d/attn/internal/sight"
)

// scratch is the working memory of one worker. Its size grows with the logarithm of the number of
// keys: beyond a segment, by one state for each level of the tree of segments.
type scratch struct {
	q       []float32     // queries of a chunk, gathered; over I8 rotated
	total   online.State  // merged segments
	partial online.State  // the current segment
	tree    online.Tree   // of the segments before it, if there are several
	units   online.Units  // of the rows of the current chunk
	alpha   []float32     // factors of outputs from softmax for accumulate; x of merge
	beta    []float32     // y of merge
	natural []bool        // rows whose maxima are in natural units since merging sinks
	visible []uint64      // keys that the rows of s see
	seen    []uint64      // keys of the last block looked at that the rows of a chunk see
	biasHid bool          // the last bias that was read has hidden a key
	allowed []uint64      // keys that a bias leaves visible to each query
	ahead   []sight.Ahead // and a mask, in the current blocks
	known   []uint8       // what the rows of each chunk of a head see of each block, for all heads
	unknown uint8         // the note of a chunk whose notes are not kept

	knownEntry int                  // the batch entry of these notes, −1 if there is none
	queue      kernel.PrefetchQueue // memory to prefetch
	pointer    uintptr              // of the current keys, for prefetching page by page
	next       chunk                // the next chunk; no rows if there is none
	prefix     []prefixRows         // of the current chunk, if it has several sequences
	beside     []prefixRows         // the sequences whose rows process a block together
	call       ragged.Call          // a call over several sequences
	s          []float32            // scores, then weights, of a tile, or of a span of blocks or heads
	maxima     []float32            // row maxima of a tile, see fullTile
	k, v       []float32            // the packed block
	levels     packed.Levels        // of a block in I4
	layout     kernel.PanelLayout   // of the current values; keys and overwrite are set for each tile
	typed      bool                 // these are not float32, but of fewer bits or integers, or in keys
	scanned    bool                 // finite is known
	finite     bool                 // no current value is NaN or infinite
	writer     packed.Writer        // for rows that are written into a cache or store
	ints       intScratch           // of calls in integers
	pairs      pairScratch          // of calls in bfloat16
	trees      trees                // of calls with a tree
	gathered   gatherScratch        // of calls with lists of keys
	biases     []float32            // of some rows, if the caller has no such
	buckets    distance.Buckets     // of all distances

	fitted sizes // sizes for which the slices are long enough
}

// sizes are the properties of a plan on which scratch depends.
type sizes struct {
	rows, scores, d, oStride int
	packs                    bool // keys and values
	ints                     bool // of a call in integers
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// fit grows the scratch for calls of the plan.
func (w *scratch) fit(p *plan) {
	w.queue.Set(&tuned, tuned.PrefetchOne, tuned.PrefetchFew+p.further, false)
	w.queue.OneStream = p.oneStream
	w.knownEntry = -1
	for i := range w.ahead {
		w.ahead[i].Forget()
	}
	rows := p.headsPerChunk * p.chunkRows
	want := sizes{rows: rows, scores: maxTileRows, d: p.d, oStride: p.oStride,
		packs: p.keyKind != kindPanels || p.valueKind != kindPanels, ints: p.integers}
	if p.step < Block {
		want.scores = max(maxTileRows, rows)
	}
	if f := &w.fitted; f.rows < want.rows || f.scores < want.scores || f.d < want.d ||
		f.oStride < want.oStride || !f.packs && want.packs ||
		!f.ints && want.ints {
		w.grow(p, want)
	}
	if p.listed {
		w.gathered.fit(p)
	}
	if p.biased && (p.listed || !p.distant.none()) {
		most := Block + p.headsPerChunk*p.chunkRows
		w.biases = grow(w.biases, max(biasRows*Block, most))
		x := &p.distant
		w.buckets.Fit(&p.near, x.Buckets, most, max(x.Query.D, x.Key.D), p.lq*p.lk)
	}
	if p.bfloat16 {
		w.pairs.fit(p, w.fitted.scores)
	}
	if p.integers {
		w.ints.fit(p, w.fitted.rows, w.fitted.scores)
	}
	if s := p.packed; s != nil && (s.K.Codes || s.V.Codes) {
		w.levels.Fit(tuned.ISA, s, &w.layout.PrefetchHint)
	}
	if p.parents != nil {
		w.trees.fit(p)
	}
}

// biasRows is how many rows of a tile have biases in scratch: so many that the L1 cache holds
// them.
const biasRows = 16

// grow grows all memory to the sizes of a plan.
func (w *scratch) grow(p *plan, want sizes) {
	w.fitted = want
	rows := want.rows
	w.q = grow(w.q, rows*p.d)
	w.total.Grow(rows, p.oStride)
	w.partial.Grow(rows, p.oStride)
	w.alpha, w.beta = grow(w.alpha, max(rows, want.scores)), grow(w.beta, rows)
	w.visible, w.natural = grow(w.visible, want.scores), grow(w.natural, rows)
	w.seen, w.allowed = grow(w.seen, rows), grow(w.allowed, rows+1)
	w.s = grow(w.s, want.scores*Block)
	w.maxima = grow(w.maxima, maxTileRows*kernel.MaximaLanes)
	if want.packs {
		w.k = grow(w.k, Block*p.d)
		w.v = grow(w.v, Block*kernel.RoundUp(p.dv, panel))
	}
}

// queries returns the queries of a head's rows from row on.
func (w *scratch) queries(p *plan, c *chunk, row int) []float32 {
	if p.queriesInPlace {
		h, i := p.locate(c.kv, c.row+row)
		return p.q.Data[p.q.offset(c.b, h, i):]
	}
	return w.q[(c.at+row)*p.d:]
}

// head returns the part of a chunk for its i-th head or sequence, in h unless it is the whole
// chunk.
func (w *scratch) head(c *chunk, i int, h *chunk) *chunk {
	switch {
	case c.together > 0:
		return &w.prefix[i].chunk
	case c.heads == 1:
		return c // a copy would slow small calls by a few per cent
	}
	*h = *c
	h.kv, h.heads, h.at = c.kv+i, 1, i*c.rows
	return h
}

// gatherScratch is memory for gathered keys and values.
type gatherScratch struct {
	block []float32 // tokens of a cache or store, in its format
	rows  []float32 // of a view
}

// fit makes the memory large enough for calls of a plan.
func (x *gatherScratch) fit(p *plan) {
	if p.packed != nil {
		x.block = grow(x.block, p.packed.Size/4)
	} else {
		x.rows = grow(x.rows, Block*max(p.d, p.dv))
	}
}

// findBlock finds the memory of a block: in a cache or store, or the gathered one.
func (w *scratch) findBlock(p *plan, c *chunk, b *blockKeys) {
	if p.listed {
		b.data = rawBytes(w.gathered.block)
		return
	}
	var place [1]int
	b.data = p.findBlocks(c, b.first, place[:])
	b.place = place[0]
}
