package attn

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/guard"
)

// randomLists draws lists of keys: of all lengths, of runs and of single keys.
func randomLists(r *rand.Rand, b, h, lq, lk int) View[int32] {
	n := r.IntN(min(lk, 3*Block) + 1)
	if r.IntN(3) == 0 {
		n = lk
	}
	x := BHLD(make([]int32, b*h*lq*n), b, h, lq, n)
	for at := range b * h * lq {
		list := x.row(at/lq/h, at/lq%h, at%lq)
		keys := r.Perm(lk)[:r.IntN(n+1)]
		if first := r.IntN(lk); r.IntN(4) == 0 {
			keys = stretch(first, min(first+n, lk))
		}
		slices.Sort(keys)
		for i := range list {
			if list[i] = -1; i < len(keys) {
				list[i] = int32(keys[i])
			}
		}
	}
	if lq > 1 && r.IntN(4) == 0 { // one for all queries
		x.SB, x.SH, x.SL = x.Strides()
		x.SL = Broadcast
	}
	return x
}

// withLists adds lists of keys to a problem, and takes out what [problem.gathered] cannot say: with
// Slopes, other options that change scores.
func (p *problem) withLists(r *rand.Rand) *problem {
	if p.opt.Slopes != nil {
		p.opt.Scale, p.opt.Softcap, p.opt.Bias = 1, 0, Tensor{}
	}
	heads := []int{1, p.k.H, p.q.H}[r.IntN(3)]
	p.opt.Keys = randomLists(r, oneOr(r, p.q.B), heads, p.q.L, p.k.L)
	return p
}

// listShape draws a shape of few queries, at times of lists of several segments.
func listShape(r *rand.Rand) shape {
	if r.IntN(4) == 0 {
		return shape{1, 1, 1 + r.IntN(4), 1 + r.IntN(2), Segment + r.IntN(2*Segment), 1 + r.IntN(40),
			1 + r.IntN(40)}
	}
	return shape{1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(4), 1 + r.IntN(5), 1 + r.IntN(4*Block),
		1 + r.IntN(40), 1 + r.IntN(40)}
}

// listOf is the keys in the list of a query.
func (p *problem) listOf(b, h, i int) (keys []int32) {
	lists := p.opt.Keys
	if lists.H == p.k.H {
		h /= p.q.H / p.k.H
	}
	for _, j := range lists.Row(b%lists.B, h%lists.H, i) {
		if j >= 0 {
			keys = append(keys, j)
		}
	}
	return keys
}

// gathered is the call of one query over the keys that are listed, as a call without a list: what
// hides keys by position is a mask, and the terms of Slopes are one dimension more of query and
// keys, which is the same multiply-add where the scale is 1. Keys before first do not exist.
func (p *problem) gathered(b, h, i, first int) *problem {
	group, keys := p.q.H/p.k.H, p.listOf(b, h, i)
	n, more := len(keys), zeroIf(p.opt.Slopes == nil)
	x := &problem{q: zeros(1, 1, 1, p.q.D+more), k: zeros(1, 1, n, p.k.D+more),
		v: zeros(1, 1, n, p.v.D)}
	copy(x.q.Data, p.q.row(b, h, i))
	if more > 0 {
		x.q.Data[p.q.D] = p.opt.Slopes[h]
	}
	ref, o := p.reference(), &x.opt
	*o = Options{Scale: p.opt.Scale, Softcap: p.opt.Softcap, Integers: p.opt.Integers,
		BFloat16: p.opt.BFloat16, Mask: BHLD(make([]bool, n), 1, 1, 1, n)}
	if !p.opt.Bias.none() {
		o.Bias = zeros(1, 1, 1, n)
	}
	if p.opt.Sinks != nil {
		o.Sinks = p.opt.Sinks[h : h+1]
	}
	for m, key := range keys {
		j := int(key)
		copy(x.k.row(0, 0, m), p.k.row(b, h/group, j))
		copy(x.v.row(0, 0, m), p.v.row(b, h/group, j))
		if more > 0 {
			x.k.row(0, 0, m)[p.k.D] = float32(j - ref.Position(b, i))
		}
		o.Mask.Data[m] = ref.Visible(b, h, i, j) && j >= first
		if !p.opt.Bias.none() {
			o.Bias.Data[m] = p.opt.Bias.Row(b%p.opt.Bias.B, h%p.opt.Bias.H, i)[j]
		}
	}
	if latent(p.k, p.v) {
		x.v = firstOf(x.k, p.v.D)
	}
	return x
}

