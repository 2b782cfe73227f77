package attn

import "unsafe"

// loadTurned is loadValues where values are part of keys, which b has.
func (w *scratch) loadTurned(p *plan, c *chunk, b *block, first, hi int) (
	v []float32, typed []byte, scales []float32) {
	layout := &b.layout
	if !b.typed && !p.int8 {
		turnFloats(w.v, b.k, p.d, p.dv, hi)
		layout.set(&tuned, 0, false) // what has just been turned is in the cache
		return w.v, nil, b.keyScales
	}
	*layout = p.packed.valueLayout(Block)
	layout.setTyped(&tuned)
	typed = memoryOf(w.v)
	switch s := p.packed; s.bytes {
	case 2:
		turnHalves(elements[uint16](typed), elements[uint16](b.kTyped), p.d, p.dv, hi)
	case 1:
		turnGroups(typed, b.kTyped, p.d, p.dv, s.cols, hi)
	}
	return nil, typed, b.keyScales
}

// memoryOf is float32 numbers as bytes.
func memoryOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}
