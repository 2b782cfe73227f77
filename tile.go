package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/operand"
)

// fullTiles computes rows of the chunk from row on that see the whole block and whose scores are
// plain products; most tiles are like that. The kernels are called one after another, without
// choices, with operands checked once for all tiles.
func (w *scratch) fullTiles(p *plan, c *chunk, st *online.State, b *blockKeys, row, rows int) {
	if p.fullIntegers {
		integerKind{}.fullTiles(w, p, c, st, b, c.at+row, rows)
		return
	}
	k, v := w.floatKeys(p, b), w.floatValues(p, c, b)
	d, stride, n := p.d, p.oStride, p.tileRows
	w.queue.Pointer = w.pointer
	q := w.queries(p, c, row)
	row += c.at
	m, l, o := st.M[row:], st.L[row:], st.O[row*stride:]
	w.layout.Keys, w.layout.Overwrite = Block, st.Overwrite
	operand.Reads(k, Block*d)
	w.layout.Reads(v)
	if b.partly { // parts of similar size, instead of a small rest
		parts := (rows + maxTileRows - 1) / maxTileRows
		n = kernel.RoundUp((rows+parts-1)/parts, kernel.SplitRows)
	}
	t := w.fullTileOf(p, q, m, l, o, rows, n)
	t.K, t.V = &k[0], &v[0]
	for r := 0; r < rows; r += n {
		n := min(n, rows-r)
		if at := o[r*stride:]; t.Add(&tuned, &q[r*d], &m[r], &l[r], &at[0], n) {
			online.ClearMasked(st.M[row+r:], at, n, stride)
		}
	}
}

// fullTileOf returns the common part of tiles of up to n rows, without keys and values. It checks
// the memory of rows rows, whose state begins at m, l and o.
func (w *scratch) fullTileOf(p *plan, q, m, l, o []float32, rows, n int) floats.FullTile {
	operand.Reads(q, rows*p.d)
	operand.Writes(w.s, min(n, rows)*Block)
	operand.Writes(w.alpha, min(n, rows))
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.UpdatesRows(o, rows, p.oStride, w.layout.Cols)
	return floats.FullTile{S: &w.s[0], Alpha: &w.alpha[0], Maxima: &w.maxima[0], D: p.d,
		OStride: p.oStride,
		C:       p.c, Layout: &w.layout, Queue: &w.queue}
}

// addValues turns the scores of a tile, from row at of w.s on, into weights, and adds the weighted
// values of a block.
func (w *scratch) addValues(p *plan, c *chunk, st *online.State, b *blockKeys, t *tile, at int) {
	row := c.at + t.row
	var visible []uint64
	if !w.optionScores(p, c, b, t, at) {
		visible = w.visible[at:]
	}
	var scales []float32
	if p.integers || p.packed != nil && p.packed.V.Scaled {
		scales = w.valueScales(p, c, b)
	}
	masked := w.weigh(p, st, &weighed{scales: scales, visible: visible, row: row, rows: t.rows, at: at,
		lo: t.lo, hi: t.hi})
	w.accumulate(p, c, st, b, t, at)
	if masked {
		online.ClearMasked(st.M[row:], st.O[row*p.oStride:], t.rows, p.oStride)
	}
}

// weighed describes scores that become weights: of keys [lo, hi) and some rows.
type weighed struct {
	row, rows         int // in the state,
	at                int // and where they begin in scratch.s
	lo, hi            int
	visible           []uint64  // keys of the block that each row sees; nil: all
	keyScales, scales []float32 // in float32: of keys, to multiply scores by, and of values, if any
}

// weigh turns scores into weights, and reports whether some row has seen no score above −Inf.
func (w *scratch) weigh(p *plan, st *online.State, of *weighed) (masked bool) {
	keyScales, scales, visible := of.keyScales, of.scales, of.visible
	row, rows, lo, hi := of.row, of.rows, of.lo, of.hi
	s, m, l, alpha := w.s[of.at*Block:], st.M[row:], st.L[row:], w.alpha[of.at:]
	if p.bfloat16 {
		return pairs.Softmax(&tuned, s, m, l, alpha, w.pairs.before, visible, rows, p.c)
	}
	if x := &w.ints; p.integers {
		return integers.Softmax(&tuned, x.weights.Words, x.scales, s, m, l, alpha, x.factors[row:],
			scales, visible,
			rows)
	}
	if rows == 1 && visible == nil && keyScales != nil && scales != nil {
		return floats.SoftmaxScaled(&tuned, s, m, l, alpha, keyScales, scales, p.c)
	}
	if keyScales != nil {
		floats.ScaleColumns(tuned.ISA, s[lo:], keyScales[lo:hi], rows, Block, hi-lo)
	}
	masked = floats.Softmax(&tuned, s, m, l, alpha, visible, rows, p.c)
	if scales != nil {
		floats.ScaleColumns(tuned.ISA, s[lo:], scales[lo:hi], rows, Block, hi-lo)
	}
	return masked
}