// wantOfLists is the result of a problem with lists, query by query over what is gathered.
func (p *problem) wantOfLists(t testing.TB, first int, attend attender) *result {
	dst, weights, lse := p.results()
	for at := range p.q.B * p.q.H * p.q.L {
		b, h, i := at/p.q.L/p.q.H, at/p.q.L%p.q.H, at%p.q.L
		if lse[at] = negInf; p.opt.QueryLens != nil && i >= p.opt.QueryLens[b] {
			clear(dst.row(b, h, i))
			clear(weights.row(b, h, i))
			continue
		}
		one := p.gathered(b, h, i, first).solve(t, attend)
		copy(dst.row(b, h, i), one.o)
		lse[at] = one.lse[0]
		if weights.D > 0 {
			clear(weights.row(b, h, i)[copy(weights.row(b, h, i), one.weights):])
		}
	}
	return &result{dst.Data, lse, weights.Data}
}

// Lists of keys have the bits of attention over the keys and values that are gathered, with every
// other option, for every way to attend and implementation.
func TestListsAreGathered(t *testing.T) {
	hosts := random("hosts of lists")
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(300) {
			p := problemOf(r, randomKind(r), listShape(r))
			if r.IntN(4) == 0 {
				p = finiteProblem(r, listShape(r)) // what a cache of I8 takes
				p.opt.Integers, p.opt.Slopes = true, nil
			}
			if p.opt.Slopes == nil && !p.opt.Integers { // which the gathered call has as a product
				p.opt.BFloat16 = r.IntN(3) == 0
			}
			p.withLists(r).mustBeGathered(t, func() { anyTuning(t, hosts) })
		}
	})
}

// waysOfLists are the ways that accept lists of keys.
var waysOfLists = []string{"Attend", "Pool", "Cache", "Pool over a cache", "AttendSequences",
	"Pool over sequences"}

// mustBeGathered compares all ways to attend with what is gathered.
func (p *problem) mustBeGathered(t *testing.T, host func()) {
	want := p.wantOfLists(t, 0, Attend)
	for _, way := range ways {
		host()
		switch sequences := strings.HasSuffix(strings.ToLower(way.name), "sequences"); {
		case !slices.Contains(waysOfLists, way.name):
		case sequences && p.listsMissing():
		default:
			p.same(t, way.name, p.solve(t, way.attend), want)
		}
	}
}

// listsMissing reports whether lists name keys that KeyLens hides: a sequence without these refuses
// them.
func (p *problem) listsMissing() bool {
	for at := range p.q.B * p.q.H * p.q.L {
		b, h, i := at/p.q.L/p.q.H, at/p.q.L%p.q.H, at%p.q.L
		keys := p.listOf(b, h, i)
		if n := len(keys); n > 0 && p.opt.KeyLens != nil && int(keys[n-1]) >= p.opt.KeyLens[b] {
			return true
		}
	}
	return false
}

// The same over caches of all formats, rings and values in keys among them: what is gathered is in
// a cache of its own.
func TestListsOverCaches(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(300) {
			anyTuning(t, r)
			s, format := listShape(r), formatPairs[r.IntN(len(formatPairs))]
			if r.IntN(8) == 0 {
				s = shape{1, 1, 1 + r.IntN(140), 1 + r.IntN(2), 1 + r.IntN(4*Block), 64, 48}
			}
			p := finiteProblem(r, s)
			if p.opt.Slopes = nil; r.IntN(2) == 0 && s.dv <= s.d {
				format.values = format.keys
				p.overKeys()
			}
			p.opt.drawProductsOver(r, format)
			c := ringOf(t, r, format, p.k, p.v)
			p.withLists(r)
			want := p.wantOfLists(t, c.First(), func(dst, q, k, v Tensor, opt *Options) error {
				if k.L == 0 {
					return Attend(dst, q, k, v, opt)
				}
				c, err := format.filled(k, v)
				must(t, err)
				return c.Attend(dst, q, opt)
			})
			p.same(t, "Cache", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return c.Attend(dst, q, opt)
			}), want)
			p.same(t, "Pool", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return pool.AttendCache(dst, q, c, opt)
			}), want)
			must(t, c.Close())
		}
	})
}

// ringOf is a cache that has dropped some tokens, and most often given their room to others.
func ringOf(t testing.TB, r *rand.Rand, f formatPair, k, v Tensor) *Cache {
	window, step := r.IntN(k.L+1), 1+r.IntN(Block)
	c, err := NewCache(CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Capacity: window + step + Block, Format: f.keys, ValueFormat: f.values,
		ValuesInKeys: latent(k, v)})
	must(t, err)
	for i := 0; i < k.L; i += step {
		must(t, c.DropBefore(max(0, i-window)))
		n := min(step, k.L-i)
		must(t, c.Append(rowsOf(k, i, n), keptValues(rowsOf(k, i, n), rowsOf(v, i, n))))
	}
	return c
}

