package attn

import "github.com/seed-1415985d/attn/internal/f32"

// attend computes a validated and scheduled call on the calling goroutine.
func (p *plan) attend() {
	w := scratches.Get().(*scratch)
	w.attend(p)
	scratches.Put(w)
}

// attend computes all chunks of a call.
func (w *scratch) attend(p *plan) {
	w.fit(p)
	for i := range p.chunks {
		w.attendChunk(p, i, i+1)
	}
}

// attendChunk computes chunk i of the call. The caller's next one is next, or not less than the
// number of chunks.
func (w *scratch) attendChunk(p *plan, i, next int) {
	var c chunk
	if p.sequences != nil {
		w.prefix = p.sequenceChunk(i, &c, w.prefix)
	} else if padding := p.chunk(i, &c); padding > 0 {
		p.clearRows(&c, padding)
	}
	if c.rows == 0 {
		return
	}
	w.loadQueries(p, &c)
	if c.rows > inPlaceRows && p.sequences == nil && next < p.chunks { // as for prefetchTokens
		p.chunk(next, &w.next)
	}
	switch {
	case c.lo == c.hi:
		w.total.reset(c.allRows(), p.oStride)
	case c.hi <= (c.lo/Segment+1)*Segment:
		w.total.begin(c.allRows())
		w.addSegment(p, &c, &w.total, c.lo, c.hi)
	default:
		w.addSegments(p, &c)
	}
	w.finish(p, &c)
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

// addSegments computes the keys of several segments, and merges them.
func (w *scratch) addSegments(p *plan, c *chunk) {
	w.tree.begin()
	for first := c.lo; first < c.hi; {
		end := min(c.hi, (first/Segment+1)*Segment)
		w.part.begin(c.allRows())
		w.addSegment(p, c, &w.part, first, end)
		w.push(p, first/Segment, c.allRows())
		first = end
	}
	w.fold(p, c.allRows())
}

// loadQueries copies the queries of the chunk to where kernels read them, unless they lie in memory
// so.
func (w *scratch) loadQueries(p *plan, c *chunk) {
	w.next.rows = 0 // unless the caller has one
	w.queue.clear() // unless there are enough rows for a queue
	w.int8.bad = w.int8.bad[:0]
	if p.queriesInPlace {
		return
	}
	if c.prefixes {
		for i := range w.prefix {
			w.loadHead(p, &w.prefix[i].chunk)
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
	if p.int8 && p.group == 1 {
		copyRows(q, p.q.Data[p.q.offset(c.b, c.kv, c.row):], c.rows, p.d, p.q.SL)
	} else if p.group == 1 && p.q.SL == p.d { // one run of memory
		copy(q, p.q.Data[p.q.offset(c.b, c.kv, c.row):])
	} else {
		for r := range c.rows {
			h, i := p.locate(c.kv, c.row+r)
			copy(q[r*p.d:][:p.d], p.q.Data[p.q.offset(c.b, h, i):])
		}
	}
	if p.flip {
		scale(q, q, -1)
	}
	p.rotateQueries(q)
	if p.int8 {
		w.int8.quantizeQueries(p, c, q)
	}
}

// rotateQueries rotates rows that follow each other as the call's keys are rotated.
func (p *plan) rotateQueries(q []float32) {
	switch rotation := p.d & -p.d; {
	case p.packed != nil && p.packed.rotates:
		p.packed.rotate(q)
	case p.packed == nil && p.int8 && rotation > 1:
		rotateAll(q, rotation)
	}
}

// finish writes the results of the chunk.
func (w *scratch) finish(p *plan, c *chunk) {
	if c.prefixes {
		for i := range w.prefix {
			w.finishHead(p, &w.prefix[i].chunk)
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
	if p.unrotate > 1 {
		rotate(total.o[c.at*p.oStride:], c.rows, p.oStride, p.dv, p.unrotate)
	}
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
		unit := p.unit
		if p.int8 {
			unit = w.unitOf(p, c.at+r)
		}
		p.lse[(c.b*p.heads+h)*p.lq+i] = f32.FMA(m, unit, f32.Log(l))
	}
}
