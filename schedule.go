package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// How calls are divided. The sizes are measured, see docs/decisions; no result depends on them.
const (
	// Up to denseRows rows read values where the caller has them if these are not further apart
	// than denseStride. Beyond, the L1 cache holds them only packed, and more rows make packing
	// worth while.
	denseRows   = 256
	denseStride = 64

	// copyKeys is up to how many keys queries are read where the caller has them, if they lie in
	// memory as kernels read them. With more keys each query is read so often that a copy beside
	// the rest of scratch is worth while.
	copyKeys = 4 * Block

	// stepRows is up to how many rows of all heads of a chunk take a block in steps: as many scores
	// are kept.
	stepRows = 256

	// stepHeadRows is up to how many rows of one head do: with more, computing takes longer than
	// memory, and steps cost more than they save.
	stepHeadRows = 32

	// fullPackedRows is up to how many rows blocks of a cache or store go from kernel to kernel in
	// one span: with more, what is between kernels takes no part of the time worth saving.
	fullPackedRows = 16

	// pagedPanelRows is up to how many rows panels of a cache or store are read page by page, where
	// reads are queued: more rows compute longer than they wait.
	pagedPanelRows = 24

	// maxTasks is how many there are at most for the sake of even shares.
	maxTasks = 16

	// evenRows: the rows of a chunk are a multiple of it. With a larger one the last chunk would be
	// smaller.
	evenRows = 4

	// minChunkRows is the size of the smallest chunks into which the rows of a head are divided:
	// whole tiles of the kernel, and enough of them to pay for packing the keys once more.
	minChunkRows = 24

	// Views become integers once a call if that saves at least a share of its time, and each worker
	// some nanoseconds, as long as it may wait for the last one. It takes as long as to make them for
	// some chunks: nothing is computed meanwhile, so all wait for memory.
	onceShare, onceWait, onceAs = 0.015, 15e3, 2

	// integersAgain rows of a chunk take as long as to make integers of its keys and values.
	integersAgain = 24

	// onceBytes bounds the memory of what is packed once a call.
	onceBytes = 32 << 20

	// segmentBytes bounds the memory for the states of segments that wait to be merged.
	segmentBytes = 64 << 20
)

// decide makes the schedule of a validated call for some workers. Everything that depends on the
// CPU comes from the tuning. Chunks have as many rows as the cache holds, or fewer if that makes no
// more chunks.
func (p *plan) decide(t *tuning.Row, workers int) {
	if p.once != nil && p.packsOnce(t, workers) {
		*p.once = packed.New(kernel.I8, kernel.I8, p.kvHeads, p.d, p.dv, false)
		if p.once.Fits(p.batch, partsOf(p.lk, Block), onceBytes/4) {
			p.packed = p.once // as over a cache
		}
	}
	rows := p.beginSchedule(t, workers)
	all := max(1, p.lq*p.group)
	chunks := (all + rows - 1) / rows
	p.chunkRows = min(all, kernel.RoundUp((all+chunks-1)/chunks, p.tileRows))
	if p.listed {
		p.chunkRows = p.alignRows(p.chunkRows)
	} else if p.keyKind == kindViews {
		p.headsPerChunk = p.headsBeside(t, rows)
	}
	p.countChunks()
	if workers > 1 {
		p.partition(workers)
	}
	p.decideReads(t)
}

// packsOnce reports whether workers make integers of the keys and values of views together, before
// they read them: where several have chunks of a head, of which each would make all of them again,
// and that takes longer than to wait for all workers once more.
func (p *plan) packsOnce(t *tuning.Row, workers int) bool {
	hides := p.mask.Data != nil || p.blocked.Data != nil // perhaps most blocks, which nobody reads
	if !p.integers || p.packed != nil || p.listed || hides || p.sequences != nil ||
		p.update || min(p.d, p.dv, p.lq) == 0 {
		return false
	}
	perHead := partsOf(workers*tuning.TasksPerWorker, p.batch*p.kvHeads)
	saved := min(perHead, workers) - onceAs
	saves := float64(saved*integersAgain) / float64(p.lq*p.group)
	return saves >= onceShare && saves*p.cost(t) >= onceWait*float64(workers)
}