// A list of keys that follow each other has the bits of a call over these, with any options.
func TestListsOfRuns(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(200) {
			anyTuning(t, r)
			s := listShape(r)
			s.b = 1
			p := problemOf(r, randomKind(r), s)
			first := r.IntN(p.k.L)
			n := 1 + r.IntN(p.k.L-first)
			run := *p
			run.k, run.v = contiguous(p.k.Slice(first, first+n)), contiguous(p.v.Slice(first, first+n))
			o := &run.opt
			o.Offset = p.reference().Position(0, 0) - first
			if o.Causal == BottomRight {
				o.Causal = TopLeft
			}
			if o.KeyLens != nil {
				o.KeyLens = []int{min(max(0, o.KeyLens[0]-first), n)}
			}
			o.Mask, o.Bias = columns(o.Mask, first, n), columns(o.Bias, first, n)
			want := run.solve(t, Attend)
			list := make([]int32, n)
			for i := range list {
				list[i] = int32(first + i)
			}
			p.opt.Keys = View[int32]{Data: list, B: 1, H: 1, L: p.q.L, D: n, SL: Broadcast, SB: 1, SH: 1}
			p.same(t, "Attend", p.solve(t, Attend), want)
			p.same(t, "Pool", p.solve(t, attendPooled), want)
			p.same(t, "Cache", p.solve(t, attendCached), want)
		}
	})
}

// columns is some columns of a view, if there is one.
func columns[T any](x View[T], first, n int) View[T] {
	if !x.none() {
		x.SB, x.SH, x.SL = x.Strides()
		x.Data, x.D = x.Data[first:], n
	}
	return x
}

// Keys that no list names are not read: neither what they hold, nor their memory.
func TestOtherKeysAreNotRead(t *testing.T) {
	page := os.Getpagesize() / 4
	memory, err := guard.New[float32](3 * page)
	must(t, err)
	defer memory.Free()
	forEach(t, func(t *testing.T) {
		// what follows the last token cannot be read
		_, row := memory.Back(2 * 8)
		kv := Tensor{Data: row, B: 1, H: 1, L: 2, D: 8, SB: 1, SH: 1, SL: 8}
		q, dst := zeros(1, 2, 3, 8), zeros(1, 2, 3, 8)
		list := []int32{1}
		opt := Options{Keys: View[int32]{Data: list, B: 1, H: 1, L: 3, D: 1, SB: 1, SH: 1, SL: Broadcast}}
		must(t, Attend(dst, q, kv, kv, &opt))
		r := random(t.Name())
		for range budget(60) {
			anyTuning(t, r)
			s := shape{1, 2, 2, 1 + r.IntN(3), 1 + r.IntN(3*Block), 16, 16}
			p := newProblem(r, normal, s).withLists(r)
			named := map[[2]int]bool{}
			for at := range p.q.H * p.q.L {
				for _, j := range p.listOf(0, at/p.q.L, at%p.q.L) {
					named[[2]int{at / p.q.L / 2, int(j)}] = true
				}
			}
			want, poisoned := p.solve(t, Attend), *p
			poisoned.k, poisoned.v = contiguous(p.k), contiguous(p.v)
			for at := range 2 * p.k.L {
				if h, j := at/p.k.L, at%p.k.L; !named[[2]int{h, j}] {
					fillWith(poisoned.k.row(0, h, j), nan32())
					fillWith(poisoned.v.row(0, h, j), nan32())
				}
			}
			for _, attend := range []attender{Attend, attendPooled, attendCached, attendSequences} {
				p.same(t, "poisoned", poisoned.solve(t, attend), want)
			}
		}
	})
}

