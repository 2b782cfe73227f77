package ragged

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/pages"
	"github.com/seed-1415985d/attn/internal/views"
)

// Queries are packed in the order of their sequences, whose blocks of queries begin anew.
func TestAdd(t *testing.T) {
	var c Call
	c.Documents = true
	// The second call forgets the first.
	for _, lens := range [][]int{{3, 0, kernel.Block + 1, 2}, nil} {
		queries := []int{1, 1, 1, 1}
		all := 4
		if lens != nil {
			queries, all = lens, 3+0+kernel.Block+1+2
		}
		if err := c.Begin(4, lens, all); err != nil {
			t.Fatal(err)
		}
		query, row := 0, 0
		for i, n := range queries {
			c.Add(new(pages.Table), n)
			if s := c.Sequences[i]; s.Query != query || s.Queries != n || s.BlockRow != row {
				t.Errorf("sequence %d is %+v, want query %d and block %d", i, s, query, row)
			}
			query, row = query+n, row+(n+kernel.Block-1)/kernel.Block
		}
		if c.Documents || c.Longest != slices.Max(queries) || c.BlockRows != row {
			t.Errorf("the call is %+v, want %d blocks of queries", c, row)
		}
	}
	for name, err := range map[string]error{"a length too many": c.Begin(1, []int{1, 1}, 2),
		"a length too large": c.Begin(1, []int{2}, 1)} {
		if !errors.Is(err, views.ErrLength) {
			t.Errorf("%s: %v, want ErrLength", name, err)
		}
	}
	if err := c.Begin(2, nil, 3); !errors.Is(err, views.ErrShape) {
		t.Errorf("three queries of two sequences: %v, want ErrShape", err)
	}
}

// Documents without queries are left out, and their keys are passed over.
func TestSetDocuments(t *testing.T) {
	var c Call
	if err := c.SetDocuments([]int{2, 0, 5}, []int{3, 4, 6}, 7, 13); err != nil {
		t.Fatal(err)
	}
	want := []Sequence{{Keys: 3, Queries: 2}, {Key: 7, Keys: 6, Query: 2, Queries: 5}}
	if !slices.Equal(c.Sequences, want) || c.Longest != 5 || c.Keys != 6 || c.BlockRows != 1 {
		t.Errorf("%+v, want sequences %+v", c, want)
	}
	for name, x := range map[string]struct {
		keyDocuments []int
		keys         int
	}{"keys of none": {nil, 8}, "few keys": {[]int{1, 1, 1}, 4}} {
		err := c.SetDocuments([]int{2, 0, 5}, x.keyDocuments, 7, x.keys)
		if !errors.Is(err, views.ErrShape) {
			t.Errorf("%s: %v, want ErrShape", name, err)
		}
	}
}

// Items are sorted by cost, equal ones as before, and chunks and tasks are counted in that order.
func TestItems(t *testing.T) {
	c := Call{Items: []Item{{Row: 1, Chunks: 2, Segments: 1, Cost: 1},
		{Row: 2, Chunks: 3, Segments: 2, Segment: 5, Cost: 4}, {Row: 3, Chunks: 1, Segments: 1, Cost: 1}}}
	c.SortItems()
	if chunks := c.Number(); chunks != 6 {
		t.Errorf("%d chunks, want 6", chunks)
	}
	rows := [...]int{2, 2, 2, 1, 1, 3} // of each chunk
	for i, want := range rows {
		if got := c.ItemOf(i, false).Row; got != want {
			t.Errorf("chunk %d is of the item of row %d, want %d", i, got, want)
		}
	}
	for i, want := range [][3]int{{0, 5, 2}, {0, 6, 2}, {1, 5, 2}, {1, 6, 2}, {2, 5, 2}, {2, 6, 2},
		{3, 0, 1}, {4, 0, 1}, {5, 0, 1}} {
		index, segment, segments := c.Task(i)
		if got := [3]int{index, segment, segments}; got != want {
			t.Errorf("task %d has chunk, segment and segments %v, want %v", i, got, want)
		}
	}
}
