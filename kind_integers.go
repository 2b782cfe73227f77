package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
)

// integerKind is for keys and values as integers of 8 bits, from a cache or store of I8, or
// quantized from the caller's rows. Both products are exact sums, see arithmetic.go.
type integerKind struct{}

func (integerKind) score(w *scratch, p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	form := w.ints.packing(p)
	keys, scales := form.Keys(w.integersOf(p, c, b))
	keys, format := w.levels.ReadKeys(form, keys, b.place, c.rows <= p.codeRows)
	w.ints.scores(p, w.s[at*Block:], c.at+t.row, keys, scales, t.rows, min(t.hi, b.hi), format)
}

// fullTiles is scratch.fullTiles for rows of the state from row on.
func (integerKind) fullTiles(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys, row,
	rows int) {
	x, form, block := &w.ints, w.ints.packing(p), w.integersOf(p, c, b)
	keys, keyScales := form.Keys(block)
	values, scales := form.Values(block)
	keys, keyFormat := w.levels.ReadKeys(form, keys, b.place, c.rows <= p.codeRows)
	values, valueFormat := w.levels.ReadValues(form, values, b.place, c.rows <= p.codeRows)
	w.layout.Keys, w.layout.Overwrite = Block, st.Overwrite
	for end := row + rows; row < end; row += p.tileRows {
		n := min(p.tileRows, end-row)
		m, o := st.M[row:], st.O[row*p.oStride:]
		x.scores(p, w.s, row, keys, keyScales, n, Block, keyFormat)
		masked := integers.Softmax(&tuned, x.weights.Words, x.scales, w.s, m, st.L[row:], w.alpha,
			x.factors[row:],
			scales, nil, n)
		x.accumulate(p, o, values, w.alpha, n, &w.layout, valueFormat)
		if masked {
			online.ClearMasked(m, o, n, p.oStride)
		}
	}
}

func (integerKind) values(w *scratch, p *plan, c *chunk) {
	w.typed = true
	w.layoutTyped(p, w.ints.packing(p), c.rows)
}

func (integerKind) scales(w *scratch, p *plan, c *chunk, b *blockKeys) []float32 {
	_, scales := w.ints.packing(p).Values(w.integersOf(p, c, b))
	return scales
}

func (integerKind) accumulate(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys,
	t *tile) {
	form := w.ints.packing(p)
	values, _ := form.Values(w.integersOf(p, c, b))
	values, format := w.levels.ReadValues(form, values, b.place, c.rows <= p.codeRows)
	w.accumulateIntegers(p, c, st, values, t, format)
}

// accumulateIntegers adds values that are integers, or codes, of the keys up to the last one that
// some row sees. Keys that a row does not see have weights of 0.
func (w *scratch) accumulateIntegers(p *plan, c *chunk, st *online.State, values []byte, t *tile,
	format kernel.Format) {
	w.layout.Keys, w.layout.Overwrite = t.hi, st.Overwrite
	w.ints.accumulate(p, st.O[(c.at+t.row)*p.oStride:], values, w.alpha, t.rows, &w.layout,
		format)
}

// integersOf returns a block: of the cache or store, or quantized from the caller's keys and
// values.
func (w *scratch) integersOf(p *plan, c *chunk, b *blockKeys) []byte {
	switch {
	case p.packed != nil:
		return b.data[b.place:][:p.packed.Size]
	case p.listed:
		return w.ints.blocks.Only()
	}
	return w.int8Block(p, c, b.first)
}

// int8Block returns the block with key first of the chunk's head, in a call over views.
func (w *scratch) int8Block(p *plan, c *chunk, first int) []byte {
	x := &w.ints.blocks
	to, made := x.Place(packed.Head{B: c.b, KV: c.kv, Base: c.base}, first/Block)
	if made {
		return to
	}
	from := max(first, c.from)
	n := min(first+Block, c.keys) - from
	w.writer.Fit(&x.Format)
	keys := p.k.Data[p.k.offset(c.b, c.kv, c.base+from):]
	values := p.v.Data[p.v.offset(c.b, c.kv, c.base+from):]
	w.writer.WriteKeys(&tuned, &x.Format, to, from-first, keys, p.k.SL, n)
	w.writer.WriteValues(&tuned, &x.Format, to, from-first, values, p.v.SL, n)
	return to
}
