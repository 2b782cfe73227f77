package attn

import (
	"sync"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
)

// scratch is the working memory of one worker. Its size grows with the logarithm of the number of
// keys: beyond a segment by one state for each level of the tree of segments.
type scratch struct {
	q       []float32    // queries of a chunk, gathered; over I8 rotated
	total   online.State // merged segments
	partial online.State // the segment at hand
	tree    online.Tree  // of segments before it, if there are several
	units   online.Units // of the rows of the chunk at hand
	alpha   []float32    // what softmax tells accumulate; x of merge
	beta    []float32    // y of merge
	natural []bool       // rows whose maxima are in natural units since sinks were merged
	visible []uint64     // keys that the rows of s see
	seen    []uint64     // keys that the rows of a chunk see of the block that was looked at
	biasHid bool         // the bias that was looked at last has hidden some key
	allowed []uint64     // what a bias allows each query
	ahead   []maskAhead  // and a mask in the blocks at hand
	known   []uint8      // what the rows of each chunk of a head see of each block, for all heads
	unknown uint8        // what is looked at for a chunk alone

	knownEntry int                  // the batch entry of what is known, −1 if there is none
	queue      kernel.PrefetchQueue // memory to prefetch
	pointer    uintptr              // of the keys at hand, for prefetching page by page
	next       chunk                // the chunk after the one at hand; no rows if there is none
	prefix     []prefixRows         // of the chunk at hand, if it is of several sequences
	beside     []prefixRows         // those of them whose rows go through a block together
	call       sequenceCall         // a call over several sequences
	s          []float32            // scores, then weights, of a tile, or of a span of blocks or heads
	maxima     []float32            // row maxima of a tile, see fullTile
	k, v       []float32            // the packed block
	levels     packed.Levels        // of a block in I4
	layout     kernel.PanelLayout   // of the values at hand; keys and overwrite are set for each tile
	typed      bool                 // these are not float32, but of fewer bits or integers, or in keys
	scanned    bool                 // finite is known
	finite     bool                 // none of the values at hand is NaN or infinite
	writer     packed.Writer        // rows on their way into a cache or store
	ints       intScratch           // of calls in integers
	trees      trees                // of calls with a tree
	gathered   gatherScratch        // of calls with lists of keys

	fitted sizes // what the slices are long enough for
}

// sizes are what the scratch of a plan depends on.
type sizes struct {
	rows, scores, d, oStride int
	packs                    bool // keys and values
	ints                     bool // of a call in integers
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// fit makes the scratch large enough for calls of the plan.
func (w *scratch) fit(p *plan) {
	w.queue.Set(&tuned, tuned.PrefetchOne, tuned.PrefetchFew+p.further, false)
	w.queue.OneStream = p.oneStream
	w.knownEntry = -1
	for i := range w.ahead {
		w.ahead[i].blocks = 0
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

// grow makes all memory at least as large as a plan wants.
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

// queries is the queries of a head's rows from one on.
func (w *scratch) queries(p *plan, c *chunk, row int) []float32 {
	if p.queriesInPlace {
		h, i := p.locate(c.kv, c.row+row)
		return p.q.Data[p.q.offset(c.b, h, i):]
	}
	return w.q[(c.at+row)*p.d:]
}

// head is the part of a chunk that is its i-th head's, or sequence's: h, if the chunk is not that
// itself.
func (w *scratch) head(c *chunk, i int, h *chunk) *chunk {
	switch {
	case c.together > 0:
		return &w.prefix[i].chunk
	case c.heads == 1:
		return c // a copy would cost small calls a few per cent
	}
	*h = *c
	h.kv, h.heads, h.at = c.kv+i, 1, i*c.rows
	return h
}

// gatherScratch is memory for what is gathered.
type gatherScratch struct {
	block []float32 // tokens of a cache or store, in its format
	rows  []float32 // of a view
	pairs []float32 // the biases of a row
}

// fit makes the memory large enough for calls of a plan.
func (x *gatherScratch) fit(p *plan) {
	x.pairs = grow(x.pairs, Block)
	if p.packed != nil {
		x.block = grow(x.block, p.packed.Size/4)
	} else {
		x.rows = grow(x.rows, Block*max(p.d, p.dv))
	}
}

// findBlock finds where a block is: in a cache or store, or where it is gathered.
func (w *scratch) findBlock(p *plan, c *chunk, b *blockKeys) {
	if p.listed {
		b.data = rawBytes(w.gathered.block)
		return
	}
	var place [1]int
	b.data = p.findBlocks(c, b.first, place[:])
	b.place = place[0]
}

// aheadBlocks is how many blocks of a mask are read at once.
const aheadBlocks = 64

// maskAhead is what a mask allows some queries in the blocks at hand, a bit for each key. If heads
// see alike, the rows of each chunk of a head have one, so that others find it.
type maskAhead struct {
	b, kv, row    int // of the chunk; kv is −1 if heads see alike
	first, blocks int // keys from first on; no blocks if nothing is at hand
	queries       int // rows of the mask for each block
	bits          []uint64
	some, every   [aheadBlocks]uint64 // what some, and all of them may see
}
