package ancestors

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
)

// depths is a query and its ancestors, with the number of those that each has.
func depths(parents []int, i int) map[int]int {
	var path []int
	for ; i >= 0; i = parents[i] {
		path = append(path, i)
	}
	depth := map[int]int{}
	for n, i := range path {
		depth[i] = len(path) - 1 - n
	}
	return depth
}

// randomParents draws a tree: long paths, many branches, or both.
func randomParents(r *rand.Rand, n int) []int {
	parents, back := make([]int, n), 1+r.IntN(100)
	for i := range parents {
		switch parents[i] = i - 1; r.IntN(4 + r.IntN(100)) {
		case 0:
			parents[i] = r.IntN(i+1) - 1
		case 1:
			parents[i] = max(-1, i-1-r.IntN(back))
		}
	}
	return parents
}

// Some queries see of any words what their paths say, with a window and without.
func TestSeenIsThePath(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tree Tree
	var seen Seen
	for range 300 {
		n := 1 + r.IntN(3*kernel.Segment)
		parents := randomParents(r, n)
		tree = make(Tree, n)
		tree.Plant(parents)
		seen.Forget()
		first := r.IntN(n)
		queries := 1 + r.IntN(min(n-first, 70))
		own := r.IntN(first+kernel.Block) - kernel.Block + 1 // where a block begins
		word := own >> 6
		if !seen.Holds(first, queries, word) {
			seen.Hold(tree, first, first, queries, word)
		}
		if !seen.Holds(first, queries, word) || seen.Holds(first, queries+1, word) {
			t.Fatal("it is not known what has been made known, or more")
		}
		before := lowBits(max(-own, 0))
		for i := range queries {
			path, left := depths(parents, first+i), r.IntN(n)
			if depth := tree.Depth(first + i); depth != path[first+i] {
				t.Fatalf("the depth of query %d is %d, want %d", first+i, depth, path[first+i])
			}
			got := before | seen.Of(i, own)
			near := tree.Window(got, before, first+i, own, left)
			for j := range kernel.Block {
				position, sees := own+j, true
				if position >= 0 {
					position, sees = path[own+j]
				}
				inWindow := sees && position >= path[first+i]-left
				if got>>j&1 == 1 != sees || near>>j&1 == 1 != inWindow {
					t.Fatalf("query %d sees token %d: %v, and %d steps back: %v, want %v and %v", first+i, own+j,
						got>>j&1 == 1, left, near>>j&1 == 1, sees, inWindow)
				}
			}
		}
	}
}
