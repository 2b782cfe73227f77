package attn

// Sequences that begin with the same pages go through these together: all their rows are rows of
// one chunk, so each block is read once. The steps of a row are those that it makes alone, in the
// same order, and so are its bits.

// addShared adds keys [lo, hi) of one segment to the states of a prefix group.
func (w *scratch) addShared(p *plan, st *state, lo, hi int) {
	for i := range w.prefix {
		w.prefix[i].begun = false
	}
	w.addGroup(p, w.prefix, st, lo, hi)
	for i := range w.prefix {
		if r := &w.prefix[i]; !r.begun {
			clear(st.o[r.at*p.oStride:][:r.rows*p.oStride])
		}
	}
	st.overwrite = false
}

// addGroup is addShared for some sequences that follow each other: first for the pages that all of
// them share, then for those of each part of them that share more.
func (w *scratch) addGroup(p *plan, group []prefixRows, st *state, lo, hi int) {
	if len(group) == 1 {
		w.addAlone(p, group, st, lo, hi)
		return
	}
	shared := hi
	for i := range group[1:] {
		shared = min(shared, group[1+i].shared)
	}
	if shared > lo {
		w.addPrefix(p, group, st, lo, shared)
		lo = shared
	}
	for first := 0; first < len(group) && lo < hi; {
		n := 1
		for first+n < len(group) && group[first+n].shared > lo {
			n++
		}
		w.addGroup(p, group[first:first+n], st, lo, hi)
		first += n
	}
}

// addPrefix adds keys [lo, hi), which are in the same pages for all sequences. Blocks that all rows
// see whole go through all rows together.
func (w *scratch) addPrefix(p *plan, group []prefixRows, st *state, lo, hi int) {
	from, to := lo, hi
	for i := range group {
		from, to = max(from, group[i].allLo), min(to, group[i].allHi)
	}
	from, to = roundUp(from, Block), to/Block*Block
	if from >= to {
		w.addAlone(p, group, st, lo, hi)
		return
	}
	w.addAlone(p, group, st, lo, from)
	w.addTogether(p, group, st, from, to)
	w.addAlone(p, group, st, to, hi)
}

// addAlone adds keys [lo, hi) to the state of one sequence after the other.
func (w *scratch) addAlone(p *plan, group []prefixRows, st *state, lo, hi int) {
	for i := range group {
		r := &group[i]
		if lo, hi := max(lo, r.lo), min(hi, r.hi); lo < hi {
			st.overwrite = !r.begun
			w.addSegment(p, &r.chunk, st, lo, hi)
			r.begun = true
		}
	}
}

// addTogether adds keys [lo, hi), whole blocks that all rows see, to the states of all sequences.
func (w *scratch) addTogether(p *plan, group []prefixRows, st *state, lo, hi int) {
	all := group[0].chunk
	all.rows, all.apart = 0, true
	all.lo, all.hi, all.allLo, all.allHi = lo, hi, lo, hi
	st.overwrite = true
	for i := range group {
		all.rows += group[i].rows
		st.overwrite = st.overwrite && !group[i].begun
	}
	for i := range group {
		if r := &group[i]; !r.begun && !st.overwrite {
			clear(st.o[r.at*p.oStride:][:r.rows*p.oStride])
		}
		group[i].begun = true
	}
	w.addSegment(p, &all, st, lo, hi)
}
