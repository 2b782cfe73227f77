package attn

// A kind is a form of keys or of values, and how kernels read it. It is chosen once a call, in
// schedule.go. Each [kind] is a file with the same methods, on a type without fields:
//
//	keys, values        find or make what kernels read of some keys of a block
//	score               the products of a tile's queries with keys
//	accumulate          the sums of values that a tile's weights weigh
//
// The switches of this file are all that the loop in span.go knows of kinds. They are not calls
// through interfaces or functions, which would make the caller's buffers escape to the heap.

// keys leaves what score reads of the keys of a part in w.keyed.
func (w *scratch) keys(p *plan, c *chunk, b *part) {
	switch p.keyKind {
	case kindPanels:
		panelKind{}.keys(w, p, c, b)
	case kindBits:
		bitKind{}.keys(w, p, c, b)
	case kindIntegers:
		integerKind{}.keys(w, p, c, b)
	default:
		viewKind{}.keys(w, p, c, b)
	}
}

// score leaves q·k of a tile's rows with the keys of a part, which are in w.keyed, in w.s, from row at
// on.
func (w *scratch) score(p *plan, c *chunk, b *part, t *tile, at int) {
	switch p.keyKind {
	case kindPanels:
		panelKind{}.score(w, p, c, b, t, at)
	case kindBits:
		bitKind{}.score(w, p, c, b, t, at)
	case kindIntegers:
		integerKind{}.score(w, p, c, b, t, at)
	default:
		viewKind{}.score(w, p, c, b, t, at)
	}
}

// values leaves what accumulate reads of the values of a part in w.valued, and how they lie in
// w.layout. Values that are part of keys are made of those in w.keyed.
func (w *scratch) values(p *plan, c *chunk, b *part) {
	w.scanned = false
	switch p.valueKind {
	case kindPanels:
		panelKind{}.values(w, p, c, b)
	case kindBits:
		bitKind{}.values(w, p, c, b)
	case kindIntegers:
		integerKind{}.values(w, p, c, b)
	case kindLatent:
		latentKind{}.values(w, p, c, b)
	default:
		viewKind{}.values(w, p, c, b)
	}
}

// accumulate adds the values of a part that a tile's weights weigh to its outputs. Those of the
// tile's first part are multiplied by w.alpha before, or begin at 0.
func (w *scratch) accumulate(p *plan, c *chunk, st *state, b *part, t *tile, at int) {
	switch p.valueKind {
	case kindBits:
		bitKind{}.accumulate(w, p, c, st, b, t, at)
	case kindIntegers:
		integerKind{}.accumulate(w, p, c, st, t)
	case kindLatent:
		latentKind{}.accumulate(w, p, c, st, b, t, at)
	default:
		panelKind{}.accumulate(w, p, c, st, b, t, at)
	}
}
