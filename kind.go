package attn

// A kind is a form of keys or of values, and how kernels read it. It is chosen once a call, in
// schedule.go. Each [kind] is a file with the same methods, on a type without fields:
//
//	layout        once a span: how its values lie, and what is prefetched with them
//	keys, values  once a block: make what kernels read, unless they read what is there
//	score         for each tile: the products of its queries with keys
//	accumulate    the sums of values that its weights weigh
//
// The switches of this file are all that the loop in span.go knows of kinds. They are not calls
// through interfaces or functions, which would make the caller's buffers escape to the heap.

// keys makes what score reads of the keys of a part.
func (w *scratch) keys(p *plan, c *chunk, b *part) {
	switch p.keyKind {
	case kindViews:
		viewKind{}.keys(w, p, c, b)
	case kindBits:
		bitKind{}.keys(w, p, c, b)
	case kindIntegers:
		integerKind{}.keys(w, p, b)
	}
}

// score leaves q·k of a tile's rows with the keys of a part in w.s, from row at on.
func (w *scratch) score(p *plan, c *chunk, b *part, t *tile, at int) {
	switch p.keyKind {
	case kindViews:
		viewKind{}.score(w, p, c, b, t, at)
	case kindPanels:
		panelKind{}.score(w, p, c, b, t, at)
	case kindBits:
		bitKind{}.score(w, p, c, b, t, at)
	case kindIntegers:
		integerKind{}.score(w, p, c, b, t, at)
	}
}

// layout leaves in w.layout how the values of a span lie.
func (w *scratch) layoutValues(p *plan, c *chunk, equal bool) {
	switch p.valueKind {
	case kindViews:
		viewKind{}.layout(w, p, c)
	case kindPanels:
		panelKind{}.layout(w, p, c)
	case kindBits:
		bitKind{}.layout(w, p, c, equal)
	case kindIntegers:
		integerKind{}.layout(w, p)
	case kindLatent:
		latentKind{}.layout(w, p, c, equal)
	}
}

// values makes what accumulate reads of the values of a part.
func (w *scratch) values(p *plan, c *chunk, b *part) {
	w.scanned = false
	switch p.valueKind {
	case kindViews:
		viewKind{}.values(w, p, c, b)
	case kindPanels:
		panelKind{}.values(w, p, c, b)
	case kindBits:
		bitKind{}.values(w, p, c, b)
	case kindIntegers:
		integerKind{}.values(w, p, b)
	case kindLatent:
		latentKind{}.values(w, p, c, b)
	}
}

// accumulate adds the values of a part that a tile's weights weigh to its outputs. Those of the
// tile's first part are multiplied by w.alpha before, or begin at 0.
func (w *scratch) accumulate(p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	switch p.valueKind {
	case kindBits:
		bitKind{}.accumulate(w, p, c, st, b, t, at)
	case kindIntegers:
		integerKind{}.accumulate(w, p, c, st, b, t)
	case kindLatent:
		latentKind{}.accumulate(w, p, c, st, b, t, at)
	default:
		panelKind{}.accumulate(w, p, c, st, b, t, at)
	}
}

// readKeys returns the keys of a block of a cache or store as kernels read them, and their scales.
// Codes were looked up.
func (w *scratch) readKeys(s *packedKV, x []byte) (keys []byte, scales []float32) {
	if keys, scales = s.k.split(x[:s.keyBytes]); s.k.format == I4 {
		keys = w.levels.keys
	}
	return keys, scales
}

// readValues is readKeys of values.
func (w *scratch) readValues(s *packedKV, x []byte) (values []byte, scales []float32) {
	if values, scales = s.v.split(x[s.keyBytes:s.block]); s.v.format == I4 {
		values = w.levels.values
	}
	return values, scales
}

// scales is the scales of a part's values, one for each key; nil if they have none.
func (w *scratch) valueScales(p *plan, c *chunk, b *part) []float32 {
	switch {
	case p.valueKind == kindIntegers:
		return integerKind{}.scales(w, p, c, b)
	case p.packed != nil && p.packed.v.scaled:
		return bitKind{}.scales(p, b)
	}
	return nil
}
