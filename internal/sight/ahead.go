package sight

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// AheadBlocks is how many blocks of a mask are read at once: a row of one block is only a cache
// line, and each row is in another page.
const AheadBlocks = 64

// Mask is the rows of a mask that some rows of a group of heads have: row r is of query
// (Row+r)/Group and of head (Row+r)%Group.
type Mask struct {
	Data   []bool // from the group's first head, query 0, and the first key on
	SH, SL int    // 0 if heads, or queries, have the same row

	Row, Rows, Group int
	B, KV            int // of the rows; KV is −1 if all heads have the same mask
}

// locate returns the head of a row in its group, and its query.
func (m *Mask) locate(r int) (h, i int) {
	if r += m.Row; m.Group == 1 {
		return 0, r
	}
	return r % m.Group, r / m.Group
}

// Ahead holds the bits of a mask for some queries and blocks, one for each key.
type Ahead struct {
	b, kv, row    int // of the mask's rows
	first, blocks int // keys from first on; no blocks if it is empty
	queries       int // rows of the mask for each block
	bits          []uint64

	Some, Every [AheadBlocks]uint64 // keys that some queries, and that all of them may see
}

// Forget empties a.
func (a *Ahead) Forget() { a.blocks = 0 }

// Find returns the index of the block at key first. If a does not hold that block, it reads at most
// so many blocks of the keys before end.
func (a *Ahead) Find(isa tuning.ISA, m *Mask, first, end, blocks int) (i int) {
	if i = (first - a.first) / kernel.Block; first < a.first || i >= a.blocks || m.Row != a.row ||
		m.KV != a.kv || m.B != a.b {
		a.b, a.kv, a.row, a.first = m.B, m.KV, m.Row, first
		a.blocks = min(blocks, (end-first+kernel.Block-1)/kernel.Block)
		a.read(isa, m, end)
		i = 0
	}
	return i
}

// read reads the bits of all blocks from the mask, row by row.
func (a *Ahead) read(isa tuning.ISA, m *Mask, end int) {
	switch a.queries = m.Rows; {
	case m.SH != 0: // each row has its own mask
	case m.SL == 0:
		a.queries = 1
	default:
		_, first := m.locate(0)
		_, last := m.locate(m.Rows - 1)
		a.queries = last - first + 1
	}
	whole, rest := min((end-a.first)/kernel.Block, a.blocks), (end-a.first)%kernel.Block
	a.bits = kernel.Grow(a.bits, a.blocks*a.queries)
	bits := a.bits[:a.blocks*a.queries]
	Fill(bits)
	_, first := m.locate(0)
	for r := range a.queries {
		h, i := 0, first+r
		if m.SH != 0 {
			h, i = m.locate(r)
		}
		x := m.Data[h*m.SH+i*m.SL+a.first:]
		if whole > 0 {
			floats.MaskKeys(isa, x, bits[r:], whole, a.queries, kernel.Block, 0, kernel.Block)
		}
		if whole < a.blocks {
			at := whole*a.queries + r
			bits[at] = kernel.LowBits(rest)
			floats.MaskKeys(isa, x[whole*kernel.Block:], bits[at:], 1, 1, 0, 0, rest)
		}
	}
	for k := range a.blocks {
		a.Some[k], a.Every[k] = Keys(bits[k*a.queries:][:a.queries])
	}
}

// Allow clears in seen the keys that block i of the mask hides from the rows.
func (a *Ahead) Allow(m *Mask, i int, seen []uint64) {
	bits := a.bits[i*a.queries:][:a.queries]
	switch {
	case len(bits) == len(seen):
		for r, e := range bits {
			seen[r] &= e
		}
	case len(bits) == 1:
		for r := range seen {
			seen[r] &= bits[0]
		}
	default:
		_, first := m.locate(0)
		for r := range seen {
			_, i := m.locate(r)
			seen[r] &= bits[i-first]
		}
	}
}
