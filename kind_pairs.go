package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/operand"
)

// pairKind is for products in bfloat16, Options.BFloat16, over float32 and halves, in rows or in
// panels, with values of their own or in keys. Queries, keys, weights and values are rounded to
// bfloat16, and products are sums over pairs: of dimensions for scores, of the keys of a block for
// values, which are added to outputs when they are whole. All else is as in float32.
//
// Once a block, for all rows of a chunk, its keys and values become panels of float32 as for other
// kinds, unless they are some, and these become panels of pairs. Few rows do without pairs.
type pairKind struct{}

func (pairKind) keys(w *scratch, p *plan, c *chunk, b *blockKeys) {
	x, pitch, inLines := &w.pairs, kernel.RoundUp(p.d, pairs.Group)*panel, w.pairs.inLines(p, c)
	if s := p.packed; inLines && s != nil && s.K.Format == kernel.BF16 && !s.ValuesInKeys {
		return
	}
	k, from, to := pairKind{}.floatKeys(w, p, c, b), b.lo/panel, (b.hi+panel-1)/panel
	if inLines {
		return
	}
	for i := from; i < to; i++ {
		pairs.PackPanel(tuned.ISA, x.k[2*i*pitch:], k[i*p.d*panel:], p.d)
	}
	if !pairs.Flushes {
		x.leastKey = pairs.LeastOf(elements[uint16](x.k[2*from*pitch : 2*to*pitch]))
	}
}

// floatKeys returns the keys of a block as panels of float32.
func (pairKind) floatKeys(w *scratch, p *plan, c *chunk, b *blockKeys) []float32 {
	switch s := p.packed; {
	case s == nil && p.listed: // gathered
	case s == nil:
		from := b.lo / panel * panel // panels begin at multiples of panel
		k := p.k.Data[p.k.offset(c.b, c.kv, c.base+b.first+from):]
		floats.PackKeys(&tuned, w.k[from*p.d:], k, p.k.SL, b.hi-from, p.d)
	case s.K.Format == kernel.F32:
		return elements[float32](b.data[b.place:][:s.KeyBytes])
	default:
		keys, _ := s.Keys(b.data[b.place:])
		layout := kernel.ScoreLayout(s.K.Format, p.d, kernel.RoundUp(b.hi, panel))
		narrow.Widen(tuned.ISA, s.K.Format, w.k, keys, p.d*panel, &layout)
	}
	return w.k
}

func (pairKind) score(w *scratch, p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	x, y, row := &w.pairs, &w.pairs.products, c.at+t.row
	from := max(t.lo, b.lo) / panel * panel
	y.O, y.OStride = w.s[at*Block+from:], Block
	y.Inputs, y.Stride = p.d, kernel.RoundUp(p.d, pairs.Group)*panel
	y.Cols = kernel.RoundUp(min(t.hi, b.hi)-from, panel)
	if x.inLines(p, c) {
		lines := pairKind{}.lines(w, p, c, b, from)
		lines.Multiply(&tuned, y, x.queries.From(row, 0), x.queries.Pitch, t.rows)
		return
	}
	y.Panels = x.k[2*from/panel*y.Stride:]
	y.Normal = x.queries.Normal(row, t.rows, x.leastKey)
	x.queries.Multiply(&tuned, y, row, t.rows)
}

// lines are the keys of a block, from one on, which is not in pairs.
func (pairKind) lines(w *scratch, p *plan, c *chunk, b *blockKeys, from int) (l pairs.Lines) {
	if s := p.packed; s != nil && s.K.Format != kernel.F16 {
		l.Format = s.K.Format
		l.Data = b.data[b.place:][from*p.d*s.K.Bytes : s.KeyBytes]
		return l
	}
	l.Data = rawBytes(w.k[from*p.d:])
	if next := c.base + b.first + Block; p.packed == nil && p.k.SL == p.d && next < p.k.L {
		// while these are multiplied, the next ones come from memory
		at := p.k.offset(c.b, c.kv, next)
		l.Ahead = int(operand.Address(p.k.Data, at) - operand.Address(w.k, from*p.d))
	}
	return l
}

func (pairKind) values(w *scratch, p *plan, c *chunk, b *blockKeys) {
	if w.pairs.valuesInPlace(p, c, b) {
		return
	}
	x, v := &w.pairs, pairKind{}.floatValues(w, p, c, b)
	for i := 0; i < p.oStride; i += panel {
		pairs.PackPanel(tuned.ISA, x.v[2*i*Block:], v[i*Block:], Block)
	}
	if !pairs.Flushes {
		x.leastValue = pairs.LeastOf(elements[uint16](x.v[:2*Block*p.oStride]))
	}
}

