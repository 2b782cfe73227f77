package attn

// How calls are divided. The sizes are measured, see docs/decisions.md; no result depends on them.
const (
	// Up to denseRows rows read values where the caller has them if these are not
	// further apart than denseStride. Beyond, the L1 cache holds them only packed,
	// and more rows make packing worth while.
	denseRows   = 256
	denseStride = 64

	// copyKeys is up to how many keys queries are read where the caller has them, if they lie in memory as kernels read them. With
	// more keys each query is read so often that a copy beside the rest of scratch is worth while.
	copyKeys = 4 * Block

	// stepRows is up to how many rows of all heads of a chunk take a block in steps: as many scores are kept.
	stepRows = 256

	// stepHeadRows is up to how many rows of one head do: with more, computing takes longer than
	// memory, and steps cost more than they save.
	stepHeadRows = 32

	// fullStoreRows is up to how many rows full blocks of a store go from kernel to kernel in one span: more rows do not feel what is between.
	fullStoreRows = 16

	// unitsPerWorker is how many pieces of work a worker should find at least,
	// so that the others do not wait long for the last one.
	unitsPerWorker = 4

	// leastRows is the size of the smallest chunks into which the rows of a
	// head are divided: whole tiles of the kernel, and enough of them to pay for
	// packing the keys once more.
	leastRows = 24

	// segmentBytes bounds the memory for the states of segments that wait to be merged.
	segmentBytes = 64 << 20
)

// decide makes the schedule of a validated call for some workers. Everything that depends on the CPU comes from the tuning.
func (p *plan) decide(t *tuning, workers int) {
	p.decideTiles(t, workers)
	p.decideChunks(t)
	if workers > 1 {
		p.partition(workers)
	}
	p.decideReads(t)
}

// decideTiles begins a schedule with what does not depend on how the call is divided.
func (p *plan) decideTiles(t *tuning, workers int) {
	p.oStride = roundUp(p.dv, panel)
	p.schedule = schedule{}
	p.workers, p.segments, p.tileRows, p.blocks, p.step = workers, 1, t.tileRows, 1, Block
	if max(p.d, p.dv) > tileDim {
		p.tileRows = leastTileRows
	}
}

// decideReads says how chunks read their queries, keys and values.
func (p *plan) decideReads(t *tuning) {
	p.queriesInPlace = !p.flip && (p.lk <= copyKeys || p.chunkRows <= inPlaceRows) && p.queriesPacked()
	if p.packed != nil {
		p.queriesInPlace = p.queriesInPlace && p.packed.rotation <= 1
		if p.packed.format != F32 && !p.pairwise() {
			p.typedRows = typedRows
		}
	}
	p.decidePlacement(t)
	p.decideSpans(t)
}

// queriesPacked reports whether queries of a chunk lie in memory as kernels read them.
func (p *plan) queriesPacked() bool {
	queries := p.lq
	if r := p.ragged; r != nil {
		if queries = r.longest; r.several() {
			return false
		}
	}
	return p.group == 1 && p.q.SL == p.d || queries == 1 && p.q.SH == p.d
}

// mostRows is how many rows of a chunk the cache holds with a packed block and a tile of scores.
func (p *plan) mostRows(t *tuning) int {
	const factors = 6 // maxima and sums of both states, alpha and beta
	block := Block*(p.d+p.oStride) + mostTileRows*Block
	rows := (t.scratchBytes()/4 - block) / (p.d + 2*p.oStride + factors)
	return max(leastTileRows, rows/splitRows*splitRows)
}

// decideChunks chooses the rows and heads of a chunk: as many rows as the cache holds, or fewer if that makes no more chunks.
func (p *plan) decideChunks(t *tuning) {
	rows := p.mostRows(t)
	all := max(1, p.lq*p.group)
	chunks := (all + rows - 1) / rows
	p.chunkRows = min(all, roundUp((all+chunks-1)/chunks, splitRows))
	p.headsPerChunk = p.headsBeside(t, rows)
}

// headsBeside is the number of key/value heads that go through memory together, at most as many
// as have so many rows. Where few rows read rows of keys or values that lie beside those of
// other heads, as in BLHD views, one head after the other would come to each page again
// and again, long after the translation of its address has been forgotten.
func (p *plan) headsBeside(t *tuning, rows int) int {
	apart := max(p.k.SH, p.v.SH)
	if p.packed != nil || p.chunkRows > t.fewRows || apart >= min(p.k.SL, p.v.SL) {
		return 1
	}
	most := rows / p.chunkRows
	if p.sharesTokens(t) && p.kvHeads <= most && p.tokensContiguous(t, &p.k) && p.tokensContiguous(t, &p.v) {
		return p.kvHeads
	}
	return max(1, min(p.kvHeads, most, pageBytes/4/max(1, apart)))
}

// sharesTokens reports whether heads that go together may each prefetch a share of the tokens of all heads.
func (p *plan) sharesTokens(t *tuning) bool {
	return t.reads == pagedReads || t.sequential(p.tokenBytes()) && p.chunkRows <= inPlaceRows && p.hasSteps(p.kvHeads)
}

// tokensContiguous reports whether the heads of a token follow each other, and so do tokens. What is
// prefetched is read a block of tokens later, or a step: more than the L2 cache holds
// of keys or of values has not been tried.
func (p *plan) tokensContiguous(t *tuning, x *Tensor) bool {
	keys := Block
	if p.hasSteps(x.H) {
		keys = 2 * panel
	}
	return x.SH == x.D && x.SL == x.H*x.D && x.SL <= t.l2/(2*4*keys)
}

// hasSteps reports whether so many heads that go together have few enough rows for steps.
func (p *plan) hasSteps(heads int) bool {
	return heads > 1 && p.chunkRows <= stepHeadRows && heads <= stepRows && heads*p.chunkRows <= stepRows
}

