package attn

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/ragged"
)

// treeProblem is a problem with a tree and random other options.
func treeProblem(r *rand.Rand, kind distribution, s shape) *problem {
	s.lk = max(s.lk, s.lq)
	p := problemOf(r, kind, s)
	p.opt.growTree(r, s.lq, s.lk)
	if p.opt.Slopes = nil; r.IntN(4) == 0 {
		p.opt.Blocks = randomBlocks(r, oneOr(r, s.b), oneOr(r, p.q.H), s.lq, s.lk)
	}
	return p
}

// treeShape draws a shape with few queries or many, and keys before them or none.
func treeShape(r *rand.Rand) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(20), 1 + r.IntN(4*Block),
		1 + r.IntN(20), 1 + r.IntN(20)}
	switch r.IntN(6) {
	case 0, 1:
		s.lq = 1 + r.IntN(3*Block)
	case 2:
		s.lk = Segment - 20 + r.IntN(Segment)
		s.b, s.kvh, s.group = 1, 1+r.IntN(2), 1
	case 3:
		s.lk = s.lq
	}
	return s
}

// masked is the problem with what it sees in its mask.
func (p *problem) masked() *problem {
	q := *p
	q.opt = p.opt.withoutTree(p.q.B, p.k.L)
	q.repeat[3] = [3]bool{}
	return &q
}

// A tree has the bits of the mask that says the same, with every other option, for every way to
// attend, format and implementation.
func TestTreesAreTheirMask(t *testing.T) {
	hosts, operands := random("hosts of trees"), new(kerneltest.Arena)
	defer operands.Free()
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for n := range budget(200) {
			anyTuning(t, hosts)
			s := treeShape(r)
			p := treeProblem(r, randomKind(r), s)
			if n%3 == 0 {
				p = treeProblem(r, coarse, s)
				p.k, p.v = contiguous(p.k), contiguous(p.v)
				p.opt.Integers = r.IntN(2) == 0
			}
			p.opt.BFloat16 = !p.opt.Integers && r.IntN(3) == 0
			want := p.masked().solve(t, Attend)
			for _, way := range ways {
				p.same(t, way.name, p.solveStrided(t, r, operands, way.attend), want)
			}
		}
	})
}

// The same over caches of every format, with values of their own or in keys.
func TestTreesOverCaches(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, format := range allFormats {
			r := random(t.Name() + format.String())
			for n := range budget(60) {
				anyTuning(t, r)
				s := treeShape(r)
				if s.dv = min(s.dv, s.d); n%3 > 0 {
					s.lq = 1 + r.IntN(8)
				}
				p := treeProblem(r, []distribution{normal, coarse}[r.IntN(2)], s)
				p.k, p.v = contiguous(p.k), contiguous(p.v)
				if n%2 == 0 {
					p.overKeys()
				}
				p.opt.Integers = format == I8 && n%4 < 2
				p.opt.BFloat16 = format < I8 && n%4 < 2
				c := p.typedCache(t, r, format)
				over := func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) }
				want := p.masked().solve(t, over)
				p.same(t, format.String(), p.solve(t, over), want)
				p.same(t, format.String()+" by a Pool", p.solve(t, func(dst, q, _, _ Tensor,
					opt *Options) error {
					return threeWorkers().AttendCache(dst, q, c, opt)
				}), want)
				must(t, c.Close())
			}
		}
	})
}

// Slopes are counted along the tree: as a bias that says so, where products with distances are
// exact.
func TestTreesWithSlopes(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for n := range budget(120) {
			anyTuning(t, r)
			p := treeProblem(r, normal, treeShape(r))
			p.k, p.v, p.opt.Bias = contiguous(p.k), contiguous(p.v), Tensor{}
			p.opt.Scale = []float32{1, 0.25, -2}[r.IntN(3)]
			for range p.q.H {
				p.opt.Slopes = append(p.opt.Slopes, float32(r.IntN(17)-8)/16)
			}
			biased := p.masked()
			biased.opt.Slopes, biased.opt.Bias = nil, p.opt.treeBias(p.q.B, p.k.L)
			want := biased.solve(t, Attend)
			for _, way := range ways {
				p.same(t, way.name, p.solve(t, way.attend), want)
			}
			c := p.typedCache(t, r, allFormats[n%len(allFormats)])
			over := func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) }
			p.same(t, "a cache", p.solve(t, over), biased.solve(t, over))
			must(t, c.Close())
		}
	})
}

