package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/distance"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// optionScores turns a tile's products, from row at of w.s on, into scores: it applies softcap,
// bias and ALiBi if they are given, and the scale with the first of these; without them the scale
// is left out. It reports whether every row sees every key of the block; if not, w.visible has a
// bit for each key that a row sees.
func (w *scratch) optionScores(p *plan, c *chunk, b *blockKeys, t *tile, at int) (full bool) {
	if p.natural { // an option needs natural scores
		w.naturalOptions(p, c, b, t, at)
	}
	if full = t.uniform && t.lo == 0 && t.hi == Block; !full {
		w.visibleKeys(p, c, b, t, at)
	}
	return full
}

// naturalOptions applies the options to scores.
func (w *scratch) naturalOptions(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	b.biased = b.biased || p.near.Shows
	if !c.apart || !b.biased && p.slopes == nil {
		w.rowScores(p, c, b, t, at)
		return
	}
	for i := range w.beside {
		x := &w.beside[i].chunk
		from, to := max(x.at, c.at+t.row), min(x.at+x.rows, c.at+t.row+t.rows)
		if from < to {
			rows := tile{row: from - x.at, rows: to - from, lo: t.lo, hi: t.hi}
			w.rowScores(p, x, b, &rows, at+from-c.at-t.row)
		}
	}
}

// rowScores turns a tile's products into scores, for rows of one sequence.
func (w *scratch) rowScores(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	u := p.scoreScale
	switch {
	case p.integers:
		w.int8Scores(p, c, b, t, at)
	case p.softcap > 0:
		w.softcap(p.softcap, u/p.softcap, t, at)
		u = 1
	}
	if p.integers {
		// done
	} else if b.biased || t.asks {
		w.addBias(p, c, b, t, at, u)
	} else if u != 1 {
		w.scaleScores(u, t, at)
	}
	switch {
	case p.slopes == nil:
		// none
	case p.parents != nil:
		w.addTreeSlopes(p, c, b, t, at)
	case p.listed:
		w.addListSlopes(p, c, b.first, t, at)
	default:
		w.addSlopes(p, c, b.first, t, at)
	}
}

// softcap caps the tile's scores: at once if they are contiguous.
func (w *scratch) softcap(most, factor float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		floats.Softcap(tuned.ISA, w.s[at*Block:][:t.rows*Block], most, factor)
		return
	}
	for r := range t.rows {
		floats.Softcap(tuned.ISA, w.s[(at+r)*Block:][t.lo:t.hi], most, factor)
	}
}

// int8Scores turns products into natural scores and applies options, row by row, since each row has
// its unit.
func (w *scratch) int8Scores(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	units, keys := w.ints.units[c.at+t.row:], t.hi-t.lo
	for r := range t.rows {
		s, u := w.s[(at+r)*Block:][t.lo:t.hi], units[r]
		if p.softcap > 0 {
			floats.Softcap(tuned.ISA, s, p.softcap, min(u/p.softcap, math.MaxFloat32)) // ±Inf·0 is NaN
		} else if u != 1 && !b.biased {
			floats.Scale(tuned.ISA, s, s, u)
		}
	}
	if !b.biased {
		return
	}
	for x := w.biasPart(p, c, b, t, 0); x.rows > 0; x = w.biasPart(p, c, b, t, x.next) {
		for n := range x.rows {
			r, u := x.row+n*x.step, float32(1)
			if p.softcap == 0 {
				u = units[r]
			}
			s := w.s[(at+r)*Block:][t.lo:t.hi]
			floats.AddBias(tuned.ISA, s, x.bias[x.begin(n):], 1, 1, 0, keys, u)
		}
	}
}

// scaleScores multiplies the tile's scores: at once if they are contiguous.
func (w *scratch) scaleScores(u float32, t *tile, at int) {
	if t.lo == 0 && t.hi == Block {
		s := w.s[at*Block:][:t.rows*Block]
		floats.Scale(tuned.ISA, s, s, u)
		return
	}
	for r := range t.rows {
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		floats.Scale(tuned.ISA, s, s, u)
	}
}

// addSlopes adds ALiBi to the tile's scores.
func (w *scratch) addSlopes(p *plan, c *chunk, first int, t *tile, at int) {
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		floats.Alibi(tuned.ISA, w.s[(at+r)*Block:][t.lo:t.hi], p.slopes[h], first+t.lo-i-c.position)
	}
}

