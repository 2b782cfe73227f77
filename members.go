package attn

// Sequences that begin with the same pages go through these together: all their rows are rows of one chunk, so each block is read once. The
// steps of a row are those that it makes alone, in the same order, and so are its bits.

// keys adds keys [lo, hi) of one segment to a state.
func (w *scratch) keys(p *plan, c *chunk, st *state, lo, hi int) {
	if !c.several {
		w.segment(p, c, st, lo, hi)
		return
	}
	for i := range w.members {
		w.members[i].begun = false
	}
	w.memberKeys(p, w.members, st, lo, hi)
	for i := range w.members {
		if m := &w.members[i]; !m.begun {
			clear(st.o[m.at*p.oStride:][:m.rows*p.oStride])
		}
	}
	st.overwrite = false
}

// memberKeys is keys for some members that follow each other: first for the pages that all of them share, then for those of each part of
// them that share more.
func (w *scratch) memberKeys(p *plan, members []member, st *state, lo, hi int) {
	if len(members) == 1 {
		w.eachAlone(p, members, st, lo, hi)
		return
	}
	shared := hi
	for i := range members[1:] {
		shared = min(shared, members[1+i].shared)
	}
	if shared > lo {
		w.sharedKeys(p, members, st, lo, shared)
		lo = shared
	}
	for first := 0; first < len(members) && lo < hi; {
		n := 1
		for first+n < len(members) && members[first+n].shared > lo {
			n++
		}
		w.memberKeys(p, members[first:first+n], st, lo, hi)
		first += n
	}
}

// sharedKeys adds keys [lo, hi), which are in the same pages for all members. Blocks that all rows see whole go through all rows together.
func (w *scratch) sharedKeys(p *plan, members []member, st *state, lo, hi int) {
	from, to := lo, hi
	for i := range members {
		from, to = max(from, members[i].allLo), min(to, members[i].allHi)
	}
	from, to = roundUp(from, Block), to/Block*Block
	if from >= to {
		w.eachAlone(p, members, st, lo, hi)
		return
	}
	w.eachAlone(p, members, st, lo, from)
	w.allTogether(p, members, st, from, to)
	w.eachAlone(p, members, st, to, hi)
}

// eachAlone adds keys [lo, hi) to the state of one member after the other.
func (w *scratch) eachAlone(p *plan, members []member, st *state, lo, hi int) {
	for i := range members {
		m := &members[i]
		if lo, hi := max(lo, m.lo), min(hi, m.hi); lo < hi {
			st.overwrite = !m.begun
			w.segment(p, &m.chunk, st, lo, hi)
			m.begun = true
		}
	}
}

// allTogether adds keys [lo, hi), whole blocks that all rows see, to the states of all members.
func (w *scratch) allTogether(p *plan, members []member, st *state, lo, hi int) {
	all := members[0].chunk
	all.rows, all.several = 0, true
	all.lo, all.hi, all.allLo, all.allHi = lo, hi, lo, hi
	st.overwrite = true
	for i := range members {
		all.rows += members[i].rows
		st.overwrite = st.overwrite && !members[i].begun
	}
	for i := range members {
		if m := &members[i]; !m.begun && !st.overwrite {
			clear(st.o[m.at*p.oStride:][:m.rows*p.oStride])
		}
		members[i].begun = true
	}
	w.segment(p, &all, st, lo, hi)
}