// A tree whose queries follow each other is causal, with windows and slopes too.
func TestChainIsCausal(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(120) {
			anyTuning(t, r)
			s := treeShape(r)
			p := treeProblem(r, normal, s)
			p.k, p.v = contiguous(p.k), contiguous(p.v)
			p.opt.drawProducts(r)
			if r.IntN(2) == 0 {
				p.opt.Slopes = tensor(r, normal, 1, 1, 1, p.q.H).Data
			}
			p.opt.Tree = stretch(-1, p.q.L-1)
			causal := *p
			causal.opt.Tree, causal.opt.Causal = nil, BottomRight
			want := causal.solve(t, Attend)
			for _, way := range ways {
				p.same(t, way.name, p.solve(t, way.attend), want)
			}
		}
	})
}

// However many queries a tree has, and wherever their own tokens begin in a block, a look finds
// what their paths say.
func TestAncestorsOfManyQueries(t *testing.T) {
	r := random(t.Name())
	for n := range max(20, budget(300)) {
		lq, group := 1+r.IntN(5*Segment), 1+r.IntN(3)
		if n%3 == 0 {
			lq = 1 + r.IntN(3*Block)
		}
		parents, left := randomTree(r, lq), -1
		if n%2 == 0 {
			left = r.IntN(lq)
		}
		before := []int{0, Block, r.IntN(200)}[r.IntN(3)]
		p := plan{group: group, lq: lq, lk: before + lq, causal: BottomRight, left: -1, right: -1,
			along: left}
		p.parents = parents
		w := new(scratch)
		w.trees.fit(&p)
		for range 3 {
			c := chunk{heads: 1, keys: p.lk, position: p.lk - lq, row: r.IntN(lq * group)}
			c.rows = 1 + r.IntN(min(lq*group-c.row, 150))
			p.bound(&c)
			from := c.lo
			if r.IntN(2) == 0 { // like a worker with some of the segments
				from += r.IntN(c.hi - c.lo)
			}
			mustSeePaths(t, w, &p, &c, parents, from)
		}
	}
}

// mustSeePaths compares the visibility of each block, from the block of a key on, with the paths of
// the chunk's queries.
func mustSeePaths(t *testing.T, w *scratch, p *plan, c *chunk, parents []int, from int) {
	t.Helper()
	first, seen := c.firstOwn(), make([]uint64, c.rows)
	paths := make([]map[int]int, c.rows)
	for r := range paths {
		paths[r] = ancestorsOf(parents, (c.row+r)/p.group)
	}
	for lo := from / Block * Block; lo < c.hi; lo += Block {
		fillWith(seen, ^uint64(0))
		w.lookAtTree(p, c, &blockKeys{first: lo, hi: Block}, seen)
		for r, got := range seen {
			i := (c.row + r) / p.group
			depth, want := paths[r][i], uint64(0)
			for j := lo; j < min(lo+Block, c.position+i+1); j++ {
				position, sees := j-first, true
				if j >= first {
					position, sees = paths[r][j-first], false
					_, sees = paths[r][j-first]
				}
				if sees && (p.along < 0 || position >= depth-p.along) {
					want |= 1 << (j - lo)
				}
			}
			if got != want {
				t.Fatalf("query %d of %d, left %d: sees %064b of block %d, want %064b", i, p.lq, p.along, got,
					lo/Block, want)
			}
			if want != 0 && (lo+bits.TrailingZeros64(want) < c.lo || lo+bits.Len64(want) > c.hi) {
				t.Fatalf("query %d sees keys outside of %d to %d", i, c.lo, c.hi)
			}
			if inside := lo >= c.allLo && lo+Block <= c.allHi; inside && want != ^uint64(0) {
				t.Fatalf("query %d does not see all of block %d, from %d to %d", i, lo/Block, c.allLo, c.allHi)
			}
		}
	}
}