// beginSchedule begins with what does not depend on how the call is divided, and returns how many
// rows of a chunk the cache holds with a packed block and a tile of scores: whole tiles, since a
// rest of few rows takes more time for each.
func (p *plan) beginSchedule(t *tuning.Row, workers int) (rows int) {
	p.schedule = schedule{workers: workers, segments: 1, headsPerChunk: 1, tileRows: t.TileRows,
		blocks: 1, step: Block, oStride: kernel.RoundUp(p.dv, panel),
		looks: p.mask.Data != nil || p.bias.Data != nil || p.blocked.Data != nil, ahead: t.PrefetchInt8,
		bytes: p.bytesOf(float64(p.batch) * float64(p.kvHeads) * float64(p.lk-p.first))}
	p.plain = !p.natural && !p.looks
	if max(p.d, p.dv) > tuning.TileDim {
		p.tileRows = minTileRows
	}
	switch {
	case p.integers:
		p.keyKind = kindIntegers
	case p.packed == nil:
		p.keyKind = kindViews
	case p.packed.K.Format == kernel.F32:
		p.keyKind = kindPanels
	default:
		p.keyKind = kindBits
	}
	states := 2
	p.valueKind = p.keyKind
	switch {
	case p.packed == nil:
	case p.packed.ValuesInKeys:
		p.valueKind = kindLatent
		states = 1 // of a segment: the second one has its turn after every 16 blocks
	case p.keyKind == kindPanels && p.packed.V.Format != kernel.F32:
		p.valueKind = kindBits
	}
	const factors = 6 // maxima and sums of both states, alpha and beta
	block := Block*(p.d+p.oStride) + maxTileRows*Block
	rows = (t.ScratchBytes()/4 - block) / (p.d + states*p.oStride + factors)
	return max(minTileRows, rows/p.tileRows*p.tileRows)
}

// headsBeside is the number of key/value heads that go through memory together, which have at most
// that many rows. Where few rows read keys or values that lie beside those of other heads, as in
// BLHD views, each head by itself would come to each page again, long after the translation of its
// address was evicted.
func (p *plan) headsBeside(t *tuning.Row, rows int) int {
	distance := max(p.k.SH, p.v.SH)
	if p.chunkRows > t.FewRows || distance >= min(p.k.SL, p.v.SL) {
		return 1
	}
	heads := rows / p.chunkRows
	inOrder, oneStream := t.Streams(p.bytes, p.chunkRows, max(p.d, p.dv))
	shares := t.Reads == tuning.PagedReads || // each head prefetches a share of the tokens of all
		(inOrder || oneStream) && p.chunkRows <= inPlaceRows && p.hasSteps(p.kvHeads)
	if shares && p.kvHeads <= heads &&
		p.tokensContiguous(t, &p.k) && p.tokensContiguous(t, &p.v) {
		return p.kvHeads
	}
	return max(1, min(p.kvHeads, heads, kernel.PageBytes/4/max(1, distance)))
}

// tokensContiguous reports whether the heads of a token follow each other, and so do tokens. What
// is prefetched is read a block of tokens later, or a step: more than the L2 cache holds of keys or
// of values has not been tried.
func (p *plan) tokensContiguous(t *tuning.Row, x *Tensor) bool {
	keys := Block
	if p.hasSteps(x.H) {
		keys = 2 * panel
	}
	return x.SH == x.D && x.SL == x.H*x.D && x.SL <= t.L2/(2*4*keys)
}

// hasSteps reports whether a number of heads that go together have few enough rows for steps.
func (p *plan) hasSteps(heads int) bool {
	return heads > 1 && p.chunkRows <= stepHeadRows &&
		heads <= stepRows && heads*p.chunkRows <= stepRows
}

// partition divides the call among workers. Prefill has many rows and gets smaller chunks of rows;
// decoding has few and gets segments of keys.
func (p *plan) partition(workers int) {
	if p.listed {
		p.partitionLists(workers)
		return
	}
	first, segments := p.seenSegments()
	want := workers * tuning.TasksPerWorker
	tasks := 1 // of a chunk
	if p.holdsSegments(segments) {
		tasks = segments
	}
	for p.headsPerChunk > 1 && p.chunks*tasks < 2*workers {
		p.headsPerChunk /= 2 // two tasks for each worker, or heads by themselves
		p.countChunks()
	}
	// rounds that are nearly full need no better division
	if p.chunks < want || 10*workers*partsOf(p.chunks, workers) > 11*p.chunks {
		p.chooseChunks(workers, first, segments)
	}
}