func TestListsErrors(t *testing.T) {
	const below9 = ", want positions below 9, ascending, then -1"
	x := func(l int) Tensor { return zeros(2, 4, l, 8) }
	kv := zeros(2, 2, 9, 8)
	dst := BHLD(nans(2*4*3*8), 2, 4, 3, 8)
	lists := func(b, h, lq, n int, keys ...int32) View[int32] {
		v := BHLD(make([]int32, b*h*lq*n), b, h, lq, n)
		for i := range v.Data {
			v.Data[i] = -1
		}
		copy(v.Data, keys)
		return v
	}
	with := func(v View[int32]) *Options { return &Options{Keys: v} }
	for what, c := range map[string]struct {
		opt  *Options
		kind error
		text string
	}{
		"heads": {with(lists(1, 3, 3, 2)), ErrShape,
			"Keys is [1 3 3 2], want [2 or 1, 4 or 2 or 1, 3, …]"},
		"queries": {with(lists(1, 1, 2, 2)), ErrShape,
			"Keys is [1 1 2 2], want [2 or 1, 4 or 2 or 1, 3, …]"},
		"no memory": {with(View[int32]{B: 1, H: 1, L: 3, D: 2}), ErrLength,
			"len(Keys.Data) is 0, want at least 1·1·3·2: without strides it is contiguous [B H L D]"},
		"no key": {with(lists(1, 1, 3, 2, 0, 8, 0, 9)), ErrOption,
			"Keys has 9 at [0 0 1 1]" + below9},
		"descending": {with(lists(2, 2, 3, 2, 1, 0)), ErrOption, "Keys has 0 at [0 0 0 1]" + below9},
		"twice": {with(lists(2, 2, 3, 2, 1, 2, 3, 3)), ErrOption,
			"Keys has 3 at [0 0 1 1]" + below9},
		"negative": {with(lists(2, 4, 3, 2, -2)), ErrOption, "Keys has -2 at [0 0 0 0]" + below9},
		"gap":      {with(lists(2, 4, 3, 2, -1, 4)), ErrOption, "Keys has 4 at [0 0 0 1]" + below9},
		"Weights": {&Options{Keys: lists(1, 1, 3, 2), Weights: zeros(2, 4, 3, 9)}, ErrShape,
			"Weights is [2 4 3 9], want [2 4 3 2]"},
		"Blocks": {&Options{Keys: lists(1, 1, 3, 2), Blocks: BHLD(make([]bool, 1), 1, 1, 1, 1)},
			ErrOption, "Keys are set with Blocks, want one of them"},
		"Tree": {&Options{Keys: lists(1, 1, 3, 2), Tree: []int{-1, 0, 0}}, ErrOption,
			"Keys are set with Tree, want one of them"},
	} {
		mustFail(t, what, Attend(dst, x(3), kv, kv, c.opt), c.kind, c.text)
	}
	var nobody *Pool
	mustFail(t, "Pool", nobody.Attend(dst, x(3), kv, kv, with(lists(1, 1, 3, 1, 9))), ErrOption,
		"Keys has 9 at [0 0 0 0]"+below9)
	mustBeUntouched(t, dst)
	// Lists of queries that do not exist are not looked at.
	opt := with(lists(2, 1, 3, 1, 1, 2, 77, 1, 88, 99))
	opt.QueryLens = []int{2, 1}
	must(t, Attend(dst, x(3), kv, kv, opt))
	opt.QueryLens = []int{2, 2}
	mustFail(t, "QueryLens", Attend(dst, x(3), kv, kv, opt), ErrOption,
		"Keys has 88 at [1 0 1 0]"+below9)
	s, err := NewState(StateConfig{2, 4, 3, 8})
	must(t, err)
	mustFail(t, "State", s.Update(x(3), kv, kv, with(lists(1, 1, 3, 1))), ErrOption,
		"Keys are set in an Update, want none: a State sees all keys of its chunks")
	store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: 8, ValueDim: 8, Pages: 9})
	must(t, err)
	seqs := []*Sequence{store.NewSequence(), store.NewSequence()}
	for i, seq := range seqs {
		must(t, seq.Append(zeros(1, 2, 3+i, 8), zeros(1, 2, 3+i, 8)))
	}
	q, o := zeros(1, 4, 3, 8), zeros(1, 4, 3, 8)
	apart := zeros(1, 2, 9, 8)
	err = Attend(o, q, apart, apart, &Options{Keys: lists(1, 1, 3, 2), Documents: []int{3},
		KeyDocuments: []int{9}})
	mustFail(t, "Documents", err, ErrOption, "Keys are set with Documents, want one of them")
	opt = &Options{QueryLens: []int{2, 1}, Keys: lists(1, 1, 3, 1, 2, 0, 3)}
	must(t, AttendSequences(o, q, seqs, opt))
	opt.Keys.Data[1] = 3 // the second sequence has one
	mustFail(t, "sequences", AttendSequences(o, q, seqs, opt), ErrOption,
		"Keys has 3 at [0 0 1 0], want positions below 3, ascending, then -1")
	one, err := NewState(StateConfig{1, 4, 3, 8})
	must(t, err)
	mustFail(t, "UpdateSequence", one.UpdateSequence(q, seqs[0], with(lists(1, 1, 3, 1))), ErrOption,
		"Keys are set in an Update, want none: a State sees all keys of its chunks")
}

// FuzzLists composes lists with all options: every way has the bits of what is gathered, with an
// implementation that is drawn like everything else.
func FuzzLists(f *testing.F) {
	seedInputs(f)
	all := implementations()
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		switchTo(all[r.IntN(len(all))])
		anyTuning(t, r)
		p := problemOf(r, distribution(r.IntN(int(distributions))), fewRowsAndKeys(r))
		p.withLists(r).mustBeGathered(t, func() {})
	})
}
