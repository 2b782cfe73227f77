// Package ragged describes a call over several sequences of different lengths, whose queries are
// packed one sequence after the other, and its division into work items.
package ragged

import (
	"cmp"
	"slices"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/pages"
	"github.com/seed-1415985d/attn/internal/views"
)

// Call is a call over several sequences of a store, or documents. Each sequence sees only its own
// keys, and work items differ in size.
type Call struct {
	Documents bool // keys are packed, too

	Sequences []Sequence
	Order     []int32 // of sequences with queries: those that share pages are next to each other
	Items     []Item
	turns     []int32 // numbers of items, to sort them,
	sorted    []Item  // and the sorted items

	Longest   int // queries of a sequence
	Keys      int // of the longest sequence
	BlockRows int // blocks of queries, counted for each sequence by itself
}

// Sequence is one sequence of a call, or a document.
type Sequence struct {
	Table          *pages.Table // nil for a document
	Key, Keys      int          // a document's first key among all, and their number
	Query, Queries int          // its first query among all, and their number
	BlockRow       int          // its first block of queries among all
	Shared         int          // positions in the pages of the sequence before it, by Order
}

// Item is rows of queries of one sequence, or all rows of several sequences that share pages. It
// has a chunk for each key/value head, or for a few heads of a document. A chunk that workers share
// has a task for each segment.
type Item struct {
	First, Sequences int // a run of Call.Order
	Row, Rows        int // rows [Row, Row+Rows) of one sequence
	Heads            int // key/value heads of a chunk
	Segment          int // the first segment that rows see, and
	Segments         int // the number of segments of its keys, 1 if they are whole
	Chunks           int // their number
	Chunk, Task      int // the first chunk, and the first task
	State            int // offset of the states of its segments,
	StateSize        int // and how large each is
	Cost             float64
}

// Drop clears references to the caller's memory.
func (c *Call) Drop() {
	clear(c.Sequences)
	c.Sequences = c.Sequences[:0]
}

// Begin makes c a call over n sequences of a store, which Add adds. lens are the numbers of their
// queries, nil if each has one; together they have the given number of queries.
func (c *Call) Begin(n int, lens []int, queries int) error {
	switch {
	case lens != nil && len(lens) != n:
		return views.Fail(views.ErrLength, "len(QueryLens) is %d, want one for each of %d sequences",
			len(lens), n)
	case lens == nil && queries != n:
		return views.Fail(views.ErrShape, "q.L is %d, want one query for each of %d sequences, or "+
			"QueryLens", queries, n)
	case lens != nil:
		if err := views.CheckSum("QueryLens", lens, "q.L", queries); err != nil {
			return err
		}
	}
	*c = Call{Sequences: c.Sequences[:0], Order: c.Order, Items: c.Items, turns: c.turns,
		sorted: c.sorted}
	return nil
}

// Add adds a sequence with n queries, which follow the queries added before.
func (c *Call) Add(table *pages.Table, n int) {
	query := 0
	if last := len(c.Sequences) - 1; last >= 0 {
		query = c.Sequences[last].Query + c.Sequences[last].Queries
	}
	c.Sequences = append(c.Sequences, Sequence{Table: table, Query: query, Queries: n,
		BlockRow: c.BlockRows})
	c.BlockRows += blocksOf(n)
	c.Longest, c.Keys = max(c.Longest, n), max(c.Keys, table.Len())
}

// SetDocuments makes c a call over the documents that have queries. Documents without lengths of
// their keys have as many keys as queries.
func (c *Call) SetDocuments(documents, keyDocuments []int, queries, keys int) error {
	if err := views.CheckSum("Documents", documents, "q.L", queries); err != nil {
		return err
	}
	if keyDocuments == nil {
		if keys != queries {
			return views.Fail(views.ErrShape, "k.L is %d, want the sum of Documents, %d, or KeyDocuments",
				keys, queries)
		}
		keyDocuments = documents
	} else if err := views.CheckSum("KeyDocuments", keyDocuments, "k.L", keys); err != nil {
		return err
	}
	c.Documents, c.Sequences = true, c.Sequences[:0]
	c.Longest, c.Keys, c.BlockRows = 0, 0, blocksOf(queries)
	x := Sequence{}
	for i, n := range documents {
		if x.Queries, x.Keys = n, keyDocuments[i]; n > 0 {
			c.Sequences = append(c.Sequences, x)
			c.Longest, c.Keys = max(c.Longest, n), max(c.Keys, x.Keys)
		}
		x.Query, x.Key = x.Query+n, x.Key+x.Keys
	}
	return nil
}

func blocksOf(queries int) int { return (queries + kernel.Block - 1) / kernel.Block }

// SortByPages sorts Order so that sequences that share pages are adjacent, and sets the positions
// that each shares with the one before.
func (c *Call) SortByPages() {
	slices.SortStableFunc(c.Order, func(a, b int32) int {
		return c.Sequences[a].Table.Compare(c.Sequences[b].Table)
	})
	for i := 1; i < len(c.Order); i++ {
		x, before := &c.Sequences[c.Order[i]], &c.Sequences[c.Order[i-1]]
		x.Shared = x.Table.Shared(before.Table)
	}
}

// Sharing returns the number of sequences, from Order[first] on, that share pages and together have
// at most maxRows rows; a query has a row for each head of its group.
func (c *Call) Sharing(first, maxRows, group int) (n int) {
	rows := 0
	for _, i := range c.Order[first:] {
		x := &c.Sequences[i]
		rows += x.Queries * group
		if n > 0 && (x.Shared == 0 || rows > maxRows) {
			break
		}
		n++
	}
	return n
}

// SharesPrefixes reports whether some item has several sequences.
func (c *Call) SharesPrefixes() bool {
	for i := range c.Items {
		if c.Items[i].Sequences > 1 {
			return true
		}
	}
	return false
}

// SortItems sorts items by descending cost, stably. It sorts their numbers, because items are large
// and another instance of the sort would be 6 KB of code.
func (c *Call) SortItems() {
	c.turns, c.sorted = c.turns[:0], c.sorted[:0]
	for i := range c.Items {
		c.turns = append(c.turns, int32(i))
	}
	slices.SortStableFunc(c.turns, func(a, b int32) int {
		return cmp.Compare(c.Items[b].Cost, c.Items[a].Cost)
	})
	for _, i := range c.turns {
		c.sorted = append(c.sorted, c.Items[i])
	}
	c.Items, c.sorted = c.sorted, c.Items
}

// Number gives each item its first chunk and its first task, and returns the number of chunks.
func (c *Call) Number() (chunks int) {
	tasks := 0
	for i := range c.Items {
		x := &c.Items[i]
		x.Chunk, x.Task = chunks, tasks
		chunks += x.Chunks
		tasks += x.Chunks * x.Segments
	}
	return chunks
}

// ItemOf returns the item of chunk n, or of task n if tasks is true.
func (c *Call) ItemOf(n int, tasks bool) *Item {
	lo, hi := 0, len(c.Items) // items are in the order of their chunks and tasks
	for hi-lo > 1 {
		middle := int(uint(lo+hi) / 2)
		first := c.Items[middle].Chunk
		if tasks {
			first = c.Items[middle].Task
		}
		if first <= n {
			lo = middle
		} else {
			hi = middle
		}
	}
	return &c.Items[lo]
}

// Task returns the chunk and segment of a task, and the number of segments of the chunk.
func (c *Call) Task(i int) (index, segment, segments int) {
	x := c.ItemOf(i, true)
	return x.Chunk + (i-x.Task)/x.Segments, x.Segment + (i-x.Task)%x.Segments, x.Segments
}
