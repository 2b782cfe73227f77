package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/online"
)

// latentKind is for values that are the first channels of keys (ValuesInKeys), as in multi-head
// latent attention. Kernels read values in another order than keys, so the values of a block are
// transposed: once for all rows of a chunk, or for few rows some channels at a time, which stay in
// the L1 cache until they are read.
//
// In I8 and I4 a value has the integers and the scale of its key. The channels of values, and the
// channels after them, are rotated separately, so that outputs, which are sums of rotated values,
// can be rotated back, once a row at the end.
type latentKind struct{}

// few reports whether values are transposed as they are read, for rows that see all if equal.
func (latentKind) few(p *plan, c *chunk, equal bool) bool { return equal && c.rows <= p.spanRows }

// widened reports whether values are transposed from float32 keys, widened or not.
func (latentKind) widened(p *plan, c *chunk, equal bool) bool {
	return p.keyKind == kindPanels || p.keyKind == kindBits && !(bitKind{}).widens(p, c, equal)
}

func (latentKind) values(w *scratch, p *plan, c *chunk, b *blockKeys) {
	few, widened := (latentKind{}).few(p, c, b.equal), (latentKind{}).widened(p, c, b.equal)
	if w.typed = few || !widened; widened {
		w.layoutPanels(p, false) // the transposed values are in the cache
	} else {
		w.layoutTyped(p, p.packed, c.rows)
	}
	switch {
	case few:
	case widened:
		floats.TransposeFloats(tuned.ISA, w.v, w.floatKeys(p, b), p.d, p.dv, b.hi)
	default:
		keys := w.latentKeys(p, b)
		latentKind{}.transpose(w, p, keys, p.dv, p.packed.Cols, b.hi)
	}
}

// latentKeys returns the keys of a block that are transposed.
func (w *scratch) latentKeys(p *plan, b *blockKeys) []byte {
	keys, _ := p.packed.Keys(b.data[b.place:])
	keys, _ = w.levels.ReadKeys(p.packed, keys, b.place, false)
	return keys
}

// transpose transposes the first channels of n keys of fewer bits to the order of values, in w.v.
func (latentKind) transpose(w *scratch, p *plan, keys []byte, channels, cols, n int) {
	to := memoryOf(w.v)
	if p.packed.K.Bytes == 2 {
		floats.TransposeHalves(tuned.ISA, elements[uint16](to), elements[uint16](keys), p.d, channels, n)
	} else {
		floats.TransposeGroups(tuned.ISA, to, keys, p.d, channels, cols, n)
	}
}

func (latentKind) accumulate(w *scratch, p *plan, c *chunk, st *online.State, b *blockKeys, t *tile,
	at int) {
	switch {
	case (latentKind{}).few(p, c, b.equal):
		keys := w.latentKeys(p, b)
		latentKind{}.accumulateFew(w, p, st.O[c.at*p.oStride:], keys, c.rows, b.hi, st.Overwrite)
	case p.integers:
		w.accumulateIntegers(p, c, st, memoryOf(w.v), t, p.packed.K.Read)
	case !w.typed:
		floatKind{}.accumulate(w, p, c, st, b, t, at)
	default:
		w.accumulateTyped(p, c, st, p.packed.K.Read, memoryOf(w.v), t, at)
	}
}

// fewBytes of a block's values are transposed at a time for few rows.
const fewBytes = 32 << 10

// accumulateFew adds the values of the first n keys of a block, that all rows see.
func (latentKind) accumulateFew(w *scratch, p *plan, o []float32, keys []byte, rows, n int,
	overwrite bool) {
	layout := kernel.PanelLayout{Keys: n, Stride: panel, PanelStride: Block * panel,
		Overwrite: overwrite}
	size, typed := p.packed.K.Bytes, memoryOf(w.v)
	step := fewBytes / Block / size
	for first := 0; first < p.dv; first += step {
		channels := min(step, p.dv-first)
		o, keys := o[first:], keys[first*panel*size:]
		sums := kernel.Sums{O: o, P: w.s, Alpha: w.alpha, Rows: rows, OStride: p.oStride,
			PStride: Block}
		layout.Cols = kernel.RoundUp(channels, panel)
		if size == 4 {
			layout.Cols = kernel.RoundUp(channels, 8)
			floats.TransposeFloats(tuned.ISA, w.v, elements[float32](keys), p.d, channels, n)
			floats.Accumulate(&tuned, &sums, w.v, &layout)
			continue
		}
		latentKind{}.transpose(w, p, keys, channels, layout.Cols, n)
		if size == 1 {
			layout.Stride, layout.PanelStride = 4*layout.Cols, 4*panel
		}
		if p.integers {
			w.ints.accumulate(p, o, typed, w.alpha, rows, &layout, kernel.I8)
		} else {
			narrow.Accumulate(&tuned, p.packed.K.Read, &sums, typed, &layout)
		}
	}
}

// memoryOf returns the memory of float32 numbers as bytes.
func memoryOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