// A path through thousands of queries needs a step for each 64 of them.
func TestLongTrees(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(10) {
			s := shape{1, 2, 1, Segment + r.IntN(Segment/2), 0, 3, 5}
			s.lk = s.lq + []int{r.IntN(300), Block}[r.IntN(2)]
			p := treeProblem(r, normal, s)
			p.opt.Mask, p.opt.Blocks = Mask{}, Mask{}
			want := p.masked().solve(t, Attend)
			p.same(t, "Attend", p.solve(t, Attend), want)
			p.same(t, "Pool", p.solve(t, attendPooled), want)
		}
	})
}

// Keys before the queries' own go the ways of calls without a tree: only the last blocks are
// looked at, and spans of several blocks are taken before.
func TestTreesLookAtTheLastBlocks(t *testing.T) {
	for _, lq := range []int{1, 8, 64, 100} {
		k := zeros(1, 1, 900, 64)
		c, err := filled(k, k)
		must(t, err)
		q, opt := zeros(1, 1, lq, 64), &Options{Tree: randomTree(random(t.Name()), lq)}
		p := newPlan(zeros(1, 1, lq, 64), q, Tensor{}, Tensor{}, opt)
		must(t, c.plan(&p, opt))
		p.decide(&tuned, 1)
		causal := newPlan(zeros(1, 1, lq, 64), q, Tensor{}, Tensor{}, &Options{Causal: BottomRight})
		must(t, c.plan(&causal, &Options{Causal: BottomRight}))
		causal.decide(&tuned, 1)
		if p.schedule != causal.schedule {
			t.Errorf("%d queries: the schedule is %v, want %v", lq, &p.schedule, &causal.schedule)
		}
		var at chunk
		p.chunk(0, &at)
		var s, of span
		looked := 0
		for lo := at.lo; lo < at.hi; {
			end := p.nextSpan(&at, lo, at.hi, &s)
			if end <= 900-lq {
				causal.nextSpan(&at, lo, at.hi, &of)
				if s != of || !s.equal {
					t.Errorf("%d queries: the span from %d on is %+v, want %+v", lq, lo, s, of)
				}
			}
			if !s.equal {
				looked += s.blocks
			}
			lo = end
		}
		if most := (lq+Block-1)/Block + 1; looked == 0 || looked > most {
			t.Errorf("%d queries: %d blocks are looked at, want at most %d", lq, looked, most)
		}
		must(t, c.Close())
	}
}

// Sequences that begin with the same pages go through these together, each with a tree of its own.
func TestTreesShareBeginnings(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, format := range allFormats {
			r := random(t.Name() + format.String())
			for range budget(30) {
				anyTuning(t, r)
				mustShareTrees(t, r, format)
			}
		}
	})
}

// mustShareTrees compares trees in forks of a sequence with caches of the same tokens and the masks
// that say the same.
func mustShareTrees(t *testing.T, r *rand.Rand, format Format) {
	const kv, heads, d, dv = 2, 4, 12, 10
	store, err := NewStore(StoreConfig{KVHeads: kv, HeadDim: d, ValueDim: dv, Pages: 60,
		Format: format})
	must(t, err)
	defer store.Close()
	prompt := store.NewSequence()
	n := Block + r.IntN(5*Block)
	tokens := func(n int) (k, v Tensor) {
		return tensor(r, normal, 1, kv, n, d), tensor(r, normal, 1, kv, n, dv)
	}
	k, v := tokens(n)
	must(t, prompt.Append(k, v))
	opt := Options{Window: Window{Left: r.IntN(2) * r.IntN(2*n)}, QueryLens: []int{},
		Integers: format == I8 && r.IntN(2) == 0, BFloat16: format < I8 && r.IntN(2) == 0}
	var seqs []*Sequence
	total, asking := 0, 0
	for range 2 + r.IntN(3) {
		s, lq := prompt.Fork(), r.IntN(12)
		k, v := tokens(lq + r.IntN(20))
		must(t, s.Append(k, v))
		if r.IntN(4) == 0 {
			must(t, s.DropBefore(r.IntN(Block)))
		}
		seqs, opt.QueryLens, total = append(seqs, s), append(opt.QueryLens, lq), total+lq
		opt.Tree, asking = append(opt.Tree, randomTree(r, lq)...), asking+min(lq, 1)
	}
	if opt.LSE = nans(heads * total); total == 0 {
		return
	}
	q, dst := tensor(r, normal, 1, heads, total, d), BHLD(nans(heads*total*dv), 1, heads, total, dv)
	must(t, AttendSequences(dst, q, seqs, &opt))
	p := newPlan(dst, q, Tensor{}, Tensor{}, &opt)
	var call ragged.Call
	must(t, p.initSequences(&call, seqs, &opt))
	p.decideSequences(&tuned, 1)
	if asking > 1 && !call.SharesPrefixes() {
		t.Errorf("queries %v share no pages", opt.QueryLens)
	}
	at := 0
	for i, lq := range opt.QueryLens {
		alone := opt
		alone.Tree, alone.QueryLens, alone.LSE = opt.Tree[at:at+lq], []int{lq}, nans(heads*lq)
		alone = alone.withoutTree(1, seqs[i].Len())
		want := BHLD(nans(heads*lq*dv), 1, heads, lq, dv)
		must(t, AttendSequences(want, q.Slice(at, at+lq), seqs[i:i+1], &alone))
		for h := range heads {
			mustEqualBits(t, fmt.Sprintf("LSE of sequence %d", i), opt.LSE[h*total+at:][:lq],
				alone.LSE[h*lq:][:lq])
			for j := range lq {
				mustEqualBits(t, fmt.Sprintf("sequence %d", i), dst.row(0, h, at+j), want.row(0, h, j))
			}
		}
		at += lq
	}
}