// addBias adds the bias to the tile's scores.
func (w *scratch) addBias(p *plan, c *chunk, b *blockKeys, t *tile, at int, u float32) {
	for x := w.biasPart(p, c, b, t, 0); x.rows > 0; x = w.biasPart(p, c, b, t, x.next) {
		if s := w.s[(at+x.row)*Block+t.lo:]; t.asks {
			w.seeBias(b, t, s, w.seen[c.at+t.row+x.row:], &x, u)
		} else {
			floats.AddBias(tuned.ISA, s, x.bias, x.rows, x.step, x.stride, t.hi-t.lo, u)
		}
	}
}

// seeBias is addBias of some rows that also finds which keys the bias hides: a few rows at a time,
// which the L1 cache holds.
func (w *scratch) seeBias(b *blockKeys, t *tile, s []float32, seen []uint64, of *biasPart,
	u float32) {
	step, stride := of.step, of.stride
	for r := 0; r < of.rows; r += biasRows {
		n, keys, x := min(biasRows, of.rows-r), t.hi-t.lo, of.bias[r*stride:]
		hides, adds := floats.MaskBias(tuned.ISA, x, seen[r*step:], n, step, stride, t.lo, keys)
		floats.AddBias(tuned.ISA, s[r*step*Block:], x, n, step, stride, keys, u)
		b.biased = b.biased || adds
		if hides {
			b.hides, w.biasHid, t.uniform = true, true, false
		}
	}
}

// biasPart is the biases of every step-th row of a tile.
type biasPart struct {
	bias            []float32
	stride          int // biases of rows are stride apart; if it is negative, the last row is first
	row, rows, step int // the first row in the tile, and how many there are: 0 after the last part
	next            int // where the next part begins
}

// begin returns the offset of the biases of row n.
func (x *biasPart) begin(n int) int {
	if x.stride < 0 {
		n -= x.rows - 1
	}
	return n * x.stride
}

// biasPart returns the part of a tile's biases that begins at next. It is the only place that knows
// where they are: where the caller has them, in windows of Distance.Query, or nowhere, so that they
// are computed.
func (w *scratch) biasPart(p *plan, c *chunk, b *blockKeys, t *tile, next int) (x biasPart) {
	row := c.row + t.row
	first, queries := p.queries(row, t.rows)
	heads, key := min(p.group, t.rows), b.first+t.lo
	if queries == 1 { // by heads
		heads = 1
	}
	near, far := key-c.position-(first+queries-1), key+t.hi-t.lo-1-c.position-first
	straight := p.near.Straight(near, far)
	if !(p.distant.none() && !p.listed) && !straight && !(p.near.Slide && queries > 1) {
		return w.computedBias(p, c, key, t, next, heads)
	}
	if next == heads {
		return x
	}
	h, i, rows := p.ofHead(c.kv, row, t.rows, next)
	x = biasPart{row: next, rows: rows, step: p.group, next: next + 1}
	d := key - c.position - i
	of, at, step := &p.bias, c.base+key, p.bias.SL
	if !p.distant.none() {
		of, at, step = &p.distant.Query, p.near.At(d), p.distant.Query.SL-1
	}
	if x.stride = step; queries == 1 {
		x.rows, x.step, x.stride = t.rows, 1, of.SH
	}
	if x.stride < 0 {
		at, d = at-(x.rows-1), d-(x.rows-1)
	}
	if p.distant.none() || straight {
		x.bias = of.Data[of.offset(c.b, h, i)+at:]
		return x
	}
	x.bias = w.biases
	tables := distance.Tables{Query: of.row(c.b, h, i), Width: of.D}
	w.buckets.Set(tuned.ISA, &p.near, x.bias, &tables, 1, t.hi-t.lo+x.rows-1, d)
	return x
}

