package attn

import "math"

// block is one block of keys and values in the form that the kernels read.
// Key indices are relative to the block's first key, which is a multiple of Block.
type block struct {
	first  int // absolute index of the block's first key
	lo, hi int // keys that the chunk may see; others are read up to the panel's ends and left out

	k       []float32 // from key 0 of the block on: packed panels, or the caller's rows
	kStride int       // distance of the caller's rows; 0 if packed
	pointer uintptr   // of the keys, see stream.go

	v      []float32   // from key 0 of the block on
	layout panelLayout // how v is laid out; keys is set for each tile

	scanned bool // finite is known
	finite  bool // no value in [lo, hi) is NaN or infinite
}

// block adds keys [lo, hi) of the block that starts at key first to a state.
func (w *scratch) block(p *plan, c *chunk, st *state, first, lo, hi int) {
	b := block{first: first, lo: lo - first, hi: hi - first}
	b.k, b.kStride = w.loadKeys(p, c, &b)
	b.v = w.loadValues(p, c, &b)
	p.follow(c, &b)
	w.prefetchTokens(p, c, first)
	straight := p.straight && b.kStride == 0 && b.hi == Block && b.lastSeesStart(p, c)
	var t tile
	for r := 0; r < c.rows; {
		b.tile(p, c, r, &t)
		switch {
		case straight && t.uniform && t.lo == 0 && t.hi == Block:
			w.straight(p, c, st, &b, r)
			return
		case t.lo < t.hi:
			w.tile(p, c, st, &b, &t)
		case st.overwrite:
			clear(st.o[(c.at+t.row)*p.oStride():][:t.rows*p.oStride()])
		}
		r += t.rows
	}
}

// loadKeys packs the keys, unless they are packed already or there are too few
// queries. It returns keys from the block's first key on and the stride of rows, 0 if packed.
func (w *scratch) loadKeys(p *plan, c *chunk, b *block) (k []float32, stride int) {
	if p.cache != nil {
		return p.cache.blockKeys(c.b, c.kv, b.first), 0
	}
	if p.keysInPlace(c.rows) {
		return p.k.Data[p.k.offset(c.b, c.kv, b.first):], p.k.SL
	}
	from := b.lo / panel * panel // panels begin at multiples of panel
	packKeys(w.k[from*p.d:], p.k.Data[p.k.offset(c.b, c.kv, b.first+from):], p.k.SL, b.hi-from, p.d)
	return w.k, 0
}

// keysInPlace reports whether so many rows read keys where the caller has them.
func (p *plan) keysInPlace(rows int) bool {
	return rows <= inPlaceRows && p.k.SL > 0 && p.d <= inPlaceDim
}

// loadValues packs the values under the same conditions. Whole vectors can be
// read where they are, which pays for more rows if rows of values are close
// together, or are asked for in time. It returns values from the block's first key on and leaves their layout
// in the block.
func (w *scratch) loadValues(p *plan, c *chunk, b *block) []float32 {
	p.packedValues(c, &b.layout)
	if p.cache != nil {
		return p.cache.blockValues(c.b, c.kv, b.first)
	}
	inPlace := c.rows <= inPlaceRows || tuned.reads == pagedReads && c.rows <= tuned.fewRows || c.rows <= denseRows && p.v.SL <= denseStride
	if inPlace && p.dv%8 == 0 {
		p.valuesInPlace(&b.layout)
		return p.v.Data[p.v.offset(c.b, c.kv, b.first):]
	}
	packValues(w.v[b.lo*panel:], p.v.Data[p.v.offset(c.b, c.kv, b.first+b.lo):], p.v.SL, b.hi-b.lo, p.dv)
	return w.v
}

// packedValues makes layout that of a packed block of values, but for keys, fresh and stream, which it leaves.
func (p *plan) packedValues(c *chunk, layout *panelLayout) {
	layout.cols, layout.stride, layout.panelStride = roundUp(p.dv, 8), panel, Block*panel
	layout.access = p.access.at(layout.pointer, p.panelsSequential(c))
}