// floatValues returns the values of a block as panels of float32, with zeros for keys outside it.
func (pairKind) floatValues(w *scratch, p *plan, c *chunk, b *blockKeys) []float32 {
	v := w.v
	switch s := p.packed; {
	case s == nil && p.listed: // gathered
	case s == nil:
		from := p.v.Data[p.v.offset(c.b, c.kv, c.base+b.first+b.lo):]
		floats.PackValues(&tuned, w.v[b.lo*panel:], from, p.v.SL, b.hi-b.lo, p.dv)
	case s.ValuesInKeys:
		k := w.k
		if s.K.Format == kernel.F32 {
			k = elements[float32](b.data[b.place:][:s.KeyBytes])
		}
		floats.TransposeFloats(tuned.ISA, w.v, k, p.d, p.dv, b.hi)
	case s.V.Format == kernel.F32 && b.lo == 0 && b.hi == Block:
		return elements[float32](b.data[b.place:][s.KeyBytes:s.Size])
	case s.V.Format == kernel.F32:
		copy(w.v, elements[float32](b.data[b.place:][s.KeyBytes:s.Size]))
	default:
		values, _ := s.Values(b.data[b.place:])
		layout := s.ValueLayout(b.hi)
		narrow.Widen(tuned.ISA, s.V.Format, w.v, values, Block*panel, &layout)
	}
	for i := 0; i < p.oStride; i += panel {
		clear(v[i*Block:][:b.lo*panel])
		clear(v[i*Block:][b.hi*panel : Block*panel])
	}
	return v
}

func (pairKind) accumulate(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys, t *tile,
	at int) {
	x, y := &w.pairs, &w.pairs.products
	o := st.O[(c.at+t.row)*p.oStride:][:t.rows*p.oStride]
	y.O, y.OStride, y.Inputs = o, p.oStride, Block
	y.Panels, y.Stride, y.Cols = x.v[:2*Block*p.oStride], Block*panel, p.oStride
	y.Normal = pairs.Flushes || pairs.Normal(pairs.LeastOfWeights, x.leastValue)
	if !st.Overwrite {
		y.O = x.sums
	}
	if x.valuesInPlace(p, c, b) {
		var l pairs.Lines
		if s := p.packed; s != nil {
			l.Data, l.Format = b.data[b.place:][s.KeyBytes:s.Size], s.V.Format
		} else { // the rows of the next block are prefetched
			l.Data, l.Rows = rawBytes(p.v.Data[p.v.offset(c.b, c.kv, c.base+b.first):]), p.v.SL
			l.Ahead = 4 * Block * p.v.SL
		}
		l.Multiply(&tuned, y, w.s[at*Block:], Block, t.rows)
	} else if t.uniform && t.lo <= b.lo && t.hi >= b.hi || (pairKind{}).finite(w, p) {
		x.weights.Load(tuned.ISA, w.s[at*Block:], t.rows)
		x.weights.Multiply(&tuned, y, 0, t.rows)
	} else {
		y.MultiplySeen(&tuned, w.visible[at:][:t.rows], w.s[at*Block:], x.seen)
	}
	if !st.Overwrite {
		floats.MergeRows(tuned.ISA, o, x.sums, w.alpha[at:][:t.rows], ones[:], p.oStride)
	}
}

// inLines reports whether products read keys as they lie in a cache or store, or in panels.
func (x *pairScratch) inLines(p *plan, c *chunk) bool {
	return x.queries.InLines(&tuned, c.rows, p.d)
}

// valuesInPlace does so for the values of a block, which all rows see.
func (x *pairScratch) valuesInPlace(p *plan, c *chunk, b *blockKeys) bool {
	if !b.equal || p.looks || p.parents != nil || b.lo > 0 || b.hi < Block {
		return false
	}
	s, inRows := p.packed, !p.listed && p.dv%panel == 0 && p.v.SL > 0
	return (s == nil && inRows || s != nil && !s.ValuesInKeys && s.V.Format != kernel.F16) &&
		x.queries.InLines(&tuned, c.rows, Block)
}

// finite reports whether no value of the block is NaN or infinite. The block is searched once.
func (pairKind) finite(w *scratch, p *plan) bool {
	if !w.scanned {
		w.scanned, w.finite = true, pairs.FinitePanels(w.pairs.v[:2*Block*p.oStride])
	}
	return w.finite
}
