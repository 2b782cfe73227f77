package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/pages"
)

// sequenceCall is a call over several sequences of a store, or documents: their queries are packed
// one sequence after the other, each sequence sees only its own keys, and work items differ in
// size.
type sequenceCall struct {
	documents bool // keys are packed, too

	sequences []callSequence
	order     []int32 // of sequences with queries: those that share pages are next to each other
	items     []workItem
	turns     []int32    // numbers of items, to sort them,
	sorted    []workItem // and the sorted items

	longest   int // queries of a sequence
	keys      int // of the longest sequence
	blockRows int // blocks of queries, counted for each sequence by itself
}

// callSequence is one sequence of a call, or a document.
type callSequence struct {
	table          *pages.Table // nil for a document
	key, keys      int          // a document's first key among all, and their number
	query, queries int          // its first query among all, and their number
	blockRow       int          // its first block of queries among all
	shared         int          // positions in the pages of the sequence before it, by order
}

// workItem is rows of queries of one sequence, or all rows of several sequences that share pages.
// It has a chunk for each key/value head, or for a few heads of a document. A chunk that workers
// share has a task for each segment.
type workItem struct {
	first, sequences int // a run of sequenceCall.order
	row, rows        int // rows [row, row+rows) of one sequence
	heads            int // key/value heads of a chunk
	segment          int // the first segment that rows see, and
	segments         int // the number of segments of its keys, 1 if they are whole
	chunks           int // their number
	chunk, task      int // the first chunk, and the first task
	state            int // offset of the states of its segments,
	stateSize        int // and how large each is
	cost             float64
}

// drop clears references to the caller's memory.
func (s *sequenceCall) drop() {
	clear(s.sequences)
	s.sequences = s.sequences[:0]
}

// sharesPrefixes reports whether some item has several sequences.
func (s *sequenceCall) sharesPrefixes() bool {
	for i := range s.items {
		if s.items[i].sequences > 1 {
			return true
		}
	}
	return false
}

// itemOf returns the item of chunk n, or of task n if tasks is true.
func (s *sequenceCall) itemOf(n int, tasks bool) *workItem {
	lo, hi := 0, len(s.items) // items are in the order of their chunks and tasks
	for hi-lo > 1 {
		middle := int(uint(lo+hi) / 2)
		first := s.items[middle].chunk
		if tasks {
			first = s.items[middle].task
		}
		if first <= n {
			lo = middle
		} else {
			hi = middle
		}
	}
	return &s.items[lo]
}

// task returns the chunk and segment of a task, and the number of segments of the chunk.
func (s *sequenceCall) task(i int) (index, segment, segments int) {
	w := s.itemOf(i, true)
	return w.chunk + (i-w.task)/w.segments, w.segment + (i-w.task)%w.segments, w.segments
}

// prefixRows is the rows of one sequence in a chunk of several that share pages.
type prefixRows struct {
	chunk
	shared int  // positions in the pages of the sequence before it
	begun  bool // its state has a block of the current segment
}

// sequenceChunk sets c to chunk i of a call over sequences. If it has several sequences, it returns
// their rows, in the memory of group.
func (p *plan) sequenceChunk(i int, c *chunk, group []prefixRows) []prefixRows {
	s := p.sequences
	w := s.itemOf(i, false)
	kv := (i - w.chunk) * w.heads
	if w.sequences == 1 {
		p.rowsOfSequence(c, &s.sequences[s.order[w.first]], kv, w.row, w.rows)
		c.heads = min(w.heads, p.kvHeads-kv)
		return group
	}
	group = group[:0]
	*c = chunk{kv: kv, heads: 1, lo: math.MaxInt, together: w.sequences, apart: true}
	for _, n := range s.order[w.first:][:w.sequences] {
		x := &s.sequences[n]
		group = append(group, prefixRows{shared: x.shared})
		rows := &group[len(group)-1]
		p.rowsOfSequence(&rows.chunk, x, kv, 0, x.queries*p.group)
		rows.at = c.rows
		c.rows += rows.rows
		if rows.lo < rows.hi {
			c.lo, c.hi = min(c.lo, rows.lo), max(c.hi, rows.hi)
		}
	}
	c.lo = min(c.lo, c.hi) // nobody sees a key
	return group
}

// rowsOfSequence sets c to rows of queries of one sequence. Queries are counted in packed order.
func (p *plan) rowsOfSequence(c *chunk, s *callSequence, kv, row, rows int) {
	*c = chunk{kv: kv, heads: 1, row: s.query*p.group + row, rows: rows,
		position: -s.query}
	if p.sequences.documents {
		c.base, c.keys = s.key, s.keys
	} else {
		c.table, c.from, c.keys = s.table, s.table.First(), s.table.Len()
		c.query, c.blockRow = s.query, s.blockRow
	}
	if p.causal == BottomRight {
		c.position += c.keys - s.queries
	}
	p.bound(c)
}
