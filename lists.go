package attn

import (
	"slices"
	"sort"
)

// Options.Keys: each query has a list of the keys that it attends to, and attention is that over
// these keys in the order of the list. The rows of a chunk share one list. What a chunk and its
// parts count as keys are places in it: blocks, segments and bounds. Positions say which of them a
// row sees, and since they ascend, that is a run of places as it is a run of keys elsewhere.

// listed reports whether queries have lists of keys.
func (p *plan) listed() bool { return p.lists.L > 0 }

// rowsPerList is how many rows of a key/value head, one after another, share a list.
func (p *plan) rowsPerList() int {
	switch {
	case p.lists.H == p.heads && p.lists.SH != 0:
		return 1
	case p.lists.SL == 0:
		return p.lq * p.group
	}
	return p.group
}

// alignRows is how many of up to some rows make a chunk, whose rows share a list.
func (p *plan) alignRows(rows int) int {
	all := p.rowsPerList()
	if all == p.lq*p.group {
		return rows
	}
	n := parts(all, rows)
	for all%n != 0 {
		n++
	}
	return all / n
}

// findList finds the list of a chunk's rows: -1 fills up what is behind it.
func (p *plan) findList(c *chunk) {
	h, i := p.locate(c.kv, c.row)
	if p.lists.H == p.kvHeads {
		h = c.kv
	}
	c.list = p.lists.offset(c.b, h, i)
	list := p.lists.Data[c.list:][:p.lists.D]
	c.listed = sort.Search(len(list), func(i int) bool { return list[i] < 0 })
}

// listOf is the positions of the keys of a chunk's rows.
func (p *plan) listOf(c *chunk) []int32 { return p.lists.Data[c.list:][:c.listed] }

// listRange returns the places of a chunk's list that hold keys lo to hi−1.
func (p *plan) listRange(c *chunk, lo, hi int) (from, to int) {
	list := p.listOf(c)
	from, _ = slices.BinarySearch(list, int32(lo))
	to, _ = slices.BinarySearch(list[from:], int32(hi))
	return from, from + to
}

// listWork is plan.work where rows have lists.
func (p *plan) listWork(c *chunk) (flops, bytes float64) {
	keys, lists := float64(p.lists.D), parts(c.rows, p.rowsPerList())
	return 2 * float64(c.rows) * keys * float64(p.d+p.dv), float64(lists) * keys * p.keyBytes()
}