// partition divides the call among workers. Prefill has many rows and gets
// smaller chunks of rows; decoding has few and gets segments of keys.
func (p *plan) partition(workers int) {
	segments := (p.lk + Segment - 1) / Segment
	want := workers * unitsPerWorker
	pieces := 1
	if p.holdsSegments(segments) {
		pieces = segments
	}
	for p.headsPerChunk > 1 && p.chunks()*pieces < 2*workers {
		p.headsPerChunk /= 2 // two units for each worker, or heads by themselves
	}
	if p.chunks() >= want {
		return
	}
	least := leastRows
	if segments > 1 {
		least = 4 * leastRows // keys are packed for each chunk: prefer segments
	}
	heads := p.chunks() / p.chunksPerHead()
	perHead := (want + heads - 1) / heads
	rows := roundUp((p.lq*p.group+perHead-1)/perHead, leastRows)
	p.chunkRows = min(p.chunkRows, max(rows, least))
	if p.chunks() < want && segments > 1 && p.holdsSegments(segments) {
		p.segments = segments
	}
}

// holdsSegments reports whether there is memory for so many states of each chunk. It divides, because chunks times segments may
// be more than an int holds.
func (p *plan) holdsSegments(segments int) bool {
	return p.chunks() <= segmentBytes/4/p.stateSize()/max(1, segments)
}

// stateSize is the number of elements of the state of a chunk: m, l and o, in
// whole cache lines.
func (p *plan) stateSize() int {
	return roundUp(p.headsPerChunk*p.chunkRows*(p.oStride+2), panel)
}

// decidePlacement says where keys and values are read. Keys in rows are transposed in registers, which takes as long as packing from a few
// queries on. Values in rows can be read as they are, which pays for more rows if rows of values are close
// together, or are prefetched in time.
func (p *plan) decidePlacement(t *tuning) {
	if p.sequential = t.sequential(p.tokenBytes()); p.sequential {
		p.sequentialRows = inPlaceRows
	}
	if t.reads == pagedReads {
		p.keys.pagedRows, p.values.pagedRows = t.fewRows, t.fewRows
	}
	if p.packed != nil {
		return
	}
	if p.k.SL > 0 && p.d <= inPlaceDim {
		p.keys.inPlaceRows = inPlaceRows
	}
	if p.dv%8 == 0 {
		p.values.inPlaceRows = max(inPlaceRows, p.values.pagedRows)
		if p.v.SL <= denseStride {
			p.values.inPlaceRows = max(p.values.inPlaceRows, denseRows)
		}
	}
	if p.sequential && p.chunkRows <= inPlaceRows && p.hasSteps(p.headsPerChunk) {
		p.keys.pagedRows, p.values.pagedRows = inPlaceRows, inPlaceRows
	}
	p.decidePages(t, &p.keys, &p.k)
	p.decidePages(t, &p.values, &p.v)
}

// decidePages says whether the rows of a view are prefetched along a pointer: if a head's rows follow each other, unless the processor fetches
// these by itself, or the tokens of all heads, which then share in that.
func (p *plan) decidePages(t *tuning, to *placement, x *Tensor) {
	switch {
	case x.SL == x.D && !p.sequential:
	case p.headsPerChunk == x.H && p.tokensContiguous(t, x):
		to.shared = true
	default:
		to.pagedRows = 0
	}
}

// decideSpans says what goes through the kernels together.
func (p *plan) decideSpans(t *tuning) {
	if p.hasSteps(p.headsPerChunk) && p.keys.pagedRows > 0 && p.values.pagedRows > 0 {
		p.step = 2 * panel
		if p.chunkRows <= inPlaceRows && !(p.sequential && p.step*4*max(p.k.SL, p.v.SL) <= t.prefetchBytes()) {
			p.step = panel // packing takes longer for fewer keys at a time, so this is for rows that do not
		}
	}
	rows := min(p.tileRows, p.chunkRows)
	scaled := p.packed != nil && p.packed.format == I8
	p.full = p.plainScores() && !scaled && canTakeFull(t, rows, p.d, roundUp(p.dv, 8))
	switch {
	case p.packed != nil && p.packed.format == F32 && p.full:
		p.blocks, p.spanRows = Segment/Block, fullStoreRows
	case p.typedRows > 0 && p.plainScores():
		p.blocks, p.spanRows = Segment/Block, p.typedRows
	case p.packed == nil && p.sequential && p.headsPerChunk == 1:
		p.blocks, p.spanRows = Segment/Block, inPlaceRows
	}
}

// tokenBytes is how much memory the keys and values of the call are, in float64 because with strides of 0 the product may overflow an int.
func (p *plan) tokenBytes() float64 {
	size := 4.0
	if p.ragged != nil {
		return p.ragged.bytes
	}
	if p.packed != nil {
		size = float64(p.packed.bytes)
	}
	return size * float64(p.batch) * float64(p.kvHeads) * float64(p.lk) * float64(p.d+p.dv)
}

// cost estimates the nanoseconds of the call on one core.
func (p *plan) cost(t *tuning) float64 {
	keys := p.lk
	if r := p.ragged; r != nil {
		return t.cost(r.flops, r.bytes)
	}
	if p.left >= 0 && p.right >= 0 {
		keys = min(keys, p.left+p.right+1)
	}
	dims := float64(p.d + p.dv)
	flops := 2 * float64(p.batch) * float64(p.heads) * float64(p.lq) * float64(keys) * dims
	if p.causal != Full && p.lq > 1 {
		flops /= 2
	}
	bytes := 4 * float64(p.batch) * float64(p.kvHeads) * float64(keys) * dims
	return t.cost(flops, bytes)
}
