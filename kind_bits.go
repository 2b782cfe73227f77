package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
)

// bitKind is for elements of fewer bits than float32, in panels. For a few rows that see all keys
// of a block, kernels widen them in registers; otherwise a block is widened to panels of float32
// once.
type bitKind struct{}

// widens reports whether kernels widen keys and values themselves; equal says that all rows see all
// of them.
func (bitKind) widens(p *plan, c *chunk, equal bool) bool { return equal && c.rows <= p.typedRows }

func (bitKind) keys(w *scratch, p *plan, c *chunk, b *blockKeys) {
	w.pointer, w.queue.InOrder = 0, c.rows <= p.inOrderRows
	if (bitKind{}).widens(p, c, b.equal) {
		return
	}
	keys, _ := p.packed.Keys(b.data[b.place:])
	keys, format := w.levels.ReadKeys(p.packed, keys, b.place, false)
	layout := kernel.ScoreLayout(format, p.d, kernel.RoundUp(b.hi, panel))
	narrow.Widen(tuned.ISA, format, w.k, keys, p.d*panel, &layout)
}

func (bitKind) score(w *scratch, p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	lo, hi := max(t.lo, b.lo), min(t.hi, b.hi)
	keys, scales := p.packed.Keys(b.data[b.place:])
	if (bitKind{}).widens(p, c, b.equal) {
		keys, format := w.levels.ReadKeys(p.packed, keys, b.place, c.rows <= p.codeRows)
		narrow.Score(&tuned, format, w.s[at*Block:], w.queries(p, c, t.row), keys, t.rows,
			p.d, hi)
	} else {
		floatKind{}.score(w, p, c, b, t, at)
	}
	if scales != nil {
		floats.ScaleColumns(tuned.ISA, w.s[at*Block+lo:], scales[lo:hi], t.rows, Block, hi-lo)
	}
}

// layoutTyped sets w.layout to the layout of values in panels of fewer bits, for some rows.
func (w *scratch) layoutTyped(p *plan, s *packed.Blocks, rows int) {
	l := &w.layout
	l.Cols, l.Stride, l.PanelStride = s.Cols, panel, Block*panel
	if s.V.Group > 1 {
		l.Stride, l.PanelStride = s.V.Group*s.Cols, s.V.Group*panel
	}
	if p.integers {
		l.Set(&tuned, p.ahead, p.ahead, false)
		return
	}
	l.SetTyped(&tuned, s.V.Read, rows, s.D*panel*s.K.Bits/8, s.K.Scaled)
}

func (bitKind) values(w *scratch, p *plan, c *chunk, b *blockKeys) {
	if w.typed = (bitKind{}).widens(p, c, b.equal); w.typed {
		w.layoutTyped(p, p.packed, c.rows)
		return
	}
	w.layoutPanels(p, false) // the widened values are in the cache
	values, _ := p.packed.Values(b.data[b.place:])
	values, format := w.levels.ReadValues(p.packed, values, b.place, false)
	from := p.packed.ValueLayout(b.hi)
	narrow.Widen(tuned.ISA, format, w.v, values, Block*panel, &from)
}

// scales returns the scales of a block's values.
func (bitKind) scales(w *scratch, p *plan, b *blockKeys) (scales []float32) {
	if p.packed.ValuesInKeys {
		_, scales = p.packed.Keys(b.data[b.place:])
	} else {
		_, scales = p.packed.Values(b.data[b.place:])
	}
	return scales
}

func (bitKind) accumulate(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys,
	t *tile, at int) {
	if !w.typed {
		floatKind{}.accumulate(w, p, c, st, b, t, at)
		return
	}
	values, _ := p.packed.Values(b.data[b.place:])
	values, format := w.levels.ReadValues(p.packed, values, b.place, c.rows <= p.codeRows)
	w.accumulateTyped(p, c, st, format, values, t, at)
}

// accumulateTyped adds values in a format of fewer bits; a tile's rows see the first t.hi of them.
func (w *scratch) accumulateTyped(p *plan, c *chunk, st *online.State, format kernel.Format,
	values []byte, t *tile, at int) {
	w.layout.Keys, w.layout.Overwrite = t.hi, st.Overwrite
	sums := kernel.Sums{O: st.O[(c.at+t.row)*p.oStride:], P: w.s[at*Block:], Alpha: w.alpha[at:],
		Rows: t.rows, OStride: p.oStride, PStride: Block}
	narrow.Accumulate(&tuned, format, &sums, values, &w.layout)
}
