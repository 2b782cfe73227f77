package attn

import (
	"sync"
)

// How the work is cut. The sizes are measured, see docs/performance.md; no
// result depends on them.
const (
	// diagonalRows rows go together where the rows of a block see different keys: as many
	// as a panel has keys, so that a causal diagonal goes through corners of panels.
	diagonalRows = 16

	// inPlaceRows is the number of rows up to which keys and values are read where
	// the caller has them instead of being packed first.
	inPlaceRows = 4

	// Up to denseRows rows read values where the caller has them if these are not
	// further apart than denseStride. Beyond, the L1 cache holds them only packed,
	// and more rows make packing worth while.
	denseRows   = 256
	denseStride = 64
)

// state is the online softmax of some rows: running maximum, sum and output.
type state struct {
	m, l      []float32 // one per row
	o         []float32 // rows × oStride
	overwrite bool      // no block has been added: what o holds means nothing
}

// scratch is the working memory of one worker. Its size does not depend on
// the lengths of the call.
type scratch struct {
	q       []float32     // scaled queries, rows × d
	total   state         // merged segments
	part    state         // the segment at hand
	alpha   []float32     // what softmax tells accumulate; x of merge
	beta    []float32     // y of merge
	visible []uint64      // keys that the rows of s see
	queue   prefetchQueue // memory to ask for
	next    chunk         // the chunk behind the one at hand; no rows if there is none
	s       []float32     // scores, then weights, of a tile or of all heads of a block in parts
	maxima  []float32     // see maxima.go
	k, v    []float32     // the packed block

	fitted sizes // what the slices are long enough for
}

// sizes are what the scratch of a plan depends on.
type sizes struct {
	rows, scores, d, oStride int
	packs                    bool // keys and values
}

func (s *sizes) cover(o *sizes) bool {
	return s.rows >= o.rows && s.scores >= o.scores && s.d >= o.d && s.oStride >= o.oStride && (s.packs || !o.packs)
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// grow returns x, if it has n elements, or a slice that has. It never gets shorter: others may
// rely on what they have seen.
func grow[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}

// fit makes the scratch large enough for calls of the plan.
func (w *scratch) fit(p *plan) {
	w.queue.access = p.access
	want := sizes{p.headsPerChunk * p.chunkRows, p.scoredRows(), p.d, p.oStride(), p.cache == nil}
	if w.fitted.cover(&want) {
		return
	}
	w.fitted = want
	rows := want.rows
	w.q = grow(w.q, rows*p.d)
	for _, s := range [...]*state{&w.total, &w.part} {
		s.m, s.l = grow(s.m, rows), grow(s.l, rows)
		s.o = grow(s.o, rows*p.oStride())
	}
	w.alpha, w.beta = grow(w.alpha, max(rows, want.scores)), grow(w.beta, rows)
	w.visible = grow(w.visible, want.scores)
	w.s = grow(w.s, want.scores*Block)
	w.maxima = grow(w.maxima, (1+mostTileRows)*maximaLanes)
	if p.cache == nil {
		w.k = grow(w.k, Block*p.d)
		w.v = grow(w.v, Block*roundUp(p.dv, panel))
	}
}

// oStride is the distance of output rows in scratch: whole vectors.
func (p *plan) oStride() int { return roundUp(p.dv, panel) }

// fitRows chooses the rows of a tile and of a chunk: for a chunk, as many as the cache holds
// with a packed block and a tile of scores, or fewer if that makes no more chunks.
func (p *plan) fitRows() {
	p.tileRows = tuned.tileRows
	if max(p.d, p.dv) > tileDim {
		p.tileRows = leastTileRows
	}
	const factors = 6 // maxima and sums of both states, alpha and beta
	block := Block*(p.d+p.oStride()) + mostTileRows*Block
	rows := (tuned.scratchBytes()/4 - block) / (p.d + 2*p.oStride() + factors)
	rows = max(leastTileRows, rows/splitRows*splitRows)
	all := max(1, p.lq*p.group)
	chunks := (all + rows - 1) / rows
	p.chunkRows = min(all, roundUp((all+chunks-1)/chunks, splitRows))
	p.headsPerChunk = p.chunkHeads(rows)
	p.sequential = tuned.sequential(p.tokenBytes())
	p.straight = p.goesStraight()
	p.access = accessOf(&tuned)
}

// tokenBytes is how much memory the keys and values of the call are.
func (p *plan) tokenBytes() int {
	return 4 * p.batch * p.kvHeads * p.lk * (p.d + p.dv)
}

// chunkHeads is the number of key/value heads that go through memory together, at most as many
// as have so many rows. Where few rows read rows of keys or values that lie beside those of
// other heads, as in BLHD views, one head after the other would come to each page again
// and again, long after the translation of its address has been forgotten.
func (p *plan) chunkHeads(rows int) int {
	apart := max(p.k.SH, p.v.SH)
	if p.cache != nil || p.chunkRows > tuned.fewRows || apart >= min(p.k.SL, p.v.SL) {
		return 1
	}
	most := rows / p.chunkRows
	if tuned.reads == pagedReads && p.kvHeads <= most && p.tokensContiguous(&p.k) && p.tokensContiguous(&p.v) {
		return p.kvHeads
	}
	return max(1, min(p.kvHeads, most, pageBytes/4/max(1, apart)))
}

// reset makes the first rows rows of the state empty.
func (s *state) reset(rows, oStride int) {
	s.begin(rows)
	s.overwrite = false
	clear(s.o[:rows*oStride])
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
