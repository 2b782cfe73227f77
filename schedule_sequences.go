package attn

import (
	"cmp"
	"slices"
)

// How a call over several sequences is divided: into pieces that share pages where they can, and for workers by how much work they are, not by
// how many sequences there are.

// decideSequences is decide for a call over sequences. (Inside of decide, it would make buffers of every caller escape.)
func (p *plan) decideSequences(t *tuning, workers int) {
	p.decideTiles(t, workers)
	p.decidePieces(t, workers)
	p.decideReads(t)
}

// decidePieces makes the pieces of a call over sequences.
func (p *plan) decidePieces(t *tuning, workers int) {
	r := p.ragged
	p.headsPerChunk, p.chunkRows = 1, 1
	p.orderSequences()
	target := p.cost(t) / float64(workers*unitsPerWorker)
	if workers == 1 {
		target = p.cost(t) + 1 // nothing is divided
	}
	most := p.mostRows(t)
	r.pieces = r.pieces[:0]
	for first := 0; first < len(r.order); {
		n := p.sharing(first, most)
		if n == 1 {
			p.divideRows(t, first, most, target)
		} else {
			r.pieces = append(r.pieces, piece{first: first, sequences: n})
		}
		first += n
	}
	states := 0
	for i := range r.pieces {
		p.divideKeys(t, &r.pieces[i], target, &states)
	}
	if workers > 1 {
		slices.SortStableFunc(r.pieces, func(a, b piece) int { return cmp.Compare(b.cost, a.cost) })
	}
	p.numberPieces()
}

// orderSequences puts sequences that share pages next to each other, and finds out how many they share. Those without queries are left out.
func (p *plan) orderSequences() {
	r := p.ragged
	r.order = r.order[:0]
	for i := range r.sequences {
		if r.sequences[i].queries > 0 {
			r.order = append(r.order, int32(i))
		}
	}
	if p.pairwise() || p.slopes != nil {
		return // rows of several sequences have nothing in common that these options could be added to at once
	}
	slices.SortStableFunc(r.order, func(a, b int32) int { return r.sequences[a].table.Compare(r.sequences[b].table) })
	for i, s := range r.order {
		r.sequences[s].shared = 0
		if i > 0 {
			r.sequences[s].shared = r.sequences[s].table.Shared(r.sequences[r.order[i-1]].table)
		}
	}
}

// sharing is how many sequences, by order, from one on share pages and are few enough rows to go through them together.
func (p *plan) sharing(first, most int) int {
	r, n, rows := p.ragged, 0, 0
	for _, s := range r.order[first:] {
		x := &r.sequences[s]
		rows += x.queries * p.group
		if n > 0 && (x.shared == 0 || rows > most) {
			break
		}
		n++
	}
	return n
}

// divideRows makes the pieces of one sequence: as few as the cache allows, or as many as workers want.
func (p *plan) divideRows(t *tuning, at, most int, target float64) {
	r := p.ragged
	s := &r.sequences[r.order[at]]
	all := s.queries * p.group
	n := (all + most - 1) / most
	if cost := p.sequenceCost(t, s, all, 0); cost > target {
		least := leastRows
		if s.table.Len()-s.table.First() > Segment {
			least = 4 * leastRows // keys are read for each piece: prefer segments
		}
		n = max(n, min(int(cost/target)+1, (all+least-1)/least))
	}
	rows := min(all, roundUp((all+n-1)/n, splitRows))
	for row := 0; row < all; row += rows {
		r.pieces = append(r.pieces, piece{first: at, sequences: 1, row: row, rows: min(rows, all-row)})
	}
}

// divideKeys divides the keys of a piece into segments if it is more work than the target, and there is memory for so many states.
func (p *plan) divideKeys(t *tuning, w *piece, target float64, states *int) {
	r := p.ragged
	w.segments, w.cost = 1, 0
	lo, hi := maxLength, 0
	for i, s := range r.order[w.first:][:w.sequences] {
		x, shared := &r.sequences[s], 0
		rows := w.rows
		if w.sequences > 1 {
			rows = x.queries * p.group
			w.rows += rows
			if i > 0 {
				shared = x.shared
			}
		}
		w.cost += p.sequenceCost(t, x, rows, shared)
		lo, hi = min(lo, x.table.First()), max(hi, x.table.Len())
	}
	p.chunkRows = max(p.chunkRows, w.rows)
	segments := (hi+Segment-1)/Segment - lo/Segment
	w.stateSize = roundUp(w.rows*(p.oStride+2), panel)
	if size, ok := product(p.kvHeads, segments, w.stateSize); ok && w.cost > target && segments > 1 && size <= segmentBytes/4-*states {
		w.segment, w.segments = lo/Segment, segments
		w.state = *states
		*states += size
		w.cost /= float64(segments)
	}
}

// numberPieces numbers chunks and units.
func (p *plan) numberPieces() {
	r := p.ragged
	r.chunks, r.units = 0, 0
	for i := range r.pieces {
		w := &r.pieces[i]
		w.chunk, w.unit = r.chunks, r.units
		r.chunks += p.kvHeads
		r.units += p.kvHeads * w.segments
	}
}

// sequenceCost estimates the nanoseconds of some rows of one key/value head, the first keys of which are read for other rows.
func (p *plan) sequenceCost(t *tuning, s *raggedSequence, rows, shared int) float64 {
	keys := float64(p.visibleKeys(s))
	read := max(0, min(keys, float64(s.table.Len()-shared)))
	flops := 2 * float64(rows) * keys * float64(p.d+p.dv)
	return t.cost(flops, read*float64((p.d+p.dv)*p.packed.bytes))
}

// visibleKeys is about how many keys a query of a sequence sees.
func (p *plan) visibleKeys(s *raggedSequence) int {
	keys := s.table.Len() - s.table.First()
	if p.left >= 0 {
		keys = min(keys, p.left+s.queries+max(0, p.right))
	}
	return keys
}

// measure notes how much work a call over sequences is.
func (p *plan) measure() {
	r := p.ragged
	r.flops, r.bytes = 0, 0
	dims := float64(p.d + p.dv)
	for i := range r.sequences {
		s := &r.sequences[i]
		keys := float64(p.visibleKeys(s))
		r.flops += 2 * float64(p.heads) * float64(s.queries) * keys * dims
		r.bytes += float64(p.kvHeads) * keys * dims * float64(p.packed.bytes)
	}
}
