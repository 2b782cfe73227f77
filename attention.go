package attn

import "github.com/seed-1415985d/attn/internal/f32"

// Attend computes dst = softmax(scale·QKᵀ + …)·V on the calling goroutine. It
// allocates only when the scratch memory that calls share has to grow: to nearly an L2
// cache for each goroutine that is in a call, or to some 448·D + 640·Dv bytes if that is more.
//
//	q   [B, H, Lq, D]
//	k   [B, KVH, Lk, D]     KVH divides H; head h reads key/value head h/(H/KVH)
//	v   [B, KVH, Lk, Dv]
//	dst [B, H, Lq, Dv]
//
// D and Dv may be 1 to 2²⁸, the other sizes 0 to 2²⁸. Strides are any numbers from 0. Of dst, from
// the least stride up, each must step over all that is inside it, so that no two elements coincide.
// dst must not share memory with an input (see [ErrOverlap]); inputs may share memory with each
// other. A row without a live key is zero. If the arguments are invalid, Attend returns an error
// that names the argument and has written nothing.
//
// The result's bits depend on nothing but the row's own query, its live keys and values, their
// absolute positions and the options: not on the CPU, the batch, the strides, or the way
// queries are split over calls.
func Attend(dst, q, k, v Tensor, opt *Options) error {
	p := newPlan(dst, q, k, v, opt)
	if err := p.init(opt); err != nil {
		return err
	}
	p.attend()
	return nil
}

// attend computes a validated call on the calling goroutine.
func (p *plan) attend() {
	if p.dst.empty() {
		return
	}
	p.fitRows()
	w := scratches.Get().(*scratch)
	w.fit(p)
	for i := range p.items() {
		w.item(p, i, i+1)
	}
	scratches.Put(w)
}

// A chunk is the unit of work: rows of queries that share a key/value head.
// Row r of batch entry b and head kv is query r/group of query head
// kv·group + r%group, so that the heads of a group share each key they load,
// and the rows of a tile are near each other in position.
//
// A chunk may be of several key/value heads (see plan.headsPerChunk). Then each of them has these rows.
type chunk struct {
	b         int
	kv, heads int // the first key/value head, and their number
	row, rows int
	at        int // the first row's place in scratch
	position  int // of query 0 of the batch entry among the keys
	keys      int // length of the batch entry's keys
}

// head returns the part of the chunk that is its i-th head's: in h, if there are several.
func (c *chunk) head(i int, h *chunk) *chunk {
	if c.heads == 1 {
		return c // a copy is felt in small calls
	}
	*h = *c
	h.kv, h.heads, h.at = c.kv+i, 1, i*c.rows
	return h
}

// allRows is the number of rows in scratch.
func (c *chunk) allRows() int { return c.heads * c.rows }

// items is the number of chunks of the call.
func (p *plan) items() int { return p.batch * p.chunksOfHeads() * p.chunksPerHead() }

// chunksOfHeads is the number of chunks that all heads of a batch entry make.
func (p *plan) chunksOfHeads() int {
	if p.headsPerChunk == 1 {
		return p.kvHeads // divisions are felt in small calls
	}
	return (p.kvHeads + p.headsPerChunk - 1) / p.headsPerChunk
}

func (p *plan) chunksPerHead() int {
	return (p.lq*p.group + p.chunkRows - 1) / p.chunkRows
}

// item computes chunk i of the call. The caller's next one is next, or not less than
// the number of items.
func (w *scratch) item(p *plan, i, next int) {
	var c chunk
	if masked := p.chunk(i, &c); masked > 0 {
		p.clearRows(&c, masked)
	}
	if c.rows > 0 {
		w.attend(p, &c, next)
	}
}

// chunk makes c chunk i of the call. It returns the number of rows of each head that belong to the chunk, too,
// but are behind the batch entry's query length; c has only those before.
func (p *plan) chunk(i int, c *chunk) (masked int) {
	per, headsPerChunk := p.chunksPerHead(), p.chunksOfHeads()
	c.b, c.kv, c.row = i/per/headsPerChunk, i/per%headsPerChunk*p.headsPerChunk, i%per*p.chunkRows
	c.heads, c.at = min(p.headsPerChunk, p.kvHeads-c.kv), 0
	c.position, c.keys = p.position(c.b), p.keyLen(c.b)
	rows := min(p.chunkRows, p.lq*p.group-c.row)
	c.rows = min(rows, max(0, p.queryLen(c.b)*p.group-c.row))
	return rows - c.rows
}

// locate returns the query head and query index of a row.
func (p *plan) locate(kv, row int) (h, i int) {
	if p.group == 1 {
		return kv, row // a division a row is felt, too
	}
	return kv*p.group + row%p.group, row / p.group
}

// clearRows writes the result of n rows of each head without keys, those behind the chunk's.
func (p *plan) clearRows(c *chunk, n int) {
	for r := range c.heads * n {
		h, i := p.locate(c.kv+r/n, c.row+c.rows+r%n)
		clear(p.dst.row(c.b, h, i))
		if p.lse != nil {
			p.lse[(c.b*p.heads+h)*p.lq+i] = negInf
		}
		if p.weights.Data != nil {
			clear(p.weights.row(c.b, h, i))
		}
	}
}

