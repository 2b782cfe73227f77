package attn

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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

// withLists draws a problem with lists of keys, and options of which [problem.gathered] knows what
// they mean for a list: one with Slopes has no others that change scores.
func withLists(r *rand.Rand) *problem {
	s := shape{1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(4), 1 + r.IntN(5), 1 + r.IntN(4*Block),
		1 + r.IntN(40), 1 + r.IntN(40)}
	if r.IntN(4) == 0 { // lists of several segments
		s.b, s.kvh, s.lq, s.lk = 1, 1, 1+r.IntN(2), Segment+r.IntN(2*Segment)
	}
	p := problemOf(r, randomKind(r), s)
	if r.IntN(4) == 0 {
		p = finiteProblem(r, s)
		p.opt.Integers = p.opt.Slopes == nil
	}
	if p.opt.Slopes != nil {
		p.opt.Scale, p.opt.Softcap, p.opt.Bias = 1, 0, Tensor{}
	}
	heads := []int{1, p.k.H, p.q.H}[r.IntN(3)]
	p.opt.Keys = randomLists(r, oneOr(r, p.q.B), heads, p.q.L, p.k.L)
	return p
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
		Mask: BHLD(make([]bool, n), 1, 1, 1, n)}
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
	return x
}

// wantOfLists is the result of a problem with lists, query by query over what is gathered.
func (p *problem) wantOfLists(t *testing.T, first int, attend attender) *result {
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
			compareLists(t, withLists(r), func() { anyTuning(t, hosts) })
		}
	})
}

// waysOfLists are those of ways that take lists.
var waysOfLists = []string{"Attend", "Pool", "Cache", "Pool over a cache", "AttendSequences",
	"Pool over sequences"}

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

// compareLists compares all ways to attend with what is gathered.
func compareLists(t *testing.T, p *problem, host func()) {
	want := p.wantOfLists(t, 0, Attend)
	for _, way := range ways {
		if !slices.Contains(waysOfLists, way.name) {
			continue
		}
		host()
		if strings.HasSuffix(strings.ToLower(way.name), "sequences") && p.listsMissing() {
			continue
		}
		p.same(t, way.name, p.solve(t, way.attend), want)
	}
}