// panelsSequential reports whether the chunk takes packed panels in order: few rows those that come from memory. What has just been
// packed is in the processor's cache, and so is what an earlier tile of more rows has read.
func (p *plan) panelsSequential(c *chunk) bool {
	return p.sequential && p.cache != nil && c.rows <= inPlaceRows
}

// valuesInPlace makes layout that of values where the caller has them, but for keys, fresh and stream, which it leaves.
func (p *plan) valuesInPlace(layout *panelLayout) {
	layout.cols, layout.stride, layout.panelStride = roundUp(p.dv, 8), p.v.SL, panel
	layout.access = p.access.at(layout.pointer, p.sequential)
}

// allFinite reports whether weights of 0 make any value of the block vanish.
// It looks once, and only for blocks in which some row does not see some key.
func (b *block) allFinite() bool {
	if !b.scanned {
		b.scanned, b.finite = true, b.scan()
	}
	return b.finite
}

func (b *block) scan() bool {
	if b.layout.panelStride == panel { // rows, as the caller has them
		for j := b.lo; j < b.hi; j++ {
			if !allFinite(b.v[j*b.layout.stride:][:b.layout.cols]) {
				return false
			}
		}
		return true
	}
	for c := 0; c < b.layout.cols; c += panel {
		if !allFinite(b.v[c/panel*b.layout.panelStride:][b.lo*panel : b.hi*panel]) {
			return false
		}
	}
	return true
}

// tile is the rows that go through the kernels together, and the keys of the
// block that at least one of them sees.
type tile struct {
	row, rows int
	at        int // where its rows are among those whose scores are kept
	lo, hi    int
	uniform   bool // all rows see all keys of [lo, hi), by position
}

// tile makes t the tile that starts at a row of the chunk: the plan's number of rows if they
// see the same keys, else fewer, so that little is computed for nothing. (To return it would be to copy it, which
// small calls feel.)
func (b *block) tile(p *plan, c *chunk, row int, t *tile) {
	t.row, t.rows, t.at = row, min(p.tileRows, c.rows-row), 0
	lo, hi := b.keyRange(p, c, row)
	lastLo, lastHi := b.keyRange(p, c, row+t.rows-1)
	if lo != lastLo || hi != lastHi {
		t.rows = min(diagonalRows, c.rows-row)
		lastLo, lastHi = b.keyRange(p, c, row+t.rows-1)
	}
	t.lo, t.hi = lo, lastHi // the bounds never decrease from row to row
	t.uniform = lo == lastLo && hi == lastHi
}

// keyRange is the block's part of the keys that a row of the chunk sees by position.
func (b *block) keyRange(p *plan, c *chunk, row int) (lo, hi int) {
	lo, hi = p.keyRange(c, (c.row+row)/p.group)
	return min(max(lo-b.first, b.lo), b.hi), min(max(hi-b.first, b.lo), b.hi)
}

// tile takes one tile through score, softmax and accumulate.
func (w *scratch) tile(p *plan, c *chunk, st *state, b *block, t *tile) {
	w.products(p, c, b, t)
	full := w.scores(p, c, b, t)
	w.softmaxValuesTile(p, c, st, b, t, full)
}

// softmaxValuesTile takes the scores of one tile into the state. They are full if every row sees every
// key of the block.
func (w *scratch) softmaxValuesTile(p *plan, c *chunk, st *state, b *block, t *tile, full bool) {
	row, stride := c.at+t.row, p.oStride()
	m, l, o := st.m[row:], st.l[row:], st.o[row*stride:]
	s, alpha := w.scoresOf(t, 0), w.alpha[t.at:]
	layout := b.layout
	layout.keys, layout.overwrite = t.hi-t.lo, st.overwrite
	v := b.v[t.lo*layout.stride:]
	if full {
		if softmaxValues(s, m, l, alpha, o, v, t.rows, stride, &layout) {
			clearMasked(m, o, t.rows, stride)
		}
		return
	}
	masked := w.softmaxMasked(m, l, t)
	all := t.uniform && !p.pairwise() // every row sees every key of [lo, hi)
	if (masked || !all) && !b.allFinite() {
		accumulateMasked(o, s[t.lo:], v, alpha, t.rows, stride, Block, &layout)
		return
	}
	accumulate(o, s[t.lo:], v, alpha, t.rows, stride, Block, &layout)
}