// chooseChunks chooses how many chunks the rows of a head are, at least as many as there are, and
// whether workers take their segments one by one: what takes the shortest time, as far as that is
// known.
func (p *plan) chooseChunks(workers, first, segments int) {
	fewer := 1.
	if p.causal == Full {
		fewer = 0.98 // what more chunks have to gain: they take more time in all
	}
	all, heads, least := p.lq*p.group, p.chunks/p.chunksPerHead, p.chunksPerHead
	shortest, rows := math.Inf(1), p.chunkRows
	mean := p.meanShare()
	for n := least; n == least || n <= partsOf(all, minChunkRows) && heads*n <= maxTasks*workers; n++ {
		p.chunkRows = min(p.chunkRows, kernel.RoundUp(partsOf(all, n), evenRows))
		tasks, each := p.countChunks(), float64(p.chunkRows+p.againRows())
		if t := tuning.Makespan(tasks, workers, each, mean); t < fewer*shortest {
			shortest, rows, p.segment, p.segments = t, p.chunkRows, 0, 1
		}
		if segments == 1 || tasks >= workers*tuning.TasksPerWorker || !p.holdsSegments(segments) {
			continue
		}
		const merging = 1.04 // of the time of a chunk with its segments
		each *= merging / float64(segments)
		if t := tuning.Makespan(tasks*segments, workers, each, mean); t < fewer*shortest {
			shortest, rows, p.segment, p.segments = t, p.chunkRows, first, segments
		}
	}
	p.chunkRows = rows
	p.countChunks()
}

// againRows is how many rows take as long as what is done for each chunk again: packing its keys,
// with making integers of them, or unpacking them.
func (p *plan) againRows() int {
	again := 12
	switch {
	case p.lq*p.group <= inPlaceRows:
		return 0
	case p.valueKind == kindLatent:
		again = 16
	case p.packed != nil:
		again = 4
	case p.integers:
		again = integersAgain
	}
	if p.causal != Full { // for a block of keys that rows see only in part, too
		again += 8
	}
	return again
}

// meanShare is the work of a chunk on average, of that of one which sees all keys.
func (p *plan) meanShare() float64 {
	if p.causal == Full {
		return 1
	}
	var c chunk
	if c.rows = p.entry(0, &c); c.rows == 0 {
		return 1
	}
	flops, _ := p.work(&c, 0)
	every := 2 * float64(c.rows) * float64(c.keys-c.from) * float64(p.d+p.dv)
	return min(1, max(flops/every, 1./maxTasks))
}

// partitionLists is partition where rows have lists: they share what is gathered, so they are apart
// only where workers would have nothing to do.
func (p *plan) partitionLists(workers int) {
	segments := partsOf(p.lists.D, Segment)
	if p.chunks < workers*tuning.TasksPerWorker && segments > 1 && p.holdsSegments(segments) {
		p.segments = segments
	}
	for p.chunks*p.segments < workers && p.chunkRows%2 == 0 && p.chunkRows >= 2*minChunkRows {
		p.chunkRows /= 2
		p.countChunks()
	}
}

// packingTasks is how many tasks packing is, see packKeys.
func (p *plan) packingTasks() int { return p.batch * p.kvHeads * partsOf(p.lk, packedRun) }

// packingCost estimates the nanoseconds of that on one core: reading, and writing what is read
// before.
func (p *plan) packingCost(t *tuning.Row) float64 {
	return t.Cost(0, 3*4*float64(p.batch*p.kvHeads)*float64(p.lk)*float64(p.d+p.dv))
}

// alignRows is how many of up to some rows make a chunk, whose rows share a list.
func (p *plan) alignRows(rows int) int {
	all := p.rowsPerList()
	if all == p.lq*p.group {
		return rows
	}
	n := partsOf(all, rows)
	for all%n != 0 {
		n++
	}
	return all / n
}

// holdsSegments reports whether there is memory for a state of each segment of a chunk. It divides,
// because chunks times segments may be more than an int holds.
func (p *plan) holdsSegments(segments int) bool {
	return p.chunks <= segmentBytes/4/p.stateSize()/max(1, segments)
}

// stateSize is the number of elements of the state of a chunk: m, l and o, in whole cache lines.
func (p *plan) stateSize() int {
	return kernel.RoundUp(p.headsPerChunk*p.chunkRows*(p.oStride+2), panel)
}

// decideReads says how chunks read their queries, keys and values, and what goes through the
// kernels together.
func (p *plan) decideReads(t *tuning.Row) {
	p.decideKernels(t)
	if p.listed {
		return // what is gathered is in the cache, for few rows as for many
	}
	p.decidePrefetch(t)
	switch {
	case p.keyKind == kindViews:
		p.decideViews(t)
	case p.packed == nil || !p.plain: // one block after another
	case p.keyKind != kindPanels || p.valueKind == kindBits:
		p.blocks, p.spanRows = Segment/Block, narrow.MaxRows
	case p.full || p.packed.ValuesInKeys:
		p.blocks, p.spanRows = Segment/Block, fullPackedRows
	}
}

