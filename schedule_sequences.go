package attn

import (
	"cmp"
	"slices"

	"github.com/seed-1415985d/attn/internal/kernel"
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
	s.items = s.items[:0]
	for first := 0; first < len(s.order); {
		n := p.sharing(first, rows)
		if n == 1 {
			p.divideRows(t, first, rows, target)
		} else {
			s.items = append(s.items, workItem{first: first, sequences: n})
		}
		first += n
	}
	states, largest := 0, 1
	for i := range s.items {
		w := &s.items[i]
		p.divideKeys(t, w, target, &states)
		if w.heads, w.chunks = 1, p.kvHeads; s.documents && !p.integers && w.segments == 1 {
			p.chooseHeads(t, w, rows, target)
		}
		largest = max(largest, w.heads*w.rows)
	}
	p.chunkRows = largest
	if workers > 1 {
		s.sortItems()
	}
	tasks := 0
	for i := range s.items {
		w := &s.items[i]
		w.chunk, w.task = p.chunks, tasks
		p.chunks += w.chunks
		tasks += w.chunks * w.segments
	}
	p.decideReads(t)
}

// sortItems sorts items by descending cost, stably. It sorts their numbers, because items are large
// and another instance of the sort would be 6 KB of code.
func (s *sequenceCall) sortItems() {
	s.turns, s.sorted = s.turns[:0], s.sorted[:0]
	for i := range s.items {
		s.turns = append(s.turns, int32(i))
	}
	slices.SortStableFunc(s.turns, func(a, b int32) int {
		return cmp.Compare(s.items[b].cost, s.items[a].cost)
	})
	for _, i := range s.turns {
		s.sorted = append(s.sorted, s.items[i])
	}
	s.items, s.sorted = s.sorted, s.items
}

// maxCost is the target cost if items need not be divided.
const maxCost = 1e300

// orderSequences sorts sequences so that those sharing pages are adjacent, and computes the
// positions that each shares with the one before and the bytes that all read. It leaves out
// sequences without queries.
func (p *plan) orderSequences() {
	s := p.sequences
	s.order, p.bytes = s.order[:0], 0
	var c chunk
	for i := range s.sequences {
		if x := &s.sequences[i]; x.queries > 0 {
			x.shared = 0
			s.order = append(s.order, int32(i))
			p.rowsOfSequence(&c, x, 0, 0, x.queries*p.group)
			_, bytes := p.work(&c, 0)
			p.bytes += float64(p.kvHeads) * bytes
		}
	}
	if s.documents || p.listed {
		return // nothing is shared
	}
	slices.SortStableFunc(s.order, func(a, b int32) int {
		return s.sequences[a].table.Compare(s.sequences[b].table)
	})
	for i := 1; i < len(s.order); i++ {
		x, before := &s.sequences[s.order[i]], &s.sequences[s.order[i-1]]
		x.shared = x.table.Shared(before.table)
	}
}

// sharing returns the number of sequences, from order[first] on, that share pages and together have
// at most maxRows rows.
func (p *plan) sharing(first, maxRows int) int {
	n, rows := 0, 0
	for _, i := range p.sequences.order[first:] {
		x := &p.sequences.sequences[i]
		rows += x.queries * p.group
		if n > 0 && (x.shared == 0 || rows > maxRows) {
			break
		}
		n++
	}
	return n
}

// divideRows appends the items of one sequence: as few as the cache allows, or more so that each
// costs at most target.
func (p *plan) divideRows(t *tuning.Row, at, maxRows int, target float64) {
	s := p.sequences
	x := &s.sequences[s.order[at]]
	all := x.queries * p.group
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
		item := workItem{first: at, sequences: 1, row: row, rows: min(rows, all-row)}
		s.items = append(s.items, item)
	}
}

// chooseHeads chooses how many key/value heads of a document are computed together: for few rows
// the heads with adjacent memory, for a document of one block as many heads as fit. They are fewer
// if they would cost more than target.
func (p *plan) chooseHeads(t *tuning.Row, w *workItem, maxRows int, target float64) {
	p.chunkRows = w.rows
	w.heads = p.headsBeside(t, maxRows)
	if s := p.sequences; s.sequences[s.order[w.first]].keys <= Block {
		w.heads = max(1, min(p.kvHeads, maxRows/w.rows))
	}
	if float64(w.heads)*w.cost > target {
		w.heads = max(1, int(target/w.cost))
	}
	w.chunks = partsOf(p.kvHeads, w.heads)
	w.cost *= float64(w.heads)
}

// divideKeys divides the keys of an item into segments if it costs more than target, and there is
// memory for their states.
func (p *plan) divideKeys(t *tuning.Row, w *workItem, target float64, states *int) {
	s := p.sequences
	w.segments, w.cost = 1, 0
	lo, hi := maxLength, 0
	var c chunk
	for i, n := range s.order[w.first:][:w.sequences] {
		x, row, rows, shared := &s.sequences[n], w.row, w.rows, 0
		if w.sequences > 1 {
			row, rows = 0, x.queries*p.group
			if i > 0 {
				shared = x.shared
			}
		}
		p.rowsOfSequence(&c, x, 0, row, rows)
		w.cost += t.Cost(p.work(&c, shared))
		if w.sequences > 1 {
			w.rows += rows
		}
		lo, hi = min(lo, c.from), max(hi, c.keys)
	}
	if p.listed {
		lo, hi = 0, p.lists.D
	}
	segments := (hi+Segment-1)/Segment - lo/Segment
	w.stateSize = kernel.RoundUp(w.rows*(p.oStride+2), panel)
	size, ok := views.Product(p.kvHeads, segments, w.stateSize)
	if ok && w.cost > target && segments > 1 && size <= segmentBytes/4-*states {
		w.segment, w.segments = lo/Segment, segments
		w.state = *states
		*states += size
		w.cost /= float64(segments)
	}
}
