package attn

// Few rows wait for memory. A processor that wants to read in order (sequentialReads) needs some time to
// get going, after every change from keys to values and back. So they take the keys of
// several blocks one after the other, up to a segment, and keep the scores; then block by block
// softmax and values. Only the order of independent steps is another one, so the bits are the same.

// mostSeries is how many blocks a series has at most.
const mostSeries = Segment / Block

// blocksInSeries is the number of blocks from key lo of a segment that ends at hi which the chunk takes as a series: all
// of its rows see all of these keys, but for a mask or bias. 0 if there is no series: in a cache, keys and values
// take turns, and follow each other.
func (p *plan) blocksInSeries(c *chunk, lo, hi int) int {
	if !p.sequential || p.cache != nil || c.heads > 1 || c.rows > inPlaceRows {
		return 0
	}
	return min(p.wholeBlocks(c, lo, hi), mostTileRows/c.rows)
}

// wholeBlocks is the number of whole blocks in keys [lo, hi), from lo on, that all rows of the chunk see by
// position; 0 if no block begins at lo.
func (p *plan) wholeBlocks(c *chunk, lo, hi int) int {
	if lo%Block != 0 {
		return 0
	}
	_, end := p.keyRange(c, c.row/p.group)
	from, _ := p.keyRange(c, (c.row+c.rows-1)/p.group)
	if from > lo {
		return 0
	}
	return max(0, min(end, hi)-lo) / Block
}

// series adds n blocks, the first of which starts at key first, to the state.
func (w *scratch) series(p *plan, c *chunk, st *state, first, n int) {
	if p.fullInPlace() {
		w.seriesOfKernels(p, c, st, first, n)
		return
	}
	var full [mostSeries]bool
	for i := range n {
		b, t := c.blockOfSeries(first, i)
		b.k, b.kStride = w.loadKeys(p, c, &b)
		p.follow(c, &b)
		w.queue.clear()
		w.queue.after = (n - 1 - i) * Block
		w.products(p, c, &b, &t)
		full[i] = w.scores(p, c, &b, &t)
	}
	w.queue.after = 0
	for i := range n {
		b, t := c.blockOfSeries(first, i)
		b.v = w.loadValues(p, c, &b)
		p.follow(c, &b)
		w.softmaxValuesTile(p, c, st, &b, &t, full[i])
		st.overwrite = false
	}
}

// blockOfSeries is block i of a series, and its only tile.
func (c *chunk) blockOfSeries(first, i int) (block, tile) {
	return block{first: first + i*Block, hi: Block}, tile{rows: c.rows, at: i * c.rows, hi: Block, uniform: true}
}