// decideKernels says what kernels take as it lies in memory, without scratch memory between:
// queries that need nothing before and are read a few times; whole blocks, which go from kernel to
// kernel; and for few rows fewer bits and codes.
func (p *plan) decideKernels(t *tuning.Row) {
	queries, few := p.lq, p.lk <= copyKeys || p.chunkRows <= inPlaceRows
	if s := p.sequences; s != nil {
		few = s.keys <= copyKeys || p.chunkRows <= inPlaceRows
		queries, few = s.longest, few && !s.sharesPrefixes()
	}
	lieAsRead := p.group == 1 && p.q.SL == p.d || queries == 1 && p.q.SH == p.d
	p.queriesInPlace = few && lieAsRead && !p.flip && !p.integers &&
		!(p.packed != nil && p.packed.Rotates)
	// full blocks need nothing but assembly for scores, softmax and values, and no call is split
	rows, cols := min(p.tileRows, p.chunkRows), kernel.RoundUp(p.dv, 8)
	p.full = !p.natural && !p.integers &&
		!(p.packed != nil && (p.packed.K.Scaled || p.packed.V.Scaled)) && t.ISA.SIMD() &&
		kernel.ProductsOf(rows, Block*max(p.d, cols)) <= kernel.CallProducts
	p.fullIntegers = !p.natural && p.keyKind == kindIntegers && p.valueKind == kindIntegers
	if (p.keyKind == kindBits || p.valueKind == kindBits) && !p.looks {
		p.typedRows = narrow.MaxRows
	}
	if s := p.packed; s != nil && !s.ValuesInKeys && (s.K.Codes || s.V.Codes) {
		p.codeRows = int4.RowsOfCodes(tuned.ISA, p.integers)
	}
}

// decidePrefetch says in which order few rows read what memory has to bring, along a pointer or
// not, and how far ahead they prefetch it.
func (p *plan) decidePrefetch(t *tuning.Row) {
	if p.packed == nil || t.Reads == tuning.PagedReads {
		p.keys.pagedRows = t.PagedRows(p.chunkRows)
		p.values.pagedRows = p.keys.pagedRows
	}
	if p.packed == nil {
		p.inOrder, _ = t.Streams(p.bytes, p.chunkRows, p.d)
		return
	}
	if t.PanelsInOrder(p.bytes) {
		p.inOrderRows = inPlaceRows
	}
	large := p.bytes > float64(t.L2)
	if large {
		p.integersInOrder = true
		if p.sequences == nil {
			p.further = t.PrefetchRun
		}
		if p.chunkRows > 1 || p.packed.K.Format == p.packed.V.Format { // else it takes longer
			p.ahead = t.Ahead(p.packed.Size)
		}
	}
	if n := t.MinPagedPanels; n > 0 && p.chunkRows >= n && t.Reads == tuning.QueuedReads &&
		p.keyKind == kindPanels && p.valueKind == kindPanels {
		p.panelRows = n
		if p.chunkRows < t.MinRows16 || large { // in the L2 cache 16 lanes gain nothing
			p.keys.pagedRows, p.values.pagedRows = pagedPanelRows, pagedPanelRows
		}
	}
}

// decideViews says where keys and values of views are read. Keys in rows are transposed in
// registers, which takes as long as packing from a few queries on. Values in rows can be read as
// they are, which pays for more rows if rows of values are close together, or are prefetched in
// time. Where heads go together, each has its turn after a step of keys.
func (p *plan) decideViews(t *tuning.Row) {
	if p.k.SL > 0 && p.d <= kernel.InPlaceDim {
		p.keys.inPlaceRows = inPlaceRows
	}
	if p.dv%8 == 0 {
		p.values.inPlaceRows = max(inPlaceRows, p.values.pagedRows)
		if p.v.SL <= denseStride {
			p.values.inPlaceRows = max(p.values.inPlaceRows, denseRows)
		}
	}
	steps, few := p.hasSteps(p.headsPerChunk), p.chunkRows <= inPlaceRows
	_, p.oneStream = t.Streams(p.bytes, p.chunkRows, max(p.d, p.dv))
	p.oneStream = p.oneStream && few && steps
	if p.inOrder && p.headsPerChunk == 1 {
		p.blocks, p.spanRows = Segment/Block, inPlaceRows
	}
	if p.inOrder && few && steps || p.oneStream {
		p.keys.pagedRows, p.values.pagedRows = inPlaceRows, inPlaceRows
	}
	p.decidePages(t, &p.keys, &p.k)
	p.decidePages(t, &p.values, &p.v)
	if !steps || p.keys.pagedRows == 0 || p.values.pagedRows == 0 {
		return
	}
	p.step = 2 * panel
	stepBytes := p.step * 4 * max(p.k.SL, p.v.SL)
	if few && !(p.inOrder && stepBytes <= t.PrefetchBytes()) {
		p.step = panel // packing takes longer for fewer keys at a time: for rows that do not pack
	}
}

