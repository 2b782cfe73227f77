package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/pages"
)

// ragged is a call over several sequences: their queries are packed one sequence after the other, each sees keys of its own, and the pieces of
// work that they make differ in size.
type ragged struct {
	sequences []raggedSequence
	order     []int32 // of sequences: those that share pages are next to each other
	pieces    []piece // most work of a unit first
	chunks    int     // of all pieces
	units     int

	longest      int     // queries of a sequence
	flops, bytes float64 // of the call, if nothing is shared
}

// raggedSequence is one sequence of a call.
type raggedSequence struct {
	table          *pages.Table
	query, queries int // its first query among all, and their number
	shared         int // positions in the same pages as those of the sequence before it, by order
}

// piece is rows of queries of one sequence, or all those of several that share pages, and what they make of the call: a chunk for
// each key/value head.
type piece struct {
	first, sequences int // a run of ragged.order
	row, rows        int // of one sequence: its rows of queries [row, row+rows)
	segment          int // the first segment that rows see, and
	segments         int // into how many the keys are divided, 1 if they are whole
	chunk, unit      int // the first chunk, and the first unit
	state            int // where states of its segments are; each takes stateSize
	stateSize        int
	cost             float64 // of a unit
}

// drop forgets the caller's memory.
func (r *ragged) drop() {
	clear(r.sequences)
	r.sequences = r.sequences[:0]
}

// several reports whether some piece is of several sequences.
func (r *ragged) several() bool {
	for i := range r.pieces {
		if r.pieces[i].sequences > 1 {
			return true
		}
	}
	return false
}

// find is the last piece of which the first chunk, or unit, as of says, is n or comes before it.
func (r *ragged) find(n int, of func(*piece) int) *piece {
	lo, hi := 0, len(r.pieces)
	for hi-lo > 1 {
		if middle := int(uint(lo+hi) / 2); of(&r.pieces[middle]) <= n {
			lo = middle
		} else {
			hi = middle
		}
	}
	return &r.pieces[lo]
}

// pieceOf is the piece of a chunk.
func (r *ragged) pieceOf(chunk int) *piece {
	return r.find(chunk, func(p *piece) int { return p.chunk })
}

// unitOf is the chunk and segment of a unit, and how many segments the chunk is divided into.
func (r *ragged) unitOf(unit int) (chunk, segment, segments int) {
	p := r.find(unit, func(p *piece) int { return p.unit })
	return p.chunk + (unit-p.unit)/p.segments, p.segment + (unit-p.unit)%p.segments, p.segments
}

// member is the rows of one sequence in a chunk of several.
type member struct {
	chunk
	shared int  // positions in the same pages as those of the member before it
	begun  bool // its state has a block of the segment at hand
}

// sequenceChunk makes c chunk i of a call over sequences. Its members, if they are several, are in a buffer, which it returns.
func (p *plan) sequenceChunk(i int, c *chunk, members []member) []member {
	r := p.ragged
	work := r.pieceOf(i)
	kv := i - work.chunk
	if work.sequences == 1 {
		p.memberChunk(c, &r.sequences[r.order[work.first]], kv, work.row, work.rows)
		return members
	}
	members = members[:0]
	*c = chunk{kv: kv, heads: 1, lo: math.MaxInt, several: true}
	for _, s := range r.order[work.first:][:work.sequences] {
		members = append(members, member{shared: r.sequences[s].shared})
		m := &members[len(members)-1]
		p.memberChunk(&m.chunk, &r.sequences[s], kv, 0, r.sequences[s].queries*p.group)
		m.at = c.rows
		c.rows += m.rows
		if m.lo < m.hi {
			c.lo, c.hi = min(c.lo, m.lo), max(c.hi, m.hi)
		}
	}
	c.lo = min(c.lo, c.hi) // nobody sees a key
	return members
}

// memberChunk makes c rows of queries of one sequence. Queries are counted as they are packed.
func (p *plan) memberChunk(c *chunk, s *raggedSequence, kv, row, rows int) {
	*c = chunk{kv: kv, heads: 1, row: s.query*p.group + row, rows: rows, table: s.table, from: s.table.First(), keys: s.table.Len()}
	c.position = -s.query
	if p.causal == BottomRight {
		c.position += s.table.Len() - s.queries
	}
	p.bound(c)
}
