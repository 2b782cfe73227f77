package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/stop"
)

// attend computes a validated and scheduled call on the calling goroutine.
func (p *plan) attend() {
	w := scratches.Get().(*scratch)
	w.fit(p)
	for i := range p.chunks {
		w.attendChunk(p, i, i+1)
	}
	scratches.Put(w)
}

// attendChunk computes chunk i of the call. next is the caller's next chunk, or at least the number
// of chunks if there is none.
func (w *scratch) attendChunk(p *plan, i, next int) {
	var c chunk
	if p.sequences != nil {
		w.prefix = p.sequenceChunk(i, &c, w.prefix)
	} else if padding := p.chunk(i, &c); padding > 0 {
		p.clearRows(&c, padding)
	}
	if c.rows == 0 {
		return
	}
	w.loadQueries(p, &c)
	if next < p.chunks && p.queues(&c) {
		switch {
		case p.sequences == nil:
			p.chunk(next, &w.next)
		case p.sequences.Documents:
			p.sequenceChunk(next, &w.next, nil)
		}
	}
	rows := c.heads * c.rows
	switch {
	case c.lo == c.hi:
		w.total.Reset(rows, p.oStride)
	case c.hi <= (c.lo/Segment+1)*Segment:
		w.total.Restart(rows)
		w.addSegment(p, &c, &w.total, c.lo, c.hi)
	default:
		for first := c.lo; first < c.hi; first = (first/Segment + 1) * Segment {
			w.partial.Restart(rows)
			w.addSegment(p, &c, &w.partial, first, min(c.hi, (first/Segment+1)*Segment))
			w.push(p, first/Segment, rows)
		}
		w.fold(p, rows)
	}
	w.finish(p, &c)
}

// clearRows writes the results of the n rows of each head after the chunk's, which see no keys.
func (p *plan) clearRows(c *chunk, n int) {
	for r := range c.heads * n {
		h, i := p.locate(c.kv+r/n, c.row+c.rows+r%n)
		stop.Clear(p.dst.row(c.b, h, i))
		if p.lse != nil {
			p.lse[(c.b*p.heads+h)*p.lq+i] = negInf
		}
		if p.weights.Data != nil {
			stop.Clear(p.weights.row(c.b, h, i))
		}
	}
}

// push adds w.partial, the state of segment i, to the tree. Segments are in ascending order;
// skipped ones are before all others, and are empty.
func (w *scratch) push(p *plan, i, rows int) {
	x := w.tree.New(w.fitted.rows, w.fitted.oStride)
	*x, w.partial = w.partial, *x
	shape, merges := append(w.tree.Shape, segment.Node{First: i * Segment, Keys: Segment}).Settle()
	w.tree.Merge(tuned.ISA, shape, merges, rows, p.oStride, &w.units)
}

// fold merges the nodes of the tree, at least one, into w.total: the last ones first, as if the
// missing segments of the largest one existed and were empty.
func (w *scratch) fold(p *plan, rows int) {
	t := &w.tree
	t.Merge(tuned.ISA, t.Shape[:0], len(t.Rows)-1, rows, p.oStride, &w.units)
	t.Rows[0].State, w.total = w.total, t.Rows[0].State
	t.Reset()
}

// mergeSinks merges each row, in natural units, with a state of maximum sink, sum 1 and output 0.
// Fully masked rows stay empty, whatever the sink. Rows whose maximum overflows in natural units do
// not change, because the sink's share is 0 there.
func (w *scratch) mergeSinks(p *plan, c *chunk) {
	total, sink := &w.total, &w.partial
	for r := range c.rows {
		row := c.at + r
		h, _ := p.locate(c.kv, c.row+r)
		sink.M[r], sink.L[r] = p.sinks[h], 1
		unit, _ := w.units.Of(row)
		m := float32(total.M[row] * unit)
		w.natural[row] = !(m > math.MaxFloat32 && sink.M[r] <= math.MaxFloat32)
		if w.natural[row] {
			total.M[row] = m
		} else {
			sink.M[r], sink.L[r] = negInf, 0
		}
		if total.L[row] == 0 {
			sink.M[r] = negInf
		}
	}
	clear(sink.O[:p.oStride])
	floats.MergeSums(tuned.ISA, total.M[c.at:][:c.rows], total.L[c.at:], sink.M, sink.L, w.alpha,
		w.beta, f32.Log2E)
	for r := range c.rows {
		floats.Merge(tuned.ISA, total.O[(c.at+r)*p.oStride:], sink.O[:p.oStride], w.alpha[r], w.beta[r])
	}
}

