package attn

// A chunk is the unit of work: rows of queries that share a key/value head.
// Row r of batch entry b and head kv is query r/group of query head
// kv·group + r%group, so that the heads of a group share each key they load,
// and the rows of a tile are near each other in position.
//
// A chunk may be of several key/value heads (see schedule.headsPerChunk). Then each of them has these rows.
type chunk struct {
	b         int
	kv, heads int // the first key/value head, and their number
	row, rows int
	at        int // the first row's place in scratch
	position  int // of query 0 of the batch entry among the keys
	keys      int // length of the batch entry's keys

	lo, hi       int // keys [lo, hi) are seen by some row, by position
	allLo, allHi int // keys [allLo, allHi) are seen by every row
}

// head makes h the part of the chunk that is its i-th head's, if there are several, and returns it.
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

// chunks is the number of chunks of the call.
func (p *plan) chunks() int { return p.batch * p.chunksOfHeads() * p.chunksPerHead() }

// chunksOfHeads is the number of chunks that the heads of a batch entry make for the same queries.
func (p *plan) chunksOfHeads() int {
	if p.headsPerChunk == 1 {
		return p.kvHeads // divisions are felt in small calls
	}
	return (p.kvHeads + p.headsPerChunk - 1) / p.headsPerChunk
}

func (p *plan) chunksPerHead() int {
	return (p.lq*p.group + p.chunkRows - 1) / p.chunkRows
}

// chunk makes c chunk i of the call. It returns the number of rows of each head that belong to the chunk, too,
// but come after the batch entry's query length; c has only those before.
func (p *plan) chunk(i int, c *chunk) (padding int) {
	per, heads := p.chunksPerHead(), p.chunksOfHeads()
	c.b, c.kv, c.row = i/per/heads, i/per%heads*p.headsPerChunk, i%per*p.chunkRows
	c.heads, c.at = min(p.headsPerChunk, p.kvHeads-c.kv), 0
	c.position, c.keys = p.position(c.b), p.keyLen(c.b)
	rows := min(p.chunkRows, p.lq*p.group-c.row)
	c.rows = min(rows, max(0, p.queryLen(c.b)*p.group-c.row))
	if c.rows > 0 {
		p.bound(c)
	}
	return rows - c.rows
}

// bound finds out which keys the rows see by position. The bounds of rows never decrease, so the first and the last
// row tell.
func (p *plan) bound(c *chunk) {
	_, first := p.locate(c.kv, c.row)
	_, last := p.locate(c.kv, c.row+c.rows-1)
	c.lo, c.allHi = p.keyRange(c, first)
	c.allLo, c.hi = p.keyRange(c, last)
	c.hi = max(c.lo, c.hi)
}

// keyRange returns the keys [lo, hi) that query i of the chunk's batch entry sees
// by position. Neither bound decreases with i. Empty ranges have hi = lo.
func (p *plan) keyRange(c *chunk, i int) (lo, hi int) {
	at := c.position + i
	hi = c.keys
	if p.causal != Full {
		hi = min(hi, at+1)
	}
	if p.right >= 0 {
		hi = min(hi, at+p.right+1)
	}
	if p.left >= 0 {
		lo = min(max(0, at-p.left), c.keys) // the window may begin after the last key
	}
	return lo, max(lo, hi)
}
