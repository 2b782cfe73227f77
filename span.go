package attn

// span is keys of one segment that go through the kernels together: for each tile of rows, scores
// of all blocks, steps and heads; then for each block softmax for all heads, and values of all
// steps and heads.
//
// Most spans are one block of one head, which is loaded once for all tiles. Spans of several
// blocks, or of several heads in steps, are for few rows, which wait for memory: these keep reading
// keys, or values, where each change between them would make memory pause. Only the order of
// independent steps is another one, so the bits are the same.
type span struct {
	first  int  // key at which its first block begins, a multiple of Block
	lo, hi int  // keys of its last block that some row may see; only a single block has lo > 0
	blocks int  // more than one only if equal
	step   int  // keys of a step: Block, or less for several heads that see the whole block
	equal  bool // by position, every row sees all keys from first to the last one of the span
}

// addSegment adds keys [lo, hi) of one segment to a state.
func (w *scratch) addSegment(p *plan, c *chunk, st *state, lo, hi int) {
	if c.prefixes {
		w.addShared(p, st, lo, hi)
		return
	}
	var s span
	var h chunk
	for lo < hi {
		end := p.nextSpan(c, lo, hi, &s)
		if s.step < Block {
			w.addSpan(p, c, st, &s)
		} else {
			for g := range c.heads {
				w.addSpan(p, c.head(g, &h), st, &s)
			}
		}
		st.overwrite = false
		lo = end
	}
}

// nextSpan makes s the span that begins at key lo of a segment that ends at hi, and returns its
// end.
func (p *plan) nextSpan(c *chunk, lo, hi int, s *span) (end int) {
	s.first, s.blocks, s.step = lo/Block*Block, 1, Block
	s.lo, s.hi = lo-s.first, min(hi-s.first, Block)
	all := min(hi, c.allHi) // to here every row sees the keys
	if s.equal = s.lo == 0 && lo >= c.allLo && s.first+s.hi <= all; !s.equal {
		return s.first + s.hi
	}
	switch {
	case c.heads > 1:
		if s.hi == Block {
			s.step = p.step
		}
	case p.packed != nil && c.rows <= p.spanRows: // the last block of a sequence is rarely whole
		if all < hi {
			all = all / Block * Block
		}
		s.blocks = min((all-lo+Block-1)/Block, p.blocks)
		s.hi = min(Block, all-lo-(s.blocks-1)*Block)
	case p.blocks > 1 && c.rows <= p.spanRows && s.hi == Block:
		s.blocks = min((all-lo)/Block, p.blocks, maxTileRows/c.rows) // all of their scores are kept
	}
	return lo + (s.blocks-1)*Block + s.hi
}

// addSpan adds the keys of a span to the state of its rows: here, or where scores are products and
// nothing more by the functions of block_full.go.
func (w *scratch) addSpan(p *plan, c *chunk, st *state, s *span) {
	single := s.blocks == 1 && s.step == Block
	switch {
	case p.packed != nil && p.blocks > 1 && s.equal && c.rows <= p.spanRows:
		w.addPacked(p, c, st, s)
		return
	case !single && p.plainScores() && c.rows <= min(p.keys.inPlaceRows, p.values.inPlaceRows) &&
		(p.full || s.step == Block):
		w.addInPlace(p, c, st, s)
		return
	}
	var b block // not by a function of its own: through a pointer, buffers of the caller would escape
	full := false
	if single {
		b.typed = s.equal && c.rows <= p.typedRows
		b.k, b.kTyped, b.keyScales = w.loadKeys(p, c, &b, s.first, s.lo, s.hi)
		b.v, b.vTyped, b.valueScales = w.loadValues(p, c, &b, s.first, s.lo, s.hi)
		if c.rows > inPlaceRows {
			w.prefetchTokens(p, c, s.first)
		}
		// As bounds never decrease from row to row, rows after one that sees the whole block see all
		// of it if the last row sees the block's first key.
		lo, _ := p.keyRange(c, (c.row+c.rows-1)/p.group)
		full = p.full && !b.typed && b.kStride == 0 && s.hi == Block && lo <= s.first
	} else {
		w.queue.clear()
	}
	var t tile
	for row := 0; row < c.rows; row += t.rows {
		s.tile(p, c, row, &t)
		switch {
		case full && t.uniform && t.lo == 0 && t.hi == Block:
			w.fullTiles(p, c, st, &b, row)
			return
		case t.lo < t.hi:
			w.scores(p, c, s, &b, &t)
			w.values(p, c, st, s, &b, &t)
		case st.overwrite:
			clear(st.o[(c.at+row)*p.oStride:][:t.rows*p.oStride])
		}
	}
}

