package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/stop"
)

// addSegment adds keys [lo, hi) of one segment to a state.
func (w *scratch) addSegment(p *plan, c *chunk, st *online.State, lo, hi int) {
	if c.together > 0 {
		w.addShared(p, st, lo, hi)
		return
	}
	var s span
	var buffer chunk
	for lo < hi {
		if p.looks {
			if lo = p.skipHidden(c, lo, hi); lo == hi {
				break
			}
		}
		end := p.nextSpan(c, lo, hi, &s)
		if p.looks && (s.step < Block || s.blocks > 1) {
			end = w.seeSpan(p, c, &s)
		}
		if w.queue.Clear(); s.step < Block { // a queue is only for many rows
			w.addKeysFirst(p, c, st, &s)
		} else {
			for g := range c.heads {
				switch h := w.head(c, g, &buffer); {
				case p.packed != nil && s.equal && c.rows <= p.spanRows && p.plain:
					w.addFew(p, h, st, &s)
				case s.blocks > 1:
					w.addKeysFirst(p, h, st, &s)
				default:
					w.addBlock(p, h, st, &s)
				}
			}
		}
		st.Overwrite = false
		lo = end
	}
	if st.Overwrite { // nobody sees any of the keys
		stop.Clear(st.O[c.at*p.oStride:][:c.heads*c.rows*p.oStride])
		st.Overwrite = false
	}
}

// nextSpan sets s to the span that begins at key lo of a segment that ends at hi, and returns its
// end.
func (p *plan) nextSpan(c *chunk, lo, hi int, s *span) (end int) {
	s.first, s.blocks, s.step = lo/Block*Block, 1, Block
	s.lo, s.hi, s.biased = lo-s.first, min(hi-s.first, Block), false
	all := min(hi, c.allHi) // up to here every row sees the keys
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

// addBlock adds a span of one block: it is loaded once for all tiles of rows. Rows that see the
// whole block are computed as full tiles if its scores are plain products, of float32 in panels,
// and all rows after them see it, too. Since bounds never decrease from row to row, they do if the
// last row sees the block's first key.
func (w *scratch) addBlock(p *plan, c *chunk, st *online.State, s *span) {
	b := blockKeys{first: s.first, lo: s.lo, hi: s.hi, equal: s.equal}
	if p.packed != nil {
		w.findBlock(p, c, &b)
	}
	if (p.looks || p.parents != nil && !b.equal) && !w.look(p, c, &b) {
		if st.Overwrite {
			stop.Clear(st.O[c.at*p.oStride:][:c.rows*p.oStride])
		}
		return
	}
	w.keys(p, c, &b)
	w.values(p, c, &b)
	if p.queues(c) && c.rows > p.spanRows {
		w.prefetchTokens(p, c, b.first)
	}
	full := (p.full && !w.typed || p.fullIntegers) && b.lo == 0 && b.hi == Block &&
		c.rows > p.keys.inPlaceRows && (b.looked || c.allLo <= b.first)
	var t tile
	for row := 0; row < c.rows; row += t.rows {
		if b.partly {
			if t.rows = w.addRun(p, c, st, &b, row, full); t.rows > 0 {
				continue
			}
		}
		if b.tile(p, c, row, &t); b.partly {
			w.see(p, c, &b, &t)
		}
		switch {
		case full && t.uniform && t.lo == 0 && t.hi == Block:
			if t.rows = c.rows - row; b.partly {
				t.rows = w.runOf(^uint64(0), c, row)
			}
			w.fullTiles(p, c, st, &b, row, t.rows)
		case t.lo < t.hi:
			w.score(p, c, &b, &t, 0)
			w.addValues(p, c, st, &b, &t, 0)
		case st.Overwrite:
			stop.Clear(st.O[(c.at+row)*p.oStride:][:t.rows*p.oStride])
		}
	}
	if b.asks {
		w.learn(p, c, &b)
	}
}

// addRun adds a block to the rows from row on that see nothing of it or, if full tiles are
// possible, all of it. It returns the number of these rows.
func (w *scratch) addRun(p *plan, c *chunk, st *online.State, b *blockKeys, row int,
	full bool) (rows int) {
	sees := false
	if b.inRuns {
		sees, rows = p.runOfBlocks(c, b, row)
	} else if rows = w.runOf(0, c, row); rows == 0 {
		if !full {
			return 0
		}
		sees, rows = true, w.runOf(^uint64(0), c, row)
		if rows < diagonalRows && rows < c.rows-row {
			return 0
		}
	}
	if !sees {
		if st.Overwrite {
			stop.Clear(st.O[(c.at+row)*p.oStride:][:rows*p.oStride])
		}
		return rows
	}
	w.fullTiles(p, c, st, b, row, rows)
	return rows
}

// addKeysFirst adds a span of few rows, which all see all of its keys: first the keys of all blocks
// and heads, then the values.
func (w *scratch) addKeysFirst(p *plan, c *chunk, st *online.State, s *span) {
	t := tile{rows: c.rows, hi: Block, uniform: true}
	var h chunk
	for i := range s.blocks {
		w.queue.After = (s.blocks - 1 - i) * Block
		for key := 0; key < Block; key += s.step {
			b := blockKeys{first: s.first + i*Block, lo: key, hi: key + s.step, equal: true,
				biased: s.biased}
			for g := range c.heads {
				head := w.head(c, g, &h)
				w.keys(p, head, &b)
				w.score(p, head, &b, &t, (i*c.heads+g)*c.rows)
			}
		}
	}
	w.queue.After = 0
	if s.step < Block {
		w.addSteps(p, c, st, s, &t)
		return
	}
	for i := range s.blocks {
		b := blockKeys{first: s.first + i*Block, hi: Block, equal: true, biased: s.biased}
		w.values(p, c, &b)
		w.addValues(p, c, st, &b, &t, i*c.rows)
		st.Overwrite = false
	}
}

// addSteps turns the scores of several heads into weights, and adds the weighted values; heads
// alternate step by step.
func (w *scratch) addSteps(p *plan, c *chunk, st *online.State, s *span, t *tile) {
	var h chunk
	masked := false
	if p.plain { // rows of all heads are contiguous
		masked = floats.Softmax(&tuned, w.s, st.M, st.L, w.alpha, nil, c.heads*c.rows, p.c)
	} else {
		for g := range c.heads {
			head := w.head(c, g, &h)
			w.optionScores(p, head, &blockKeys{first: s.first, biased: s.biased}, t, g*c.rows)
			scores := weighed{row: head.at, rows: c.rows, at: g * c.rows, hi: Block}
			masked = w.weigh(p, st, &scores) || masked
		}
	}
	for key := 0; key < Block; key += s.step {
		b := blockKeys{first: s.first, lo: key, hi: key + s.step, equal: true}
		for g := range c.heads {
			head := w.head(c, g, &h)
			w.values(p, head, &b)
			w.accumulate(p, head, st, &b, t, g*c.rows)
		}
	}
	if masked {
		online.ClearMasked(st.M, st.O, c.heads*c.rows, p.oStride)
	}
}