// pairwise reports whether single pairs of query and key may be masked.
func (p *plan) pairwise() bool { return p.mask.Data != nil || p.bias.Data != nil }

// softmaxMasked is softmax with the live keys in w.visible.
func (w *scratch) softmaxMasked(m, l []float32, t *tile) (masked bool) {
	masked = softmaxMasked(w.s[t.at*Block:], m, l, w.alpha[t.at:], w.visible[t.at:], t.rows)
	if masked {
		w.markMasked(m, t)
	}
	return masked
}

// scores makes scores of the tile's products in w.s: softcap, bias and ALiBi
// where asked for. It reports whether every row sees every key of the block; if
// not, the keys that a row sees have their bits set in w.visible.
func (w *scratch) scores(p *plan, c *chunk, b *block, t *tile) (full bool) {
	full = t.uniform && t.lo == 0 && t.hi == Block
	if !full || p.pairwise() {
		w.visibleByPosition(p, c, b, t)
	}
	if p.softcap > 0 {
		w.softcap(p.softcap, t)
	}
	every := ^uint64(0)
	if p.bias.Data != nil {
		every = w.addBias(p, c, b, t)
	}
	if p.slopes != nil {
		for r := range t.rows {
			h, i := p.locate(c.kv, c.row+t.row+r)
			alibi(w.scoresOf(t, r)[t.lo:t.hi], p.slopes[h], b.first+t.lo-i-c.position)
		}
	}
	if p.mask.Data != nil {
		every = w.maskKeys(p, c, b, t)
	}
	return full && every == ^uint64(0)
}

// scoresOf is the scores of row r of the tile, and of those behind it.
func (w *scratch) scoresOf(t *tile, r int) []float32 { return w.s[(t.at+r)*Block:] }

// softcap caps the tile's scores: at once where they are side by side.
func (w *scratch) softcap(c float32, t *tile) {
	if t.lo == 0 && t.hi == Block {
		softcap(w.scoresOf(t, 0)[:t.rows*Block], c)
		return
	}
	for r := range t.rows {
		softcap(w.scoresOf(t, r)[t.lo:t.hi], c)
	}
}

// products leaves q·k in w.s.
func (w *scratch) products(p *plan, c *chunk, b *block, t *tile) {
	if b.kStride == 0 && p.pairwise() {
		w.prefetchPairs(p, c, b, t)
	}
	q := w.q[(c.at+t.row)*p.d:]
	w.queue.pointer, w.queue.sequential = b.pointer, p.sequential
	if b.kStride > 0 {
		scoreRows(w.scoresOf(t, 0)[t.lo:], q, b.k[t.lo*b.kStride:], t.rows, p.d, b.kStride, t.hi-t.lo, &w.queue)
		return
	}
	w.queue.sequential = p.panelsSequential(c)
	from := t.lo / panel * panel
	scorePrefetch(w.scoresOf(t, 0)[from:], q, b.k[from*p.d:], t.rows, p.d, (t.hi-from+panel-1)/panel, &w.queue)
}

// addBias adds the bias to the tile's scores and takes the keys that it masks
// out of w.visible. It returns the keys that are left in every row.
func (w *scratch) addBias(p *plan, c *chunk, b *block, t *tile) (every uint64) {
	every = ^uint64(0)
	for first := range min(p.group, t.rows) {
		h, i := p.locate(c.kv, c.row+t.row+first)
		at := p.bias.offset(c.b, h, i) + b.first + t.lo
		s, rows := w.scoresOf(t, first)[t.lo:], p.rowsOfHead(t, first)
		every &= addBias(s, p.bias.Data[at:], w.visible[t.at+first:], rows, p.group, p.bias.SL, t.lo, t.hi-t.lo)
	}
	return every
}

