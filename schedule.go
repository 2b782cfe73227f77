package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/int4"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Sizes by which calls are divided. They are measured, see docs/decisions; no result depends on
// them.
const (
	// Up to denseRows rows read the caller's values in place if these are at most denseStride apart.
	// With a larger stride the L1 cache holds only packed values, and for more rows packing is worth
	// its cost.
	denseRows   = 256
	denseStride = 64

	// Up to copyKeys keys, queries are read in place if their layout allows it. With more keys each
	// query is read so often that a copy in scratch is worth its cost.
	copyKeys = 4 * Block

	// Up to stepRows rows of all heads of a chunk process a block in steps: their scores are all kept.
	stepRows = 256

	// Up to stepHeadRows rows of one head do so: with more, computing is slower than memory, and steps
	// cost more than they save.
	stepHeadRows = 32

	// Up to fullPackedRows rows process several blocks of a cache or store in one span: with more, the
	// time between kernels is not worth saving.
	fullPackedRows = 16

	// Up to pagedPanelRows rows read panels of a cache or store page by page, where reads are queued:
	// more rows compute longer than they wait.
	pagedPanelRows = 24

	// maxTasks is the largest number of tasks a worker that even shares are worth.
	maxTasks = 16

	// evenRows divides the rows of a chunk. With a larger number the last chunk would be smaller.
	evenRows = 4

	// minChunkRows is the size of the smallest chunks into which the rows of a head are divided: whole
	// tiles of the kernel, and enough rows to pay for packing the keys once more.
	minChunkRows = 24

	// Views are quantized once a call if that saves at least onceShare of its time, and onceWait
	// nanoseconds for each worker, which may have to wait that long for the last one. Quantizing once
	// costs as much as for onceAs chunks, because nothing else is computed meanwhile, so all workers
	// wait for memory.
	onceShare, onceWait, onceAs = 0.015, 15e3, 2

	// integersAgain rows of a chunk cost as much as quantizing its keys and values.
	integersAgain = 24

	// onceBytes bounds the memory of keys and values that are packed once a call.
	onceBytes = 32 << 20

	// segmentBytes bounds the memory of states of segments that are not merged yet.
	segmentBytes = 64 << 20
)

