package attn

// span is keys of one segment that go through the kernels together: for each tile of rows, scores of all blocks, steps and heads;
// then for each block softmax for all heads, and values of all steps and heads.
//
// Most spans are one block of one head, which is loaded once for all tiles. Spans of several blocks, or of several heads in steps, are for
// few rows, which wait for memory: these keep reading keys, or values, where each change from one to the other would make memory pause.
// Only the order of independent steps is another one, so the bits are the same.
type span struct {
	first  int  // key at which its first block begins, a multiple of Block
	lo, hi int  // of a single block the keys that some row may see, counted from first; otherwise 0 and Block
	blocks int  // more than one only if whole
	step   int  // keys of a step: Block, or less if whole and of several heads
	whole  bool // every row sees every key by its position
}

// segment adds keys [lo, hi) of one segment to a state.
func (w *scratch) segment(p *plan, c *chunk, st *state, lo, hi int) {
	var s span
	var h chunk
	for lo < hi {
		end := p.span(c, lo, hi, &s)
		if s.step < Block {
			w.span(p, c, st, &s)
		} else {
			for g := range c.heads {
				w.span(p, c.head(g, &h), st, &s)
			}
		}
		st.overwrite = false
		lo = end
	}
}

// span makes s the span that begins at key lo of a segment that ends at hi, and returns its end.
func (p *plan) span(c *chunk, lo, hi int, s *span) (end int) {
	s.first, s.blocks, s.step = lo/Block*Block, 1, Block
	s.lo, s.hi = lo-s.first, min(hi-s.first, Block)
	most := min(hi, c.allHi)
	if s.whole = s.lo == 0 && lo >= c.allLo && lo+Block <= most; !s.whole {
		return s.first + s.hi
	}
	switch {
	case c.heads > 1:
		s.step = p.step
	case p.blocks > 1 && c.rows <= p.spanRows:
		if s.blocks = min((most-lo)/Block, p.blocks); p.packed == nil {
			s.blocks = min(s.blocks, mostTileRows/c.rows) // all of their scores are kept
		}
	}
	return lo + s.blocks*Block
}

// single reports whether a span is one block of one head.
func (s *span) single() bool { return s.blocks == 1 && s.step == Block }

// span adds the keys of a span to the state of its rows: here, or where whole blocks need nothing but kernels by fullTiles and fullSpan
// (block_full.go).
func (w *scratch) span(p *plan, c *chunk, st *state, s *span) {
	var b block
	var t tile
	full := false
	if s.single() {
		b.typed = p.typedRows > 0 && s.whole && c.rows <= p.typedRows
		b.k, b.kTyped, b.keyScales = w.loadKeys(p, c, &b, s.first, s.lo, s.hi)
		b.v, b.vTyped, b.valueScales = w.loadValues(p, c, &b, s.first, s.lo, s.hi)
		if c.rows > inPlaceRows {
			w.prefetchTokens(p, c, s.first)
		}
		full = p.full && !b.typed && b.kStride == 0 && s.hi == Block && (s.whole || s.lastSeesStart(p, c))
	} else {
		w.queue.clear()
		if w.fullSpan(p, c, st, s) {
			return
		}
	}
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

// diagonalRows rows go together where the rows of a block see different keys: as many
// as a panel has keys, so that a causal diagonal goes through corners of panels.
const diagonalRows = 16

// tile makes t the tile that starts at a row of the chunk: the plan's number of rows if they
// see the same keys, else fewer, so that little is computed for nothing. (To return it would be to copy it, which
// small calls feel.)
func (s *span) tile(p *plan, c *chunk, row int, t *tile) {
	t.row, t.rows = row, min(p.tileRows, c.rows-row)
	if s.whole {
		t.lo, t.hi, t.uniform = 0, Block, true
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

// lastSeesStart reports whether the last row of the chunk sees the block's first key. As bounds never
// decrease from row to row, rows after one that sees the whole block see all of it, then.
func (s *span) lastSeesStart(p *plan, c *chunk) bool {
	lo, _ := s.keyRange(p, c, c.rows-1)
	return lo == 0
}

// scores leaves the products of a tile's queries with all keys of the span in w.s: those of block i and head g from row
// (i·heads + g)·rows on. b is the block of a single one.
func (w *scratch) scores(p *plan, c *chunk, s *span, b *block, t *tile) {
	if s.single() {
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
				step.k, step.kTyped, step.keyScales = w.loadKeys(p, head, &step, s.first+i*Block, key, key+s.step)
				w.products(p, head, &step, t, (i*c.heads+g)*c.rows, key, key+s.step)
			}
		}
	}
	w.queue.after = 0
}

// values makes weights of the tile's scores and adds the values that they weigh to the state, block by block.
func (w *scratch) values(p *plan, c *chunk, st *state, s *span, b *block, t *tile) {
	switch {
	case s.single():
		w.blockValues(p, c, st, b, t, 0)
		return
	case s.step < Block:
		w.stepValues(p, c, st, s, t)
		return
	}
	var next block
	for i := range s.blocks {
		next.v, next.vTyped, next.valueScales = w.loadValues(p, c, &next, s.first+i*Block, 0, Block)
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