// diagonalRows rows go together where the rows of a block see different keys: as many as a panel
// has keys, so that a causal diagonal goes through corners of panels.
const diagonalRows = 16

// tile makes t the tile that starts at a row of the chunk: the plan's number of rows if they see
// the same keys, else fewer, so that little is computed for nothing. (To return it would be to copy
// it, which costs small calls a few per cent.)
func (s *span) tile(p *plan, c *chunk, row int, t *tile) {
	t.row, t.rows = row, min(p.tileRows, c.rows-row)
	if s.equal {
		t.lo, t.hi, t.uniform = 0, s.hi, true
		return
	}
	lo, hi := s.keyRange(p, c, row)
	lastLo, lastHi := s.keyRange(p, c, row+t.rows-1)
	if lo != lastLo || hi != lastHi {
		t.rows = min(diagonalRows, c.rows-row)
		lastLo, lastHi = s.keyRange(p, c, row+t.rows-1)
	}
	t.lo, t.hi = lo, lastHi // the bounds never decrease from row to row
	t.uniform = lo == lastLo && hi == lastHi
}

// keyRange is the span's part of the keys that a row of the chunk sees by position.
func (s *span) keyRange(p *plan, c *chunk, row int) (lo, hi int) {
	lo, hi = p.keyRange(c, (c.row+row)/p.group)
	return min(max(lo-s.first, s.lo), s.hi), min(max(hi-s.first, s.lo), s.hi)
}

// scores leaves the products of a tile's queries with all keys of the span in w.s: those of block i
// and head g from row (i·heads + g)·rows on. b is the block of a single one.
func (w *scratch) scores(p *plan, c *chunk, s *span, b *block, t *tile) {
	if s.blocks == 1 && s.step == Block {
		w.products(p, c, b, t, 0, t.lo, t.hi)
		return
	}
	var h chunk
	var step block
	for i := range s.blocks {
		w.queue.after = (s.blocks - 1 - i) * Block
		for key := 0; key < Block; key += s.step {
			for g := range c.heads {
				head := c.head(g, &h)
				first, at := s.first+i*Block, (i*c.heads+g)*c.rows
				step.k, step.kTyped, step.keyScales = w.loadKeys(p, head, &step, first, key, key+s.step)
				w.products(p, head, &step, t, at, key, key+s.step)
			}
		}
	}
	w.queue.after = 0
}

// values makes weights of the tile's scores and adds the values that they weigh to the state, block
// by block.
func (w *scratch) values(p *plan, c *chunk, st *state, s *span, b *block, t *tile) {
	switch {
	case s.step < Block:
		w.stepValues(p, c, st, s, t)
		return
	case s.blocks == 1:
		w.blockValues(p, c, st, b, t, 0)
		return
	}
	var next block
	for i := range s.blocks {
		first := s.first + i*Block
		next.v, next.vTyped, next.valueScales = w.loadValues(p, c, &next, first, 0, Block)
		w.blockValues(p, c, st, &next, t, i*c.rows)
		st.overwrite = false
	}
}

// stepValues is values for several heads, which take turns step by step.
func (w *scratch) stepValues(p *plan, c *chunk, st *state, s *span, t *tile) {
	var h chunk
	var step block
	masked := false
	for g := range c.heads {
		masked = w.weigh(p, c.head(g, &h), st, s.first, t, g*c.rows) || masked
	}
	for key := 0; key < Block; key += s.step {
		for g := range c.heads {
			head := c.head(g, &h)
			step.v, step.vTyped, step.valueScales = w.loadValues(p, head, &step, s.first, key, key+s.step)
			w.accumulate(p, head, st, &step, t, g*c.rows, key, key+s.step)
		}
	}
	if masked {
		clearMasked(st.m, st.o, c.allRows(), p.oStride)
	}
}
