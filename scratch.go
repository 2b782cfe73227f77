package attn

import "sync"

// state is the online softmax of some rows: running maximum, sum and output.
type state struct {
	m, l      []float32 // one per row
	o         []float32 // rows × oStride
	overwrite bool      // no block has been added: what o holds means nothing
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

// scratch is the working memory of one worker. Its size does not depend on
// the lengths of the call.
type scratch struct {
	q       []float32     // scaled queries, rows × d
	total   state         // merged segments
	part    state         // the segment at hand
	alpha   []float32     // what softmax tells accumulate; x of merge
	beta    []float32     // y of merge
	visible []uint64      // keys that the rows of s see
	queue   prefetchQueue // memory to prefetch
	next    chunk         // the chunk after the one at hand; no rows if there is none
	s       []float32     // scores, then weights, of a tile, or of a span of several blocks or heads
	maxima  []float32     // row maxima of a tile, see kernel_variants.go
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
	w.queue.set(&tuned, 0, false)
	want := sizes{p.headsPerChunk * p.chunkRows, p.scoredRows(), p.d, p.oStride, p.store == nil}
	if w.fitted.cover(&want) {
		return
	}
	w.fitted = want
	rows := want.rows
	w.q = grow(w.q, rows*p.d)
	for _, s := range [...]*state{&w.total, &w.part} {
		s.m, s.l = grow(s.m, rows), grow(s.l, rows)
		s.o = grow(s.o, rows*p.oStride)
	}
	w.alpha, w.beta = grow(w.alpha, max(rows, want.scores)), grow(w.beta, rows)
	w.visible = grow(w.visible, want.scores)
	w.s = grow(w.s, want.scores*Block)
	w.maxima = grow(w.maxima, (1+mostTileRows)*maximaLanes)
	if p.store == nil {
		w.k = grow(w.k, Block*p.d)
		w.v = grow(w.v, Block*roundUp(p.dv, panel))
	}
}