// attend computes the rows of one chunk; next is the caller's next one.
func (w *scratch) attend(p *plan, c *chunk, next int) {
	w.loadQueries(p, c)
	w.prefetchNext(p, next)
	lo, hi := p.chunkKeys(c)
	total := &w.total
	if lo == hi {
		total.reset(c.allRows(), p.oStride())
	}
	for first := lo; first < hi; {
		end := min(hi, (first/Segment+1)*Segment)
		if first == lo { // the empty state is the identity: no need to merge
			total.begin(c.allRows())
			w.segment(p, c, total, first, end)
		} else {
			w.part.begin(c.allRows())
			w.segment(p, c, &w.part, first, end)
			w.merge(total, &w.part, c.allRows(), p.oStride())
		}
		first = end
	}
	w.finish(p, c, lo, hi)
}

// loadQueries scales the queries of the chunk once for all keys.
func (w *scratch) loadQueries(p *plan, c *chunk) {
	w.next.rows = 0 // unless the caller expects one
	var h chunk
	for g := range c.heads {
		w.loadHead(p, c.head(g, &h))
	}
}

// loadHead scales the queries of one head's rows.
func (w *scratch) loadHead(p *plan, c *chunk) {
	q := w.q[c.at*p.d:]
	if p.group == 1 && p.q.SL == p.d { // one run of memory
		at := p.q.offset(c.b, c.kv, c.row)
		scale(q, p.q.Data[at:at+c.rows*p.d], p.scale)
		return
	}
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		scale(q[r*p.d:], p.q.row(c.b, h, i), p.scale)
	}
}

// chunkKeys returns the keys that some row of the chunk sees by position.
func (p *plan) chunkKeys(c *chunk) (lo, hi int) {
	lo, _ = p.keyRange(c, c.row/p.group)
	_, hi = p.keyRange(c, (c.row+c.rows-1)/p.group)
	return lo, max(lo, hi)
}

// segment adds keys [lo, hi) of one segment to a state.
func (w *scratch) segment(p *plan, c *chunk, st *state, lo, hi int) {
	var h chunk
	for lo < hi {
		first := lo / Block * Block
		end := min(hi, first+Block)
		if n := p.blocksInSeries(c, lo, hi); n > 1 {
			w.series(p, c, st, lo, n)
			end = lo + n*Block
		} else if n := p.plainBlocks(c, lo, hi); n > 0 {
			w.onlyKernels(p, c, st, lo, n)
			end = lo + n*Block
		} else if p.inParts(c, first, lo, end) {
			w.blockInParts(p, c, st, first)
		} else {
			for g := range c.heads {
				w.block(p, c.head(g, &h), st, first, lo, end)
			}
		}
		st.overwrite = false
		lo = end
	}
}

// merge puts part, whose keys follow total's, into total.
func (w *scratch) merge(total, part *state, rows, oStride int) {
	mergeSums(total.m[:rows], total.l, part.m, part.l, w.alpha, w.beta)
	for r := range rows {
		merge(total.o[r*oStride:], part.o[r*oStride:][:oStride], w.alpha[r], w.beta[r])
	}
}

// finish writes the results of the chunk, whose keys are [lo, hi).
func (w *scratch) finish(p *plan, c *chunk, lo, hi int) {
	var h chunk
	for g := range c.heads {
		w.finishHead(p, c.head(g, &h), lo, hi)
	}
}

// finishHead writes the results of one head's rows.
func (w *scratch) finishHead(p *plan, c *chunk, lo, hi int) {
	if p.lse != nil {
		w.writeLSE(p, c)
	}
	if p.sinks != nil {
		w.mergeSinks(p, c)
	}
	total, step := &w.total, 1
	if p.group == 1 {
		step = c.rows // they follow each other in dst, too
	}
	for r := 0; r < c.rows; r += step {
		h, i := p.locate(c.kv, c.row+r)
		o, l := total.o[(c.at+r)*p.oStride():], total.l[c.at+r:]
		normalize(p.dst.Data[p.dst.offset(c.b, h, i):], o, l, step, p.dv, p.dst.SL, p.oStride())
	}
	if p.weights.Data != nil {
		w.writeWeights(p, c, lo, hi)
	}
}

func (w *scratch) writeLSE(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		p.lse[(c.b*p.heads+h)*p.lq+i] = w.total.logSum(c.at + r)
	}
}

// logSum is the log-sum-exp of row r.
func (s *state) logSum(r int) float32 { return s.m[r] + f32.Log(s.l[r]) }

// mergeSinks merges each row with a state of maximum sink, sum 1 and output 0. Rows without live
// keys stay empty, whatever the sink.
func (w *scratch) mergeSinks(p *plan, c *chunk) {
	for r := range c.rows {
		h, _ := p.locate(c.kv, c.row+r)
		w.part.m[r], w.part.l[r] = p.sinks[h], 1
		if w.total.l[c.at+r] == 0 {
			w.part.m[r] = negInf
		}
	}
	clear(w.part.o[:p.oStride()])
	mergeSums(w.total.m[c.at:][:c.rows], w.total.l[c.at:], w.part.m, w.part.l, w.alpha, w.beta)
	for r := range c.rows {
		merge(w.total.o[(c.at+r)*p.oStride():], w.part.o[:p.oStride()], w.alpha[r], w.beta[r])
	}
}

// writeWeights computes the scores again, now that the final maximum and sum are known.
func (w *scratch) writeWeights(p *plan, c *chunk, lo, hi int) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		clear(p.weights.row(c.b, h, i))
	}
	for lo < hi {
		first := lo / Block * Block
		end := min(hi, first+Block)
		w.weightsBlock(p, c, first, lo, end)
		lo = end
	}
}
