package attn

import (
	"math/bits"
	"sync"
)

// state is the online softmax of some rows: running maximum, sum and output.
type state struct {
	m, l      []float32 // one per row
	o         []float32 // rows × oStride
	overwrite bool      // no block has been added: what o holds means nothing
}

// grow makes the state large enough for so many rows. (It may change places with others, so all
// have the same size.)
func (s *state) grow(rows, oStride int) {
	s.m, s.l, s.o = grow(s.m, rows), grow(s.l, rows), grow(s.o, rows*oStride)
}

// reset makes the first rows rows of the state empty.
func (s *state) reset(rows, oStride int) {
	s.begin(rows)
	s.overwrite = false
	clear(s.o[:rows*oStride])
}

// copy makes the first rows those of another state.
func (s *state) copy(t *state, rows, oStride int) {
	copy(s.m[:rows], t.m)
	copy(s.l[:rows], t.l)
	copy(s.o[:rows*oStride], t.o)
}

// begin is reset but for the outputs, for a state that gets a block next: then
// each tile clears its own, which also brings them to the cache.
func (s *state) begin(rows int) {
	for r := range s.m[:rows] {
		s.m[r] = negInf
	}
	clear(s.l[:rows])
	s.overwrite = true
}

// scratch is the working memory of one worker. Its size grows with the logarithm of the number of
// keys: beyond a segment by one state for each level of the tree of segments.
type scratch struct {
	q       []float32     // queries of a chunk, gathered; over I8 rotated
	total   state         // merged segments
	part    state         // the segment at hand
	tree    tree          // of segments before it, if there are several
	alpha   []float32     // what softmax tells accumulate; x of merge
	beta    []float32     // y of merge
	natural []bool        // rows whose maxima are in natural units since sinks were merged
	visible []uint64      // keys that the rows of s see
	queue   prefetchQueue // memory to prefetch
	next    chunk         // the chunk after the one at hand; no rows if there is none
	prefix  []prefixRows  // of the chunk at hand, if it is of several sequences
	call    sequenceCall  // a call over several sequences
	s       []float32     // scores, then weights, of a tile, or of a span of several blocks or heads
	maxima  []float32     // row maxima of a tile, see kernel_variants.go
	k, v    []float32     // the packed block
	writer  tokenWriter   // rows on their way into a cache or store
	rotated []float32     // rows on their way into a product
	ints    integerRows   // the same as integers
	scales  []float32     // and their scales
	int8    int8Rows      // of calls in integers

	fitted sizes // what the slices are long enough for
}

// sizes are what the scratch of a plan depends on.
type sizes struct {
	rows, scores, d, oStride int
	levels                   int  // of the tree of segments
	packs                    bool // keys and values
	int8                     bool // of a call in integers
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// fit makes the scratch large enough for calls of the plan.
func (w *scratch) fit(p *plan) {
	w.queue.set(&tuned, 0, false)
	rows := p.headsPerChunk * p.chunkRows
	want := sizes{rows: rows, scores: maxTileRows, d: p.d, oStride: p.oStride,
		packs: p.packed == nil || p.packed.format != F32 || p.packed.valuesInKeys, int8: p.int8}
	if p.step < Block {
		want.scores = max(maxTileRows, rows)
	}
	if p.lk > Segment {
		want.levels = bits.Len(uint((p.lk-1)/Segment)) + 1
	}
	if f := &w.fitted; f.rows < want.rows || f.scores < want.scores || f.d < want.d ||
		f.oStride < want.oStride || f.levels < want.levels || !f.packs && want.packs ||
		!f.int8 && want.int8 {
		w.grow(p, want)
	}
	if p.int8 {
		w.int8.fit(p, w.fitted.rows, w.fitted.scores)
	}
}

// grow makes all memory at least as large as a plan wants.
func (w *scratch) grow(p *plan, want sizes) {
	w.fitted = want
	rows := want.rows
	w.q = grow(w.q, rows*p.d)
	w.total.grow(rows, p.oStride)
	w.part.grow(rows, p.oStride)
	for range want.levels - len(w.tree.levels) {
		w.tree.levels = append(w.tree.levels, state{}) // without memory until a node waits there
	}
	w.alpha, w.beta = grow(w.alpha, max(rows, want.scores)), grow(w.beta, rows)
	w.visible, w.natural = grow(w.visible, want.scores), grow(w.natural, rows)
	w.s = grow(w.s, want.scores*Block)
	w.maxima = grow(w.maxima, maxTileRows*maximaLanes)
	if want.packs {
		w.k = grow(w.k, Block*p.d)
		w.v = grow(w.v, Block*roundUp(p.dv, panel))
	}
}