// addFew adds a span of a cache or store for few rows that see all of its keys, with scores that
// are plain products. It is the loop of span.go for one tile, written out: few rows wait for
// memory, and each pause between two kernels costs several times its length, so everything that is
// the same for all blocks is computed before (docs/decisions/kernels.md has the figures).
func (w *scratch) addFew(p *plan, c *chunk, st *online.State, s *span) {
	// looking for each block between kernels would let memory pause
	var places [Segment / Block]int
	b := blockKeys{hi: Block, equal: true, data: p.findBlocks(c, s.first, places[:s.blocks])}
	w.values(p, c, &b) // in place: for so few rows nothing is copied
	w.layout.Keys, w.layout.Overwrite = Block, st.Overwrite
	q, m, l, o := w.queries(p, c, 0), st.M[c.at:], st.L[c.at:], st.O[c.at*p.oStride:]
	direct := p.full && p.valueKind == kindPanels && (s.blocks > 1 || s.hi == Block)
	var t floats.FullTile
	if direct {
		t = w.fullTileOf(p, q, m, l, o, c.rows, c.rows)
	}
	for i, place := range places[:s.blocks] {
		if b.place = place; i == s.blocks-1 {
			b.hi = s.hi
		}
		masked := false
		if direct && b.hi == Block {
			floatKind{}.keys(w, p, c, &b)
			k, v := w.floatKeys(p, &b), w.floatValues(p, c, &b)
			if operand.Reads(k, Block*p.d); w.layout.Pointer != 0 {
				w.pointer = p.windowAfter(b.data, places[i:s.blocks], 0)
				w.layout.Pointer = p.windowAfter(b.data, places[i:s.blocks], p.packed.KeyBytes)
			}
			w.layout.Reads(v)
			w.queue.Pointer, t.K, t.V = w.pointer, &k[0], &v[0]
			masked = t.Add(&tuned, &q[0], &m[0], &l[0], &o[0], c.rows)
		} else {
			masked = w.addFewBlock(p, c, st, &b, q, o)
		}
		if masked {
			online.ClearMasked(m, o, c.rows, p.oStride)
		}
		w.layout.Overwrite = false
	}
}

// windowAfter returns the pointer for kernels that read the first of some blocks from byte at on: a
// window before the byte that is read a window later, which in a store may be in another page.
func (p *plan) windowAfter(data []byte, places []int, at int) uintptr {
	block, later := p.packed.Size, at+kernel.PrefetchWindow
	if i := later / block; i < len(places) {
		return operand.Address(data, places[i]+later%block) - kernel.PrefetchWindow
	}
	return operand.Address(data, places[0]+at)
}

// addFewBlock is the step of addFew for a block that is not a full tile: kernels read its format in
// place, or it is the last one, with fewer keys.
func (w *scratch) addFewBlock(p *plan, c *chunk, st *online.State, b *blockKeys, q,
	o []float32) (masked bool) {
	var visible []uint64
	if b.hi < Block {
		visible = w.visible[:c.rows]
		for r := range visible {
			visible[r] = 1<<b.hi - 1
		}
	}
	rows, layout := c.rows, &w.layout
	layout.Keys = b.hi
	block := b.data[b.place:][:p.packed.Size]
	keys, keyScales := p.packed.K.Split(block[:p.packed.KeyBytes])
	keys, keyFormat := w.levels.ReadKeys(p.packed, keys, b.place, rows <= p.codeRows)
	values, valueScales := keys, keyScales
	if p.valueKind != kindLatent {
		values, valueScales = p.packed.V.Split(block[p.packed.KeyBytes:])
	}
	switch p.keyKind {
	case kindPanels:
		floatKind{}.keys(w, p, c, b)
		w.queue.Pointer = w.pointer
		k, panels := elements[float32](keys), (b.hi+panel-1)/panel
		floats.Score(&tuned, w.s, q, k, rows, p.d, panels, &w.queue)
	case kindBits:
		narrow.Score(&tuned, keyFormat, w.s, q, keys, rows, p.d, b.hi)
	case kindIntegers:
		w.ints.scores(p, w.s, c.at, keys, keyScales, rows, b.hi, keyFormat)
	}
	masked = w.weigh(p, st, &weighed{keyScales: keyScales, scales: valueScales, visible: visible,
		row: c.at, rows: rows, hi: b.hi})
	valueFormat := p.packed.V.Format
	if p.valueKind != kindLatent {
		values, valueFormat = w.levels.ReadValues(p.packed, values, b.place, rows <= p.codeRows)
	}
	sums := kernel.Sums{O: o, P: w.s, Alpha: w.alpha, Rows: rows, OStride: p.oStride, PStride: Block}
	switch p.valueKind {
	case kindPanels:
		floats.Accumulate(&tuned, &sums, elements[float32](values), layout)
	case kindBits:
		narrow.Accumulate(&tuned, valueFormat, &sums, values, layout)
	case kindIntegers:
		w.ints.accumulate(p, o, values, w.alpha, rows, layout, valueFormat)
	case kindLatent:
		latentKind{}.accumulateFew(w, p, o, values, rows, b.hi, layout.Overwrite)
	}
	return masked
}
