package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/ragged"
)

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
	w := s.ItemOf(i, false)
	kv := (i - w.Chunk) * w.Heads
	if w.Sequences == 1 {
		p.rowsOfSequence(c, &s.Sequences[s.Order[w.First]], kv, w.Row, w.Rows)
		c.heads = min(w.Heads, p.kvHeads-kv)
		return group
	}
	group = group[:0]
	*c = chunk{kv: kv, heads: 1, lo: math.MaxInt, together: w.Sequences, apart: true}
	for _, n := range s.Order[w.First:][:w.Sequences] {
		x := &s.Sequences[n]
		group = append(group, prefixRows{shared: x.Shared})
		rows := &group[len(group)-1]
		p.rowsOfSequence(&rows.chunk, x, kv, 0, x.Queries*p.group)
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
func (p *plan) rowsOfSequence(c *chunk, s *ragged.Sequence, kv, row, rows int) {
	*c = chunk{kv: kv, heads: 1, row: s.Query*p.group + row, rows: rows,
		position: -s.Query}
	if p.sequences.Documents {
		c.base, c.keys = s.Key, s.Keys
	} else {
		c.table, c.from, c.keys = s.Table, s.Table.First(), s.Table.Len()
		c.query, c.blockRow = s.Query, s.BlockRow
	}
	if p.causal == BottomRight {
		c.position += c.keys - s.Queries
	}
	p.bound(c)
}