// Own tokens of other branches do not exist for a query, whatever they hold.
func TestHiddenOwnTokens(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(40) {
			s := treeShape(r)
			p := treeProblem(r, normal, s)
			p.k, p.v = contiguous(p.k), contiguous(p.v)
			b, i := r.IntN(p.q.B), r.IntN(p.q.L)
			seen, first := ancestorsOf(p.opt.Tree, i), p.opt.firstOwn(b, p.k.L)
			want := p.solve(t, Attend)
			for j := range p.q.L {
				if _, is := seen[j]; is {
					continue
				}
				for h := range p.k.H {
					fillWith(p.k.row(b, h, first+j), nan32())
					fillWith(p.v.row(b, h, first+j), nan32())
				}
			}
			one := selection{[]int{b}, upTo(p.q.H), i, 1}
			p.same(t, "the row", one.of(p, p.solve(t, Attend)), one.of(p, want))
			p.same(t, "the row by a Pool", one.of(p, p.solve(t, attendPooled)), one.of(p, want))
			p.opt.Integers = true
			got := one.of(p, p.solve(t, Attend))
			p.same(t, "in integers", got, one.of(p, p.masked().solve(t, Attend)))
			for _, e := range got.o {
				if e != e {
					t.Fatalf("in integers the row has a NaN")
				}
			}
		}
	})
}

// FuzzTree: with any other options a tree has the bits of its mask, however it is computed.
func FuzzTree(f *testing.F) {
	seedInputs(f)
	all, operands := implementations(), new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		s := fewRowsAndKeys(r)
		if r.IntN(64) == 0 {
			s.lq, s.lk = 1+r.IntN(2*Block), 1+r.IntN(3*Block)
		}
		p := treeProblem(r, distribution(r.IntN(int(distributions))), s)
		if r.IntN(4) == 0 {
			p = treeProblem(r, coarse, s)
			p.opt.Integers = true
		}
		switchTo(all[r.IntN(len(all))])
		want := p.masked().solve(t, Attend)
		anyTuning(t, r)
		way := ways[r.IntN(len(ways))]
		p.same(t, way.name, p.solveStrided(t, r, operands, way.attend), want)
	})
}