// maskKeys takes the keys that the mask does not allow out of w.visible. It returns
// the keys that are left in every row.
func (w *scratch) maskKeys(p *plan, c *chunk, b *block, t *tile) (every uint64) {
	every = ^uint64(0)
	for first := range min(p.group, t.rows) {
		h, i := p.locate(c.kv, c.row+t.row+first)
		at := p.mask.offset(c.b, h, i) + b.first + t.lo
		every &= maskKeys(p.mask.Data[at:], w.visible[t.at+first:], p.rowsOfHead(t, first), p.group, p.mask.SL, t.lo, t.hi-t.lo)
	}
	return every
}

// rowsOfHead is the number of rows that belong to the head of row first: that one
// and every group-th row behind it. In a mask or bias they follow each other.
func (p *plan) rowsOfHead(t *tile, first int) int {
	return (t.rows - first + p.group - 1) / p.group
}

// visibleByPosition leaves a bit in w.visible for each key of the block that a row sees by its position.
func (w *scratch) visibleByPosition(p *plan, c *chunk, b *block, t *tile) {
	seen := lowBits(t.hi) &^ lowBits(t.lo)
	live := w.visible[t.at:][:t.rows]
	for r := range live {
		if !t.uniform {
			lo, hi := b.keyRange(p, c, t.row+r)
			seen = lowBits(hi) &^ lowBits(lo)
		}
		live[r] = seen
	}
}

// lowBits has bits 0 to n−1 set.
func lowBits(n int) uint64 { return 1<<n - 1 }

// markMasked takes the weights away from rows that have seen no score above −Inf:
// they count as empty, so no value may reach their output.
func (w *scratch) markMasked(m []float32, t *tile) {
	for r := range t.rows {
		if m[r] == negInf {
			for j := t.lo; j < t.hi; j++ {
				w.s[(t.at+r)*Block+j] = math.Float32frombits(negZero)
			}
		}
	}
}

// clearMasked empties the outputs of rows that have seen no score above −Inf: they
// were empty before, and a weight of 0 has met a value that may be NaN.
func clearMasked(m, o []float32, rows, stride int) {
	for r := range rows {
		if m[r] == negInf {
			clear(o[r*stride:][:stride])
		}
	}
}

// weightsBlock writes the weights of keys [lo, hi) of the block that starts at key first.
func (w *scratch) weightsBlock(p *plan, c *chunk, first, lo, hi int) {
	b := block{first: first, lo: lo - first, hi: hi - first}
	b.k, b.kStride = w.loadKeys(p, c, &b)
	w.queue.clear()
	var t tile
	for r := 0; r < c.rows; {
		b.tile(p, c, r, &t)
		if t.lo < t.hi {
			w.products(p, c, &b, &t)
			if full := w.scores(p, c, &b, &t); full {
				w.visibleByPosition(p, c, &b, &t) // writing weights asks for each key
			}
			w.writeTileWeights(p, c, &b, &t)
		}
		r += t.rows
	}
}

func (w *scratch) writeTileWeights(p *plan, c *chunk, b *block, t *tile) {
	for r := range t.rows {
		m, l := w.total.m[c.at+t.row+r], w.total.l[c.at+t.row+r]
		if l == 0 {
			continue // no live key: the row is zero already
		}
		h, i := p.locate(c.kv, c.row+t.row+r)
		at := p.weights.offset(c.b, h, i) + b.first
		weights(p.weights.Data[at+t.lo:at+t.hi], w.s[r*Block+t.lo:], m, 1/l, w.visible[r]>>t.lo)
	}
}