// loadQueries begins a chunk, and copies its queries to scratch, unless kernels can read them in
// place. The chunk before may be of another call.
func (w *scratch) loadQueries(p *plan, c *chunk) {
	w.next.rows = 0 // unless the caller sets one
	w.queue.Clear() // unless there are enough rows for a queue
	w.ints.bad = w.ints.bad[:0]
	if w.units.All, w.units.Own = p.unit, nil; p.integers && !p.natural {
		w.units.Own = w.ints.units
	}
	if p.queriesInPlace {
		return
	}
	var buffer chunk
	for i := range max(c.heads, c.together) {
		h := w.head(c, i, &buffer)
		if p.bfloat16 {
			w.pairs.load(p, h)
			continue
		}
		q := w.q[h.at*p.d:][:h.rows*p.d]
		if p.integers && p.group == 1 {
			from := p.q.Data[p.q.offset(h.b, h.kv, h.row):]
			done := w.ints.quantizeRotated(p, h, from)
			if rest := h.rows - done; rest > 0 {
				p.rotateCopy(q[done*p.d:], from[done*p.q.SL:], rest, p.q.SL)
			}
			w.ints.quantizeQueries(p, h, q, done)
			continue
		}
		if p.group == 1 && p.q.SL == p.d { // one run of memory
			stop.Copy(q, p.q.Data[p.q.offset(h.b, h.kv, h.row):])
		} else {
			for r := range h.rows {
				head, i := p.locate(h.kv, h.row+r)
				stop.Copy(q[r*p.d:][:p.d], p.q.Data[p.q.offset(h.b, head, i):])
			}
		}
		if p.flip {
			floats.Scale(tuned.ISA, q, q, -1)
		}
		if p.integers || p.packed != nil && p.packed.Rotates {
			p.rotateQueries(q)
		}
		if p.integers {
			w.ints.quantizeQueries(p, h, q, 0)
		}
	}
}

// finish writes the results of the chunk.
func (w *scratch) finish(p *plan, c *chunk) {
	var buffer chunk
	for i := range max(c.heads, c.together) {
		h := w.head(c, i, &buffer)
		if p.lse != nil {
			w.writeLSE(p, h)
		}
		if p.sinks != nil {
			w.mergeSinks(p, h)
		}
		total, step := &w.total, 1
		if p.unrotate > 1 {
			o := total.O[h.at*p.oStride:]
			integers.Rotate(tuned.ISA, o, o, h.rows, p.dv, p.oStride, p.oStride, p.unrotate)
		}
		if p.group == 1 {
			step = h.rows // they are contiguous in dst, too
		}
		for r := 0; r < h.rows; r += step {
			head, i := p.locate(h.kv, h.row+r)
			o, l := total.O[(h.at+r)*p.oStride:], total.L[h.at+r:]
			floats.Normalize(tuned.ISA, p.dst.Data[p.dst.offset(h.b, head, i):], o, l, step, p.dv, p.dst.SL,
				p.oStride)
		}
		if p.weights.Data != nil {
			w.writeWeights(p, h)
		}
	}
}

func (w *scratch) writeLSE(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		m, l := w.total.M[c.at+r], w.total.L[c.at+r]
		unit, _ := w.units.Of(c.at + r)
		p.lse[(c.b*p.heads+h)*p.lq+i] = f32.FMA(m, unit, f32.Log(l))
	}
}

// writeWeights computes the scores again, now that the final maximum and sum are known.
func (w *scratch) writeWeights(p *plan, c *chunk) {
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		stop.Clear(p.weights.row(c.b, h, i))
	}
	for lo := c.lo; lo < c.hi; {
		b := blockKeys{first: lo / Block * Block}
		b.lo, b.hi = lo-b.first, min(c.hi-b.first, Block)
		w.weightsBlock(p, c, &b)
		lo = b.first + b.hi
	}
}

// weightsBlock writes the weights of keys of one block.
func (w *scratch) weightsBlock(p *plan, c *chunk, b *blockKeys) {
	if p.packed != nil {
		w.findBlock(p, c, b)
	}
	if (p.looks || p.parents != nil && !b.equal) && !w.look(p, c, b) {
		return
	}
	w.keys(p, c, b)
	w.queue.Clear()
	var t tile
	for row := 0; row < c.rows; row += t.rows {
		if b.tile(p, c, row, &t); b.partly {
			w.see(p, c, b, &t)
		}
		if t.lo == t.hi {
			continue
		}
		w.score(p, c, b, &t, 0)
		w.optionScores(p, c, b, &t, 0)
		w.visibleKeys(p, c, b, &t, 0) // writing weights asks for each key
		if p.sinks != nil {
			w.naturalScores(p, c, &t)
		}
		w.writeTileWeights(p, c, b.first, &t)
	}
}