// computedBias is biasPart of a few rows whose biases are computed: of consecutive queries, or if
// there is one, of all heads.
func (w *scratch) computedBias(p *plan, c *chunk, key int, t *tile, next, heads int) (x biasPart) {
	x = biasPart{bias: w.biases, stride: Block, row: next, step: heads, next: next + biasRows*heads}
	x.rows = max(0, min(biasRows, (t.rows-next+heads-1)/heads))
	if x.next >= t.rows && next%heads+1 < heads {
		x.next = next%heads + 1
	}
	row, keys, together := c.row+t.row+next, t.hi-t.lo, 1
	if heads == p.group && !p.listed && p.parents == nil && !p.distant.none() {
		together = x.rows
	}
	for r := 0; r < x.rows; r += together {
		if !p.distant.none() {
			w.rowNumbers(p, c, x.bias[r*Block:], together, keys, row+r*heads, key)
		}
	}
	for r := 0; p.bias.Data != nil && r < x.rows; r++ {
		p.addRowBias(c, x.bias[r*Block:][:keys], row+r*heads, key)
	}
	return x
}

// addRowBias adds Options.Bias to a row for consecutive keys, or places of its list. Without
// numbers by distance the bias is the row.
func (p *plan) addRowBias(c *chunk, dst []float32, row, key int) {
	h, i := p.locate(c.kv, row)
	bias := p.bias.Data[p.bias.offset(c.b, h, i)+c.base:]
	if p.distant.none() {
		clear(dst)
	}
	if !p.listed {
		for n, e := range bias[key:][:len(dst)] {
			dst[n] += e
		}
		return
	}
	for n, j := range p.listOf(c)[key:][:len(dst)] {
		dst[n] += bias[j]
	}
}

// rowNumbers sets rows of dst to the numbers by distance of some consecutive queries, from row row
// on, and of n consecutive keys, or places of a list, from key on: run by run of consecutive
// positions.
func (w *scratch) rowNumbers(p *plan, c *chunk, dst []float32, rows, n, row, key int) {
	h, i := p.locate(c.kv, row)
	query, keys := &p.distant.Query, &p.distant.Key
	tables := distance.Tables{Stride: query.SL, Pitch: keys.SL, Width: max(query.D, keys.D)}
	if query.Data != nil {
		tables.Query = query.Data[query.offset(c.b, h, i):]
	}
	position := c.position + i
	if p.parents != nil {
		position = c.firstOwn() + w.trees.tree.Depth(i)
	}
	for at, run := 0, n; at < n; at, run = at+run, n-at-run {
		first, is := key, key
		if p.listed || p.parents != nil {
			first, is, run = w.runFrom(p, c, key+at, run)
		}
		if keys.Data != nil {
			tables.Key = keys.Data[keys.offset(c.b, h, c.base+first):]
		}
		w.buckets.Set(tuned.ISA, &p.near, dst[at:], &tables, rows, run, is-position)
	}
}

// runFrom returns the key at a place of a chunk's list, its position, and how many of n keys from
// there on are consecutive, as their positions are.
func (w *scratch) runFrom(p *plan, c *chunk, key, n int) (first, position, run int) {
	first, position = w.placeOf(p, c, key)
	if !p.listed && key+n <= c.firstOwn() {
		return first, position, n
	}
	for run = 1; run < n; run++ {
		if j, is := w.placeOf(p, c, key+run); j != first+run || is != position+run {
			break
		}
	}
	return first, position, run
}

// placeOf returns the key at a place of a chunk's list, and its position: with a tree, own tokens
// are as far from the first one as they have ancestors.
func (w *scratch) placeOf(p *plan, c *chunk, key int) (j, position int) {
	if p.listed {
		j = int(p.lists.Data[c.list+key])
		return j, j
	}
	if own := c.firstOwn(); key >= own {
		return key, own + w.trees.tree.Depth(c.query+key-own)
	}
	return key, key
}

// visibleKeys sets a bit in w.visible for each key of the block that a row sees by its position,
// mask and blocks.
func (w *scratch) visibleKeys(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	visible := w.visible[at:][:t.rows]
	if b.partly {
		copy(visible, w.seen[c.at+t.row:])
		return
	}
	seen := kernel.LowBits(t.hi) &^ kernel.LowBits(t.lo)
	more, i := p.locate(0, c.row+t.row) // rows of the query before this one
	for r := range visible {
		if !t.uniform && (r == 0 || more == 0) {
			lo, hi := p.keyRange(c, i)
			end, begin := min(max(hi-b.first, t.lo), t.hi), min(max(lo-b.first, t.lo), t.hi)
			seen = kernel.LowBits(end) &^ kernel.LowBits(begin)
		}
		if more++; more == p.group {
			i, more = i+1, 0
		}
		visible[r] = seen
	}
}
