package attn

import "github.com/seed-1415985d/attn/internal/f32"

// attend computes a validated and scheduled call on the calling goroutine.
func (p *plan) attend() {
	w := scratches.Get().(*scratch)
	w.attendAll(p)
	scratches.Put(w)
}

// attendAll computes all chunks of a call.
func (w *scratch) attendAll(p *plan) {
	w.fit(p)
	for i := range p.chunks() {
		w.item(p, i, i+1)
	}
}

// item computes chunk i of the call. The caller's next one is next, or not less than
// the number of chunks.
func (w *scratch) item(p *plan, i, next int) {
	var c chunk
	if padding := w.chunk(p, i, &c); padding > 0 {
		p.clearRows(&c, padding)
	}
	if c.rows > 0 {
		w.attend(p, &c, next)
	}
}

// chunk makes c chunk i of the call, and returns how many rows of each head come after it that see nothing.
func (w *scratch) chunk(p *plan, i int, c *chunk) (padding int) {
	if p.ragged == nil {
		return p.chunk(i, c)
	}
	w.members = p.sequenceChunk(i, c, w.members)
	return 0
}

// clearRows writes the result of n rows of each head without keys, those after the chunk's.
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
	if p.ragged == nil {
		w.prefetchNext(p, next)
	}
	if c.hi > (c.lo/Segment+1)*Segment {
		w.attendSegments(p, c)
	} else if c.lo == c.hi {
		w.total.reset(c.allRows(), p.oStride)
	} else {
		w.total.begin(c.allRows())
		w.keys(p, c, &w.total, c.lo, c.hi)
	}
	w.finish(p, c)
}

// attendSegments computes the keys of several segments, and merges them.
func (w *scratch) attendSegments(p *plan, c *chunk) {
	w.tree.begin()
	for first := c.lo; first < c.hi; {
		end := min(c.hi, (first/Segment+1)*Segment)
		w.part.begin(c.allRows())
		w.keys(p, c, &w.part, first, end)
		w.push(first/Segment, c.allRows(), p.oStride, p.c)
		first = end
	}
	w.fold(c.allRows(), p.oStride, p.c)
}

// loadQueries copies the queries of the chunk to where kernels read them, unless they lie in memory so.
func (w *scratch) loadQueries(p *plan, c *chunk) {
	w.next.rows = 0 // unless the caller has one
	w.queue.clear() // unless there are enough rows for a queue
	if p.queriesInPlace {
		return
	}
	if c.several {
		for i := range w.members {
			w.loadHead(p, &w.members[i].chunk)
		}
		return
	}
	var h chunk
	for g := range c.heads {
		w.loadHead(p, c.head(g, &h))
	}
}

// loadHead copies the queries of one head's rows.
func (w *scratch) loadHead(p *plan, c *chunk) {
	q := w.q[c.at*p.d:][:c.rows*p.d]
	if p.group == 1 && p.q.SL == p.d { // one run of memory
		copy(q, p.q.Data[p.q.offset(c.b, c.kv, c.row):])
	} else {
		for r := range c.rows {
			h, i := p.locate(c.kv, c.row+r)
			copy(q[r*p.d:][:p.d], p.q.row(c.b, h, i))
		}
	}
	if p.flip {
		scale(q, q, -1)
	}
	if p.packed != nil && p.packed.rotation > 1 {
		rotate(q, c.rows, p.d, p.d, p.packed.rotation)
	}
}

// finish writes the results of the chunk.
func (w *scratch) finish(p *plan, c *chunk) {
	if c.several {
		for i := range w.members {
			w.finishHead(p, &w.members[i].chunk)
		}
		return
	}
	var h chunk
	for g := range c.heads {
		w.finishHead(p, c.head(g, &h))
	}
}

// finishHead writes the results of one head's rows.
func (w *scratch) finishHead(p *plan, c *chunk) {
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
		o, l := total.o[(c.at+r)*p.oStride:], total.l[c.at+r:]
		normalize(p.dst.Data[p.dst.offset(c.b, h, i):], o, l, step, p.dv, p.dst.SL, p.oStride)
	}
	if p.weights.Data != nil {
		w.writeWeights(p, c)
	}
}

func (w *scratch) writeLSE(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		m, l := w.total.m[c.at+r], w.total.l[c.at+r]
		p.lse[(c.b*p.heads+h)*p.lq+i] = f32.FMA(m, p.unit, f32.Log(l))
	}
}
