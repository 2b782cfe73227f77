package attn

import "math/rand/v2"

// Trees of queries, and what they say without Options.Tree.

// randomTree draws the parents of n queries: a chain, siblings, branches of any length, or queries
// that have no parent.
func randomTree(r *rand.Rand, n int) []int {
	parents := make([]int, n)
	kind, trunk := r.IntN(6), r.IntN(n+1)
	for i := range parents {
		switch {
		case i == 0 || kind == 0:
			parents[i] = -1
		case kind == 1 || kind == 2 && i < trunk:
			parents[i] = i - 1
		case kind == 2: // leaves at the end of a trunk
			parents[i] = trunk - 1
		case kind == 3: // branches that are never far from their root
			parents[i] = (i - 1) / 2
		case kind == 4: // long branches
			parents[i] = max(0, i-1-r.IntN(4))
		default:
			parents[i] = r.IntN(i+1) - 1
		}
	}
	return parents
}

// ancestorsOf is a query and its ancestors, with the number of those that each has.
func ancestorsOf(parents []int, i int) map[int]int {
	var path []int
	for ; i >= 0; i = parents[i] {
		path = append(path, i)
	}
	depths := map[int]int{}
	for n, at := range path {
		depths[at] = len(path) - 1 - n
	}
	return depths
}

// growTree makes options those of a call with a random tree over lk keys. It reports whether there
// can be one.
func (o *Options) growTree(r *rand.Rand, lq, lk int) bool {
	if lk < lq {
		return false
	}
	o.Tree, o.Causal, o.Offset, o.QueryLens = randomTree(r, lq), Full, 0, nil
	for b, n := range o.KeyLens {
		o.KeyLens[b] = max(n, lq)
	}
	if r.IntN(2) == 0 {
		o.Window.Left = r.IntN(2*lq + 5)
	}
	return true
}

// treeMask says what a tree, its window, a mask and blocks say of some entries of lk keys.
func (o *Options) treeMask(batch, lk int) Mask {
	lq, heads := len(o.Tree), max(1, o.Mask.H, o.Blocks.H)
	x := BHLD(make([]bool, batch*heads*lq*lk), batch, heads, lq, lk)
	for at := range batch * heads * lq {
		b, h, i := at/lq/heads, at/lq%heads, at%lq
		path, first := ancestorsOf(o.Tree, i), o.firstOwn(b, lk)
		for j := range lk {
			p, seen := first+path[i], j < first
			position := j
			if !seen {
				position, seen = path[j-first]+first, false
				if _, is := path[j-first]; is {
					seen = true
				}
			}
			if w := o.Window; w.Left > 0 && position <= p-w.Left || w.Right > 0 && position >= p+w.Right {
				seen = false
			}
			if !o.Mask.none() {
				seen = seen && o.Mask.Row(b%o.Mask.B, h%o.Mask.H, i)[j]
			}
			if !o.Blocks.none() {
				seen = seen && o.Blocks.Row(b%o.Blocks.B, h%o.Blocks.H, i/Block)[j/Block]
			}
			x.row(b, h, i)[j] = seen
		}
	}
	return x
}

// firstOwn is the first key that is a query's own token.
func (o *Options) firstOwn(b, lk int) int {
	if o.KeyLens != nil {
		lk = o.KeyLens[b]
	}
	return lk - len(o.Tree)
}

// withoutTree is options that mean the same.
func (o Options) withoutTree(batch, lk int) Options {
	if o.Tree != nil {
		o.Mask = o.treeMask(batch, lk)
		o.Tree, o.Window, o.Blocks = nil, Window{}, Mask{}
	}
	return o
}

// treeBias is slopes by the depths of a tree, where their products with distances are exact.
func (o *Options) treeBias(batch, lk int) Tensor {
	lq, heads := len(o.Tree), len(o.Slopes)
	x := zeros(batch, heads, lq, lk)
	for at := range batch * heads * lq {
		b, h, i := at/lq/heads, at/lq%heads, at%lq
		path, first := ancestorsOf(o.Tree, i), o.firstOwn(b, lk)
		for j := range lk {
			distance := j - first
			if distance >= 0 {
				distance = path[distance] // of own tokens that it does not see this may be anything
			}
			x.row(b, h, i)[j] = o.Slopes[h] * float32(distance-path[i])
		}
	}
	return x
}
