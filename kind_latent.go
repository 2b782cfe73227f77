package attn

import "unsafe"

// latentKind is values that are the first channels of keys (ValuesInKeys), as multi-head latent
// attention keeps them. Kernels read values in another order than keys, so those of a block are
// transposed: once for all rows of a chunk, or for few rows some channels at a time, which are read
// at once and stay in the L1 cache.
//
// In I8 the integers of a key are those of its value, with the same scale. What is rotated must be
// rotated back: the channels of values, and those behind, are rotated apart, and outputs, which are
// sums of rotated values, are rotated back once a row, at the end.
type latentKind struct{}

// fewBytes of a block's values are transposed at a time for few rows.
const fewBytes = 32 << 10

func (latentKind) values(w *scratch, p *plan, c *chunk, b *part) {
	k := &w.keyed
	if c.rows <= p.spanRows && b.equal {
		if w.valued = (operands{bits: k.bits, scales: k.scales}); k.floats != nil {
			w.valued.bits = memoryOf(k.floats)
		}
		return
	}
	typed := memoryOf(w.v)
	switch {
	case k.floats != nil:
		turnFloats(w.v, k.floats, p.d, p.dv, b.hi)
		w.layoutPanels(p, 0, false) // what has just been transposed is in the cache
		w.valued = operands{floats: w.v, scales: k.scales}
		return
	case p.packed.bytes == 2:
		turnHalves(elements[uint16](typed), elements[uint16](k.bits), p.d, p.dv, b.hi)
	default:
		turnGroups(typed, k.bits, p.d, p.dv, p.packed.cols, b.hi)
	}
	w.layoutTyped(p.packed)
	w.valued = operands{bits: typed, scales: k.scales}
}

func (latentKind) accumulate(w *scratch, p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	switch {
	case c.rows <= p.spanRows && b.equal:
		latentKind{}.accumulateFew(w, p, st.o[c.at*p.oStride:], c.rows, b.hi, st.overwrite)
	case p.integers:
		integerKind{}.accumulate(w, p, c, st, t)
	default:
		bitKind{}.accumulate(w, p, c, st, b, t, at)
	}
}

// accumulateFew adds the values of the first n keys of a block, that all rows see.
func (latentKind) accumulateFew(w *scratch, p *plan, o []float32, rows, n int,
	overwrite bool) {
	layout := &w.layout
	*layout = panelLayout{keys: n, stride: panel, panelStride: Block * panel, overwrite: overwrite}
	typed, size := memoryOf(w.v), p.packed.bytes
	step := fewBytes / Block / size
	for first := 0; first < p.dv; first += step {
		cols := min(step, p.dv-first)
		o := o[first:]
		layout.cols = roundUp(cols, panel)
		switch size {
		case 4:
			layout.cols = roundUp(cols, 8)
			turnFloats(w.v, elements[float32](w.valued.bits)[first*panel:], p.d, cols, n)
			accumulate(o, w.s, w.v, w.alpha, rows, p.oStride, Block, layout)
			continue
		case 2:
			turnHalves(elements[uint16](typed), elements[uint16](w.valued.bits)[first*panel:], p.d, cols, n)
		case 1:
			turnGroups(typed, w.valued.bits[first*panel:], p.d, cols, layout.cols, n)
			layout.stride, layout.panelStride = 4*layout.cols, 4*panel
		}
		if p.integers {
			accumulateInt8(o, integerRows{words: w.ints.weights}, typed, w.alpha, w.ints.scales, rows,
				p.oStride, Block, 1, layout)
		} else {
			accumulateTyped(p.packed.format, o, w.s, typed, w.alpha, rows, p.oStride, Block, layout)
		}
	}
}

// memoryOf is float32 numbers as bytes.
func memoryOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