// naturalScores converts the scores of a tile to natural units, in which the final maxima are.
func (w *scratch) naturalScores(p *plan, c *chunk, t *tile) {
	for r := range t.rows {
		row := c.at + t.row + r
		if u, _ := w.units.Of(row); u != 1 && w.natural[row] {
			s := w.s[r*Block:][t.lo:t.hi]
			floats.Scale(tuned.ISA, s, s, u)
		}
	}
}

// writeTileWeights writes the weights of a tile's scores.
func (w *scratch) writeTileWeights(p *plan, c *chunk, first int, t *tile) {
	for r := range t.rows {
		row := c.at + t.row + r
		_, c2 := w.units.Of(row)
		if p.sinks != nil && w.natural[row] {
			c2 = f32.Log2E
		}
		m, l := w.total.M[row], w.total.L[row]
		if l == 0 {
			continue // fully masked: the row is already zero
		}
		h, i := p.locate(c.kv, c.row+t.row+r)
		at := p.weights.offset(c.b, h, i) + c.base + first
		to, s, visible := p.weights.Data[at+t.lo:at+t.hi], w.s[r*Block+t.lo:], w.visible[r]>>t.lo
		if p.bfloat16 {
			pairs.WriteWeights(tuned.ISA, to, s, m, 1/l, c2, visible)
			continue
		}
		floats.Weights(tuned.ISA, to, s, m, 1/l, c2, visible)
	}
}

// Sequences that begin with the same pages are computed together for these pages: all their rows
// are rows of one chunk, so each block is read once. A row has the same steps in the same order as
// alone, and so the same bits.

// addShared adds keys [lo, hi) of one segment to the states of a prefix group.
func (w *scratch) addShared(p *plan, st *online.State, lo, hi int) {
	for i := range w.prefix {
		w.prefix[i].begun = false
	}
	w.addGroup(p, w.prefix, st, lo, hi)
	for i := range w.prefix {
		if r := &w.prefix[i]; !r.begun {
			stop.Clear(st.O[r.at*p.oStride:][:r.rows*p.oStride])
		}
	}
	st.Overwrite = false
}

// addGroup is addShared for some consecutive sequences: first for the pages that all of them share,
// where blocks that all rows see whole are added to all rows together, then for each part of the
// group that shares more pages.
func (w *scratch) addGroup(p *plan, group []prefixRows, st *online.State, lo, hi int) {
	if len(group) == 1 {
		w.addAlone(p, group, st, lo, hi)
		return
	}
	shared, from, to := hi, max(lo, group[0].allLo), group[0].allHi
	for i := range group[1:] {
		x := &group[1+i]
		shared, from, to = min(shared, x.shared), max(from, x.allLo), min(to, x.allHi)
	}
	if from, to = kernel.RoundUp(from, Block), min(to, shared)/Block*Block; from < to {
		w.addAlone(p, group, st, lo, from)
		w.addTogether(p, group, st, from, to)
		lo = to
	}
	if lo < shared {
		w.addAlone(p, group, st, lo, shared)
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

// addAlone adds keys [lo, hi) to the state of one sequence after another.
func (w *scratch) addAlone(p *plan, group []prefixRows, st *online.State, lo, hi int) {
	for i := range group {
		r := &group[i]
		if lo, hi := max(lo, r.lo), min(hi, r.hi); lo < hi {
			st.Overwrite = !r.begun
			w.addSegment(p, &r.chunk, st, lo, hi)
			r.begun = true
		}
	}
}

// addTogether adds keys [lo, hi), whole blocks that all rows see, to the states of all sequences.
func (w *scratch) addTogether(p *plan, group []prefixRows, st *online.State, lo, hi int) {
	w.beside = group
	all := group[0].chunk
	all.rows, all.apart = 0, true
	all.lo, all.hi, all.allLo, all.allHi = lo, hi, lo, hi
	st.Overwrite = true
	for i := range group {
		all.rows += group[i].rows
		st.Overwrite = st.Overwrite && !group[i].begun
	}
	for i := range group {
		if r := &group[i]; !r.begun && !st.Overwrite {
			stop.Clear(st.O[r.at*p.oStride:][:r.rows*p.oStride])
		}
		group[i].begun = true
	}
	w.addSegment(p, &all, st, lo, hi)
}
