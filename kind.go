package attn

import (
	"github.com/seed-1415985d/attn/internal/online"
)

// A kind is a form of keys or of values and the way in which kernels read it. It is chosen once a
// call, in schedule.go. Each [kind] is a file with the same methods, on a type without fields:
//
//	keys, values  once a block: make what kernels read, unless they read what is there, and say how
//	              it lies and what is prefetched with it
//	score         for each tile: the products of its queries with keys
//	accumulate    the sums of values that its weights weigh
//
// The loop in span.go uses kinds only through the switches of this file. They are not calls through
// interfaces or function values, which would make the caller's buffers escape to the heap.

// keys prepares the keys of a block for score, and sets what is prefetched with them.
func (w *scratch) keys(p *plan, c *chunk, b *blockKeys) {
	if p.listed {
		w.gather(p, c, b) // and the values
	}
	switch p.keyKind {
	case kindViews, kindPanels:
		floatKind{}.keys(w, p, c, b)
	case kindBits:
		bitKind{}.keys(w, p, c, b)
	case kindPairs:
		pairKind{}.keys(w, p, c, b)
	}
}

// score stores q·k of a tile's rows with the keys of a block in w.s, from row at on.
func (w *scratch) score(p *plan, c *chunk, b *blockKeys, t *tile, at int) {
	w.queue.Pointer = w.pointer
	switch p.keyKind {
	case kindViews, kindPanels:
		floatKind{}.score(w, p, c, b, t, at)
	case kindBits:
		bitKind{}.score(w, p, c, b, t, at)
	case kindIntegers:
		integerKind{}.score(w, p, c, b, t, at)
	case kindPairs:
		pairKind{}.score(w, p, c, b, t, at)
	}
}

// values prepares the values of a block for accumulate, and sets w.layout to their layout.
func (w *scratch) values(p *plan, c *chunk, b *blockKeys) {
	w.scanned, w.typed = false, false
	switch p.valueKind {
	case kindViews, kindPanels:
		floatKind{}.values(w, p, c, b)
	case kindBits:
		bitKind{}.values(w, p, c, b)
	case kindIntegers:
		integerKind{}.values(w, p, c)
	case kindLatent:
		latentKind{}.values(w, p, c, b)
	case kindPairs:
		pairKind{}.values(w, p, c, b)
	}
}

// accumulate adds the values of a block, weighted by a tile's weights, to its outputs. In the
// tile's first step the outputs are multiplied by w.alpha before, or begin at 0.
func (w *scratch) accumulate(p *plan, c *chunk, st *online.State, b *blockKeys, t *tile, at int) {
	switch p.valueKind {
	case kindBits:
		bitKind{}.accumulate(w, p, c, st, b, t, at)
	case kindIntegers:
		integerKind{}.accumulate(w, p, c, st, b, t)
	case kindLatent:
		latentKind{}.accumulate(w, p, c, st, b, t, at)
	case kindPairs:
		pairKind{}.accumulate(w, p, c, st, b, t, at)
	default:
		floatKind{}.accumulate(w, p, c, st, b, t, at)
	}
}

// valueScales returns the scales of a block's values, one for each key, if they have scales.
func (w *scratch) valueScales(p *plan, c *chunk, b *blockKeys) []float32 {
	if p.valueKind == kindIntegers {
		return integerKind{}.scales(w, p, c, b)
	}
	return bitKind{}.scales(w, p, b)
}
