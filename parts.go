package attn

// Where the heads of a token follow each other, a block of all heads together may be more
// than the L2 cache holds along with what is asked for ahead: 2 MiB of keys and values for 32
// heads of 128. So heads that go together take a block in parts of fewer keys:
// part by part, scores of all heads, then softmax for all, then part by part values of all heads.
// What is read is asked for one part before, and forgotten after it. Only the order in which
// heads take turns is another one, so the bits are the same.

const (
	// partRows is up to how many rows of all heads go in parts: as many scores are kept.
	partRows = 256

	// partHeadRows is up to how many rows of one head do. Of 64, computing takes longer than
	// memory, and parts cost more than they save.
	partHeadRows = 32
)

// partKeys is the number of keys of a part: more where keys are packed, which takes longer for
// fewer at a time.
func (c *chunk) partKeys() int {
	if c.rows <= inPlaceRows {
		return panel
	}
	return 2 * panel
}

// hasParts reports whether so many heads that go together have few enough rows for parts.
func (p *plan) hasParts(heads int) bool {
	return heads > 1 && p.chunkRows <= partHeadRows && heads*p.chunkRows <= partRows
}

// scoredRows is the number of rows whose scores are kept at a time.
func (p *plan) scoredRows() int {
	if !p.hasParts(p.headsPerChunk) {
		return mostTileRows
	}
	return max(mostTileRows, p.headsPerChunk*p.chunkRows)
}

// inParts reports whether the chunk's heads go through keys [lo, hi), the block at key first, in parts:
// if all rows see all keys, but for a mask or bias.
func (p *plan) inParts(c *chunk, first, lo, hi int) bool {
	if !p.hasParts(p.headsPerChunk) || lo != first || hi-lo != Block || !p.follows(&p.k, c) || !p.follows(&p.v, c) {
		return false
	}
	b := block{first: first, hi: Block}
	var t tile
	b.tile(p, c, 0, &t)
	return t.rows == c.rows && t.uniform && t.lo == 0 && t.hi == Block
}

// blockInParts adds the block that starts at key first to the state of all heads of the chunk.
func (w *scratch) blockInParts(p *plan, c *chunk, st *state, first int) {
	w.queue.clear()
	var h chunk
	for key := 0; key < Block; key += c.partKeys() {
		for g := range c.heads {
			w.partProducts(p, c.head(g, &h), first, key)
		}
	}
	masked := false
	for g := range c.heads {
		masked = w.weightsInParts(p, c.head(g, &h), st, first) || masked
	}
	for key := 0; key < Block; key += c.partKeys() {
		for g := range c.heads {
			w.partValues(p, c.head(g, &h), st, first, key)
		}
	}
	if masked {
		clearMasked(st.m, st.o, c.allRows(), p.oStride())
	}
}

// partProducts leaves one head's products with the part that starts at a key of the block in w.s.
func (w *scratch) partProducts(p *plan, c *chunk, first, key int) {
	b := block{first: first, lo: key, hi: key + c.partKeys()}
	b.k, b.kStride = w.loadKeys(p, c, &b)
	b.pointer = p.behindKeys(c, first, b.hi)
	w.products(p, c, &b, &tile{rows: c.rows, at: c.at, lo: b.lo, hi: b.hi, uniform: true})
}

// weightsInParts makes one head's weights of its products with the block. It reports whether
// some row has seen no score above −Inf.
func (w *scratch) weightsInParts(p *plan, c *chunk, st *state, first int) (masked bool) {
	b, t := block{first: first, hi: Block}, tile{rows: c.rows, at: c.at, hi: Block, uniform: true}
	full := w.scores(p, c, &b, &t)
	m, l := st.m[c.at:], st.l[c.at:]
	if full {
		return softmax(w.scoresOf(&t, 0), m, l, w.alpha[c.at:], c.rows)
	}
	return w.softmaxMasked(m, l, &t)
}

// partValues adds one head's part of values to the state.
func (w *scratch) partValues(p *plan, c *chunk, st *state, first, key int) {
	b := block{first: first, lo: key, hi: key + c.partKeys()}
	b.v = w.loadValues(p, c, &b)
	b.layout.keys, b.layout.overwrite = b.hi-key, st.overwrite && key == 0
	b.layout.pointer = p.behindValues(c, first, b.hi)
	alpha := w.alpha[c.at:]
	if key > 0 {
		alpha = ones[:] // outputs have been multiplied
	}
	o, weights, v := st.o[c.at*p.oStride():], w.s[c.at*Block+key:], b.v[key*b.layout.stride:]
	if p.pairwise() && !allVisible(w.visible[c.at:][:c.rows]) && !b.allFinite() {
		accumulateMasked(o, weights, v, alpha, c.rows, p.oStride(), Block, &b.layout)
		return
	}
	accumulate(o, weights, v, alpha, c.rows, p.oStride(), Block, &b.layout)
}

// allVisible reports whether all rows see all keys.
func allVisible(rows []uint64) bool {
	every := ^uint64(0)
	for _, live := range rows {
		every &= live
	}
	return every == ^uint64(0)
}

// behindKeys is where the stream is while a head reads the part of keys that ends at key end of a block:
// the next part of keys is asked for, or the first one of values.
func (p *plan) behindKeys(c *chunk, first, end int) uintptr {
	if end < Block {
		return stepPointer(&p.k, c, first+end)
	}
	return stepPointer(&p.v, c, first)
}

// behindValues is the same for values. The next block's keys follow the last ones.
func (p *plan) behindValues(c *chunk, first, end int) uintptr {
	if end < Block {
		return stepPointer(&p.v, c, first+end)
	}
	return stepPointer(&p.k, c, first+end)
}

// stepPointer is where the stream is for a head that asks for its share of the part at token next; 0 if there is none.
func stepPointer(x *Tensor, c *chunk, next int) uintptr {
	if next >= x.L {
		return 0
	}
	return address(x.Data, x.offset(c.b, 0, next)+c.kv*c.partKeys()*x.D) - prefetchWindow
}
