package segment

import (
	"math/bits"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// However keys are split into steps, the whole segments are in nodes like the bits of a binary
// counter: one node for each bit of their number, the largest first, and one for a segment that
// accepts more keys.
func TestListIsABinaryCounter(t *testing.T) {
	for _, step := range []int{1000, kernel.Segment, 3 * kernel.Segment, 5*kernel.Segment + 77} {
		var s List
		end := 41 * kernel.Segment
		for at := 0; at < end; at = End(at, end) {
			to := min(at+step, End(at, end))
			s, _ = s.Take(at)
			s, _ = s.Fill(to)
			if to < End(at, end) {
				s, _ = s.Take(to)
				s, _ = s.Fill(End(at, end))
			}
			mustCount(t, s, End(at, end))
		}
		s, _ = s.Take(end)
		s, _ = s.Fill(end + 5)
		if last := s[len(s)-1]; last != (Node{end, 5, true}) {
			t.Errorf("the last node after %d keys is %v, want 5 of an open segment", end+5, last)
		}
		mustCount(t, s[:len(s)-1], end)
	}
}

// mustCount compares nodes with the bits of a number of segments.
func mustCount(t *testing.T, s List, end int) {
	t.Helper()
	first, left := 0, uint(end/kernel.Segment)
	for i, n := range s {
		want := 1 << (bits.Len(left) - 1) * kernel.Segment
		if n.First != first || n.Keys != want || n.Open {
			t.Errorf("node %d after %d keys is %v, want %d keys from %d on", i, end, n, want, first)
			return
		}
		first, left = first+want, left&^uint(want/kernel.Segment)
	}
	if left != 0 {
		t.Errorf("%d nodes after %d keys, want %d more", len(s), end, bits.OnesCount(left))
	}
}

// A node whose keys before were never there counts as the right half of a larger node; parts of
// other cuts merge with each other, but not with nodes of the tree.
func TestSettle(t *testing.T) {
	const n = kernel.Segment
	for _, c := range []struct {
		nodes, want List
		merges      int
	}{
		{List{{3 * n, n, false}}, List{{0, 4 * n, false}}, 0},
		{List{{2 * n, n, false}}, List{{2 * n, n, false}}, 0},
		{List{{0, 2 * n, false}, {2 * n, n, false}, {3 * n, n, false}}, List{{0, 4 * n, false}}, 2},
		{List{{0, 5, false}, {5, 7, false}}, List{{0, 12, false}}, 1},
		{List{{0, 5, false}, {5, 7, true}}, List{{0, 5, false}, {5, 7, true}}, 0},
		{List{{0, n, false}, {n, 7, false}}, List{{0, n, false}, {n, 7, false}}, 0},
	} {
		got, merges := slices.Clone(c.nodes).Settle()
		if !slices.Equal(got, c.want) || merges != c.merges {
			t.Errorf("%v settles to %v by %d merges, want %v by %d", c.nodes, got, merges, c.want, c.merges)
		}
	}
}

// There are never more nodes than Most: the last two merge to make room.
func TestRoomIsBounded(t *testing.T) {
	var s List
	for i := range 3 * Most {
		var merges int
		before := len(s)
		if s, merges = s.Room(); merges != before-len(s) || len(s) >= Most {
			t.Fatalf("%d merges of %d nodes leave %d, want room", merges, before, len(s))
		}
		s = append(s, Node{First: i, Keys: 1})
	}
	keys := 0
	for _, n := range s {
		keys += n.Keys
	}
	if keys != 3*Most {
		t.Errorf("nodes have %d keys, want %d", keys, 3*Most)
	}
}

// The nodes that Replay says stay as they are do, also where two merge to make room for another.
func TestReplayKeepsNodes(t *testing.T) {
	const n = kernel.Segment
	var s List
	from := 0
	for len(s) <= Most {
		for _, more := range []int{1, n - 1, n, n + 1, 5 * n, 64*n + 7} {
			nodes, kept := s.Replay(from, from+more)
			x := slices.Clone(s)
			for at := from; at < from+more; {
				x, _ = x.Take(at)
				at = End(at, from+more)
				x, _ = x.Fill(at)
			}
			if len(x) != nodes || kept > min(len(s), nodes) || !slices.Equal(s[:kept], x[:kept]) {
				t.Errorf("%d nodes and %d keys: %d nodes of which %d stay, want %d; they were %v and are %v",
					len(s), more, nodes, kept, len(x), s, x)
			}
		}
		keys := []int{3 * n, n}[len(s)%2] // neighbours are no halves of one
		s = append(s, Node{First: from, Keys: keys})
		from += keys
	}
}
