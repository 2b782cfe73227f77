package attn

// What will be needed soon is requested from memory while there is something to
// compute: packing and scaling would wait for it otherwise.

// course is what comes behind the block at hand.
type course struct {
	end   int   // of the keys of the chunk at hand
	next  chunk // the chunk behind it; no rows if there is none
	first int   // first block of keys of that
}

// firstQueries is how many queries of the next chunk are requested; from there on
// the processor has seen that they are read in order.
const firstQueries = 256

// expect notes what comes: chunk c, and then chunk next of the call, if there is one.
func (w *scratch) expect(p *plan, c *chunk, next int) {
	_, end := p.chunkKeys(c)
	w.course.end, w.course.next.rows = end, 0
	if next < p.items() {
		w.course.next, _ = p.chunk(next)
	}
	if w.course.next.rows > 0 {
		lo, _ := p.chunkKeys(&w.course.next)
		w.course.first = lo / Block * Block
	}
}

// prefetch asks for the next block's keys and values, and in the last block for the
// first ones of the next chunk and its queries: after rows [from, to) of chunk c for the
// same part of them, so that the requests are spread over the time that a block takes.
func (o *course) prefetch(p *plan, c *chunk, first, from, to int) {
	if p.cache != nil || c.rows <= rawRows {
		return
	}
	if first += Block; first < o.end {
		p.prefetchKeys(c, first, part{from, to, c.rows})
	} else if o.next.rows > 0 {
		p.prefetchKeys(&o.next, o.first, part{from, to, c.rows})
		p.prefetchQueries(&o.next, part{from, to, c.rows})
	}
}

// part is from/of up to to/of of something.
type part struct{ from, to, of int }

// cut returns that part of n elements.
func (a part) cut(n int) (from, to int) { return n * a.from / a.of, n * a.to / a.of }

// prefetchKeys asks for a part of the keys and values of the block at key first.
func (p *plan) prefetchKeys(c *chunk, first int, a part) {
	from, to := a.cut(min(Block, c.keys-first))
	if from < to {
		prefetch(p.k.Data[p.k.offset(c.b, c.kv, first+from):], p.k.SL, to-from, p.d)
		prefetch(p.v.Data[p.v.offset(c.b, c.kv, first+from):], p.v.SL, to-from, p.dv)
	}
}

// prefetchQueries asks for a part of the chunk's queries, if they are in one place.
func (p *plan) prefetchQueries(c *chunk, a part) {
	from, to := a.cut(min(firstQueries, c.rows))
	if from < to && p.group == 1 {
		prefetch(p.q.Data[p.q.offset(c.b, c.kv, c.row+from):], p.q.SL, to-from, p.d)
	}
}
