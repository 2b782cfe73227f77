package attn

// access is how kernels of few rows, which wait for memory, go through it. The zero value prefetches nothing. No
// result depends on it, so the generic code does not look at it.
type access struct {
	pointer     uintptr // along which pages are prefetched, see stream.go; 0 if they are not
	prefetchOne int     // how many bytes ahead one or two rows prefetch packed panels,
	prefetchFew int     // and three to five rows
	fourPanels  bool    // one row takes four packed panels side by side, else one after the other
	sequential  bool    // rows of the caller, or packed panels, are read in order
}

// at is the same way along a prefetch pointer, in order or not.
func (a access) at(pointer uintptr, sequential bool) access {
	a.pointer, a.sequential = pointer, sequential
	return a
}

// accessOf is what the CPU wants, but for pointer and sequential, which depend on the call.
func accessOf(t *tuning) access {
	return access{prefetchOne: t.prefetchOne, prefetchFew: t.prefetchFew, fourPanels: t.fourPanels}
}
