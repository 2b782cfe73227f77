package attn

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/ragged"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// A call over several sequences is divided into work items, which share pages where possible, and
// items are divided among workers by their cost, not by the number of sequences.

// decideSequences is decide for a call over sequences. (As a part of decide, it would make the
// buffers of every caller escape.)
func (p *plan) decideSequences(t *tuning.Row, workers int) {
	s := p.sequences
	rows, target := p.beginSchedule(t, workers), maxCost
	p.chunkRows = 1
	p.orderSequences()
	if workers > 1 {
		target = p.cost(t) / float64(workers*tuning.TasksPerWorker)
	}
	s.Items = s.Items[:0]
	for first := 0; first < len(s.Order); {
		n := s.Sharing(first, rows, p.group)
		if n == 1 {
			p.divideRows(t, first, rows, target)
		} else {
			s.Items = append(s.Items, ragged.Item{First: first, Sequences: n})
		}
		first += n
	}
	states, largest := 0, 1
	for i := range s.Items {
		w := &s.Items[i]
		p.divideKeys(t, w, target, &states)
		if w.Heads, w.Chunks = 1, p.kvHeads; s.Documents && !p.integers && w.Segments == 1 {
			p.chooseHeads(t, w, rows, target)
		}
		largest = max(largest, w.Heads*w.Rows)
	}
	p.chunkRows = largest
	if workers > 1 {
		s.SortItems()
	}
	p.chunks = s.Number()
	p.decideReads(t)
}

// maxCost is the target cost if items need not be divided.
const maxCost = 1e300

// orderSequences sorts sequences so that those sharing pages are adjacent, and computes the
// positions that each shares with the one before and the bytes that all read. It leaves out
// sequences without queries.
func (p *plan) orderSequences() {
	s := p.sequences
	s.Order, p.bytes = s.Order[:0], 0
	var c chunk
	for i := range s.Sequences {
		if x := &s.Sequences[i]; x.Queries > 0 {
			x.Shared = 0
			s.Order = append(s.Order, int32(i))
			p.rowsOfSequence(&c, x, 0, 0, x.Queries*p.group)
			_, bytes := p.work(&c, 0)
			p.bytes += float64(p.kvHeads) * bytes
		}
	}
	if !s.Documents && !p.listed { // else nothing is shared
		s.SortByPages()
	}
}

// divideRows appends the items of one sequence: as few as the cache allows, or more so that each
// costs at most target.
func (p *plan) divideRows(t *tuning.Row, at, maxRows int, target float64) {
	s := p.sequences
	x := &s.Sequences[s.Order[at]]
	all := x.Queries * p.group
	n := (all + maxRows - 1) / maxRows
	var c chunk
	p.rowsOfSequence(&c, x, 0, 0, all)
	if cost := t.Cost(p.work(&c, 0)); cost > target {
		minRows := minChunkRows
		if c.keys-c.from > Segment {
			minRows = 4 * minChunkRows // keys are read again for each item: prefer segments
		}
		n = max(n, min(int(cost/target)+1, (all+minRows-1)/minRows))
	}
	rows := min(all, kernel.RoundUp((all+n-1)/n, kernel.SplitRows))
	if p.listed {
		rows = min(all, p.alignRows(min(all, maxRows)))
	}
	for row := 0; row < all; row += rows {
		item := ragged.Item{First: at, Sequences: 1, Row: row, Rows: min(rows, all-row)}
		s.Items = append(s.Items, item)
	}
}

// chooseHeads chooses how many key/value heads of a document are computed together: for few rows
// the heads with adjacent memory, for a document of one block as many heads as fit. They are fewer
// if they would cost more than target.
func (p *plan) chooseHeads(t *tuning.Row, w *ragged.Item, maxRows int, target float64) {
	p.chunkRows = w.Rows
	w.Heads = p.headsBeside(t, maxRows)
	if s := p.sequences; s.Sequences[s.Order[w.First]].Keys <= Block {
		w.Heads = max(1, min(p.kvHeads, maxRows/w.Rows))
	}
	if float64(w.Heads)*w.Cost > target {
		w.Heads = max(1, int(target/w.Cost))
	}
	w.Chunks = partsOf(p.kvHeads, w.Heads)
	w.Cost *= float64(w.Heads)
}

// divideKeys divides the keys of an item into segments if it costs more than target, and there is
// memory for their states.
func (p *plan) divideKeys(t *tuning.Row, w *ragged.Item, target float64, states *int) {
	s := p.sequences
	w.Segments, w.Cost = 1, 0
	lo, hi := maxLength, 0
	var c chunk
	for i, n := range s.Order[w.First:][:w.Sequences] {
		x, row, rows, shared := &s.Sequences[n], w.Row, w.Rows, 0
		if w.Sequences > 1 {
			row, rows = 0, x.Queries*p.group
			if i > 0 {
				shared = x.Shared
			}
		}
		p.rowsOfSequence(&c, x, 0, row, rows)
		w.Cost += t.Cost(p.work(&c, shared))
		if w.Sequences > 1 {
			w.Rows += rows
		}
		lo, hi = min(lo, c.from), max(hi, c.keys)
	}
	if p.listed {
		lo, hi = 0, p.lists.D
	}
	segments := (hi+Segment-1)/Segment - lo/Segment
	w.StateSize = kernel.RoundUp(w.Rows*(p.oStride+2), panel)
	size, ok := views.Product(p.kvHeads, segments, w.StateSize)
	if ok && w.Cost > target && segments > 1 && size <= segmentBytes/4-*states {
		w.Segment, w.Segments = lo/Segment, segments
		w.State = *states
		*states += size
		w.Cost /= float64(segments)
	}
}