func TestTreeErrors(t *testing.T) {
	x := zeros(2, 2, 3, 8)
	keys := zeros(2, 2, 5, 8)
	for _, c := range []struct {
		k    Tensor
		opt  Options
		kind error
		text string
	}{
		{keys, Options{Tree: []int{-1, 0}}, ErrLength,
			"len(Tree) is 2, want one parent for each of 3 queries"},
		{keys, Options{Tree: []int{}}, ErrLength,
			"len(Tree) is 0, want one parent for each of 3 queries"},
		{keys, Options{Tree: []int{-1, 0, 2}}, ErrOption,
			"Tree[2] is 2, want -1 to 1, the index of a query before it"},
		{keys, Options{Tree: []int{0, 0, 1}}, ErrOption,
			"Tree[0] is 0, want -1 to -1, the index of a query before it"},
		{keys, Options{Tree: []int{-1, -2, 1}}, ErrOption,
			"Tree[1] is -2, want -1 to 0, the index of a query before it"},
		{keys, Options{Tree: []int{-1, 0, 1}, Causal: BottomRight}, ErrOption,
			"Causal is BottomRight with Tree, want Full: a query sees its ancestors"},
		{keys, Options{Tree: []int{-1, 0, 1}, Offset: 2}, ErrOption,
			"Offset is 2 with Tree, want 0: the last keys are the queries' own"},
		{keys, Options{Tree: []int{-1, 0, 1}, QueryLens: []int{3, 3}}, ErrOption,
			"QueryLens has 2 lengths with Tree, want nil: the last keys are the queries' own"},
		{keys, Options{Tree: []int{-1, 0, 1}, KeyLens: []int{3, 2}}, ErrLength,
			"KeyLens[1] is 2, want at least 3 with Tree: the last keys are the queries' own"},
		{zeros(2, 2, 2, 8), Options{Tree: []int{-1, 0, 1}}, ErrLength,
			"there are 2 keys, want at least 3 with Tree: the last ones are the queries' own"},
	} {
		dst := BHLD(nans(2*2*3*8), 2, 2, 3, 8)
		mustFail(t, "Attend", Attend(dst, x, c.k, c.k, &c.opt), c.kind, c.text)
		mustFail(t, "Pool", threeWorkers().Attend(dst, x, c.k, c.k, &c.opt), c.kind, c.text)
		cache, err := filled(c.k, c.k)
		must(t, err)
		mustFail(t, "Cache", cache.Attend(dst, x, &c.opt), c.kind, c.text)
		must(t, cache.Close())
		mustBeUntouched(t, dst)
	}
	none := zeros(2, 2, 0, 8)
	must(t, Attend(none, none, none, none, &Options{Tree: []int{}}))
}

func TestTreeErrorsOfSequencesAndStates(t *testing.T) {
	s := newSequenceIn(t, StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 2}, 0, 3)
	q, dst := zeros(1, 2, 5, 8), BHLD(nans(2*5*8), 1, 2, 5, 8)
	attend := func(lens, tree []int) error {
		opt := &Options{QueryLens: lens, Tree: tree}
		err := threeWorkers().AttendSequences(dst, q, []*Sequence{s, s}, opt)
		other := AttendSequences(dst, q, []*Sequence{s, s}, opt)
		if fmt.Sprint(err) != fmt.Sprint(other) {
			t.Errorf("the error is %v, and by a Pool %v", other, err)
		}
		return err
	}
	mustFail(t, "tokens", attend([]int{1, 4}, []int{-1, -1, 0, 0, 0}), ErrLength,
		"seqs[1] has 3 tokens, want at least 4 with Tree: the last ones are those of its queries")
	mustFail(t, "the sequence's own", attend([]int{2, 3}, []int{-1, 0, -1, 1, 2}), ErrOption,
		"Tree[3] is 1, want -1 to 0, the index of a query before it")
	mustFail(t, "parents", attend([]int{2, 3}, []int{-1, 0, -1, 1}), ErrLength,
		"len(Tree) is 4, want one parent for each of 5 queries")
	mustBeUntouched(t, dst)
	must(t, attend([]int{2, 3}, []int{-1, 0, -1, 0, 0}))
	state, err := NewState(StateConfig{1, 2, 5, 8})
	must(t, err)
	for _, tree := range [][]int{{}, {-1, 0, 1, 2, 3}} {
		opt, text := &Options{Tree: tree},
			"Tree is set in an Update, want nil: its last keys are not known yet"
		k := zeros(1, 2, 9, 8)
		mustFail(t, "Update", state.Update(q, k, k, opt), ErrOption, text)
		mustFail(t, "UpdateSequence", state.UpdateSequence(q, s, opt), ErrOption, text)
		mustFail(t, "Pool.Update", threeWorkers().Update(state, q, k, k, opt), ErrOption, text)
	}
	if state.Keys() != 0 {
		t.Errorf("the state has %d keys", state.Keys())
	}
}