// decide sets the schedule of a validated call for some workers. Everything that depends on the CPU
// comes from the tuning. Chunks have as many rows as the cache holds, or fewer if the number of
// chunks stays the same.
func (p *plan) decide(t *tuning.Row, workers int) {
	if p.once != nil && p.packsOnce(t, workers) {
		*p.once = packed.New(kernel.I8, kernel.I8, p.kvHeads, p.d, p.dv, false)
		if p.once.Fits(p.batch, partsOf(p.lk, Block), onceBytes/4) {
			p.packed = p.once // like a call over a cache
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

// packsOnce reports whether workers first quantize the keys and values of views together: if
// several workers have chunks of the same head, each would quantize all of its keys again, and that
// is slower than waiting once for all workers.
func (p *plan) packsOnce(t *tuning.Row, workers int) bool {
	// perhaps most blocks, which nobody reads
	hides := p.mask.Data != nil || p.blocked.Data != nil || p.bias.Data != nil
	if !p.integers || p.packed != nil || p.listed || hides || p.sequences != nil ||
		p.update || min(p.d, p.dv, p.lq) == 0 {
		return false
	}
	perHead := partsOf(workers*tuning.TasksPerWorker, p.batch*p.kvHeads)
	saved := min(perHead, workers) - onceAs
	saves := float64(saved*integersAgain) / float64(p.lq*p.group)
	return saves >= onceShare && saves*p.cost(t) >= onceWait*float64(workers)
}

// beginSchedule sets the fields that do not depend on the division of the call, and returns how
// many rows of a chunk the cache holds with a packed block and a tile of scores: whole tiles, since
// the few rows of a partial tile are slower.
func (p *plan) beginSchedule(t *tuning.Row, workers int) (rows int) {
	p.schedule = schedule{workers: workers, segments: 1, headsPerChunk: 1, tileRows: t.TileRows,
		blocks: 1, step: Block, oStride: kernel.RoundUp(p.dv, panel),
		looks: p.mask.Data != nil || p.biased && !p.near.Shows || p.blocked.Data != nil,
		ahead: t.PrefetchInt8,
		bytes: p.bytesOf(float64(p.batch) * float64(p.kvHeads) * float64(p.lk-p.first))}
	p.plain = !p.natural && !p.looks
	if max(p.d, p.dv) > tuning.TileDim {
		p.tileRows = minTileRows
	}
	switch {
	case p.integers:
		p.keyKind = kindIntegers
	case p.bfloat16:
		p.keyKind = kindPairs
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
	case p.packed == nil || p.bfloat16:
	case p.packed.ValuesInKeys:
		p.valueKind = kindLatent
		states = 1 // of a segment: the second one is used only after every 16 blocks
	case p.keyKind == kindPanels && p.packed.V.Format != kernel.F32:
		p.valueKind = kindBits
	}
	const factors = 6 // maxima and sums of both states, alpha and beta
	block := Block*(p.d+p.oStride) + maxTileRows*Block
	if p.bfloat16 { // and their pairs, and sums of a tile
		block += block/2 + p.tileRows*p.oStride
	}
	rows = (t.ScratchBytes()/4 - block) / (p.d + states*p.oStride + factors)
	return max(minTileRows, rows/p.tileRows*p.tileRows)
}

// headsBeside returns the number of key/value heads that read memory together, with at most that
// many rows. If few rows read keys or values next to other heads', as in BLHD views, each
// head by itself would read each page again, long after the translation of its address was evicted.
func (p *plan) headsBeside(t *tuning.Row, rows int) int {
	distance := max(p.k.SH, p.v.SH)
	if p.chunkRows > t.FewRows || distance >= min(p.k.SL, p.v.SL) {
		return 1
	}
	heads := rows / p.chunkRows
	inOrder, oneStream := t.Streams(p.bytes, p.chunkRows, max(p.d, p.dv))
	shares := t.Reads == tuning.PagedReads || // each head prefetches a share of all heads' tokens
		(inOrder || oneStream) && p.chunkRows <= inPlaceRows && p.hasSteps(p.kvHeads)
	if shares && p.kvHeads <= heads &&
		p.tokensContiguous(t, &p.k) && p.tokensContiguous(t, &p.v) {
		return p.kvHeads
	}
	return max(1, min(p.kvHeads, heads, kernel.PageBytes/4/max(1, distance)))
}

// tokensContiguous reports whether the heads of a token and the tokens are contiguous. Prefetched
// tokens are read a block or a step later; blocks of keys or values larger than the L2 cache have
// not been tried.
func (p *plan) tokensContiguous(t *tuning.Row, x *Tensor) bool {
	keys := Block
	if p.hasSteps(x.H) {
		keys = 2 * panel
	}
	return x.SH == x.D && x.SL == x.H*x.D && x.SL <= t.L2/(2*4*keys)
}

// hasSteps reports whether some heads together have few enough rows for steps.
func (p *plan) hasSteps(heads int) bool {
	return heads > 1 && p.chunkRows <= stepHeadRows &&
		heads <= stepRows && heads*p.chunkRows <= stepRows
}

// partition divides the call among workers: prefill, with many rows, into smaller chunks of rows,
// and decoding, with few, into segments of keys.
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
		p.headsPerChunk /= 2 // two tasks for each worker, or single heads
		p.countChunks()
	}
	// nearly full rounds need no better division
	if p.chunks < want || 10*workers*partsOf(p.chunks, workers) > 11*p.chunks {
		p.chooseChunks(workers, first, segments)
	}
}

// chooseChunks chooses the number of chunks of the rows of a head, at least the current one, and
// whether workers compute their segments one by one, so that the estimated time is shortest.
func (p *plan) chooseChunks(workers, first, segments int) {
	fewer := 1.
	if p.causal == Full {
		fewer = 0.98 // the least gain of more chunks, which need more time in all
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
		const merging = 1.04 // relative cost of a chunk with its segments
		each *= merging / float64(segments)
		if t := tuning.Makespan(tasks*segments, workers, each, mean); t < fewer*shortest {
			shortest, rows, p.segment, p.segments = t, p.chunkRows, first, segments
		}
	}
	p.chunkRows = rows
	p.countChunks()
}

// againRows is the work that is repeated for each chunk, in rows of the same cost: packing its
// keys, quantizing or unpacking them.
func (p *plan) againRows() int {
	again := 12
	switch {
	case p.lq*p.group <= inPlaceRows:
		return 0
	case p.valueKind == kindLatent || p.bfloat16:
		again = 16
	case p.packed != nil:
		again = 4
	case p.integers:
		again = integersAgain
	}
	if p.causal != Full { // also for a block of keys that rows see only in part
		again += 8
	}
	return again
}

// meanShare returns the mean work of a chunk, relative to a chunk that sees all keys.
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

// partitionLists is partition where rows have lists: rows share the gathered keys, so they are
// divided only if workers would be idle otherwise.
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

// packingTasks returns the number of tasks of packing, see packKeys.
func (p *plan) packingTasks() int { return p.batch * p.kvHeads * partsOf(p.lk, packedRun) }

// packingCost estimates the nanoseconds of packing on one core: reading views, and reading and
// writing blocks.
func (p *plan) packingCost(t *tuning.Row) float64 {
	return t.Cost(0, 3*4*float64(p.batch*p.kvHeads)*float64(p.lk)*float64(p.d+p.dv))
}

// alignRows returns how many of up to rows rows make a chunk, whose rows must share a list.
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

// decideReads decides how chunks read their queries, keys and values, and the size of spans.
func (p *plan) decideReads(t *tuning.Row) {
	p.decideKernels(t)
	if p.listed {
		return // gathered keys are in the cache, for few rows as for many
	}
	p.decidePrefetch(t)
	switch {
	case p.keyKind == kindViews:
		p.decideViews(t)
	case p.bfloat16: // a block's pairs are made for all rows
	case p.packed == nil || !p.plain: // one block after another
	case p.keyKind != kindPanels || p.valueKind == kindBits:
		p.blocks, p.spanRows = Segment/Block, narrow.MaxRows
	case p.full || p.packed.ValuesInKeys:
		p.blocks, p.spanRows = Segment/Block, fullPackedRows
	}
}

// decideKernels decides which operands kernels read in place: queries that need no preparation and
// are read a few times; whole blocks, computed as full tiles; and for few rows elements of fewer
// bits and codes.
func (p *plan) decideKernels(t *tuning.Row) {
	queries, few := p.lq, p.lk <= copyKeys || p.chunkRows <= inPlaceRows
	if s := p.sequences; s != nil {
		few = s.Keys <= copyKeys || p.chunkRows <= inPlaceRows
		queries, few = s.Longest, few && !s.SharesPrefixes()
	}
	lieAsRead := p.group == 1 && p.q.SL == p.d || queries == 1 && p.q.SH == p.d
	p.queriesInPlace = few && lieAsRead && !p.flip && !p.integers && !p.bfloat16 &&
		!(p.packed != nil && p.packed.Rotates)
	// full tiles need only assembly for scores, softmax and values, in calls that are not split
	rows, cols := min(p.tileRows, p.chunkRows), kernel.RoundUp(p.dv, 8)
	p.full = !p.natural && !p.integers && !p.bfloat16 &&
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

// decidePrefetch decides in which order few rows read memory, whether along a pointer, and how far
// ahead they prefetch.
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
		if p.chunkRows > 1 || p.packed.K.Format == p.packed.V.Format { // otherwise it is slower
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

// decideViews decides where keys and values of views are read. Keys in rows are transposed in
// registers, which from a few queries on is as slow as packing. Values in rows can be read in
// place, which pays for more rows if rows of values are close together, or are prefetched in time.
// Heads that read memory together alternate after each step of keys.
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
		p.step = panel // packing is slower for fewer keys at a time: for rows that do not pack
	}
}

// decidePages decides whether the rows of a view are prefetched along a pointer: if a head's rows
// are contiguous, unless the processor prefetches these by itself, or if the tokens of all heads
// are, which then share the prefetching.
func (p *plan) decidePages(t *tuning.Row, to *placement, x *Tensor) {
	switch {
	case x.SL == x.D && !p.inOrder:
	case p.headsPerChunk == x.H && p.tokensContiguous(t, x):
		to.shared = true
	default:
		to.pagedRows = 0
	}
}

// bytesOf returns the bytes of some keys and their values, in float64, because with repeated
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

// work returns the cost of some rows of a key/value head: operations, two for each multiply-add,
// and bytes of keys and values. The first shared keys are read by other rows.
func (p *plan) work(c *chunk, shared int) (flops, bytes float64) {
	if p.listed {
		return p.listWork(c)
	}
	_, first := p.locate(0, c.row)
	_, last := p.locate(0, c.row+c.rows-1)
	queries := last - first + 1
	// The keys that query i sees end before position+i+1, or right keys later, and begin left keys
	// before that.
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

// sumClamped returns the sum of the n numbers from first on, each clamped to [lo, hi].
func sumClamped(first, n, lo, hi int) float64 {
	below := min(max(0, lo-first), n)
	above := min(max(0, first+n-1-hi), n-below)
	inside := n - below - above
	begin := first + below // the first number inside
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
		for i := range s.Sequences {
			if x := &s.Sequences[i]; x.Queries > 0 {
				p.rowsOfSequence(&c, x, 0, 0, x.Queries*p.group)
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