// decidePages says whether the rows of a view are prefetched along a pointer: if a head's rows
// follow each other, unless the processor fetches these by itself, or the tokens of all heads,
// which then share in that.
func (p *plan) decidePages(t *tuning.Row, to *placement, x *Tensor) {
	switch {
	case x.SL == x.D && !p.inOrder:
	case p.headsPerChunk == x.H && p.tokensContiguous(t, x):
		to.shared = true
	default:
		to.pagedRows = 0
	}
}

// bytesOf is how much memory some keys and their values are: in float64, because with repeated
// elements the product may overflow an int.
func (p *plan) bytesOf(keys float64) float64 {
	bits := 32 * float64(p.d+p.dv)
	if s := p.packed; s != nil {
		if bits = float64(s.K.Bits) * float64(p.d); !s.ValuesInKeys {
			bits += float64(s.V.Bits) * float64(p.dv)
		}
	}
	return keys * bits / 8
}

// work is what some rows of a key/value head take: operations, of which a multiply-add is two, and
// bytes of keys and values. The first shared keys are read for other rows.
func (p *plan) work(c *chunk, shared int) (flops, bytes float64) {
	if p.listed {
		return p.listWork(c)
	}
	_, first := p.locate(0, c.row)
	_, last := p.locate(0, c.row+c.rows-1)
	queries := last - first + 1
	// The keys that query i sees end before position+i+1, or right of that, and begin left of it.
	pairs := float64(queries) * float64(c.keys-c.from)
	if right := p.right; p.causal != Full || right >= 0 {
		if p.causal != Full {
			right = 0
		}
		pairs = sumClamped(c.position+first+right+1, queries, c.from, c.keys) - float64(queries*c.from)
	}
	if p.left >= 0 {
		pairs -= sumClamped(c.position+first-p.left, queries, c.from, c.keys) - float64(queries*c.from)
	}
	pairs *= float64(c.rows) / float64(queries)
	read := max(0, c.hi-max(c.lo, shared))
	return 2 * pairs * float64(p.d+p.dv), p.bytesOf(float64(read))
}

// listWork is plan.work where rows have lists.
func (p *plan) listWork(c *chunk) (flops, bytes float64) {
	keys, lists := float64(p.lists.D), partsOf(c.rows, p.rowsPerList())
	return 2 * float64(c.rows) * keys * float64(p.d+p.dv), p.bytesOf(float64(lists) * keys)
}

// sumClamped is the sum of n numbers that ascend by one from first on, each brought into [lo, hi].
func sumClamped(first, n, lo, hi int) float64 {
	below := min(max(0, lo-first), n)
	above := min(max(0, first+n-1-hi), n-below)
	inside := n - below - above
	begin := first + below // of those inside
	return float64(below)*float64(lo) + float64(above)*float64(hi) +
		float64(inside)*(float64(begin)+float64(inside-1)/2)
}

// cost estimates the nanoseconds of the call on one core.
func (p *plan) cost(t *tuning.Row) float64 {
	var flops, bytes float64
	var c chunk
	add := func(times int) {
		f, b := p.work(&c, 0)
		flops += float64(times) * float64(p.kvHeads) * f
		bytes += float64(times) * float64(p.kvHeads) * b
	}
	if s := p.sequences; s != nil {
		for i := range s.sequences {
			if x := &s.sequences[i]; x.queries > 0 {
				p.rowsOfSequence(&c, x, 0, 0, x.queries*p.group)
				add(1)
			}
		}
		return t.Cost(flops, bytes)
	}
	entries, times := p.batch, 1
	if p.queryLens == nil && p.keyLens == nil {
		entries, times = 1, p.batch
	}
	for b := range entries {
		c = chunk{}
		if c.rows = p.entry(b, &c); c.rows > 0 {
			p.bound(&c)
			add(times)
		}
	}
	return t.Cost(flops, bytes)
}
