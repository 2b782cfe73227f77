package attn

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/guard"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/packed"
)

// Several options say what a query sees, and each combination of them means the same as one mask of
// pairs. A document means a call of its own, and a list means the keys that it gathers.

// composition is a problem in which several options hide keys, and what they leave.
type composition struct {
	*problem
	seen Mask     // [B, H, Lq, Lk]
	ways []string // that hide something
}

// hiders are the ways to hide keys: each draws options, and removes the pairs that these hide from
// what is seen. A way with a state of its own draws it from what the others have left.
var hiders = []hider{
	{"positions", (*composition).hideByPosition},
	{"Mask", (*composition).hideByMask},
	{"Blocks", (*composition).hideByBlocks},
	{"Bias", (*composition).hideByBias},
	{"Distance", (*composition).hideByDistance},
}

type hider struct {
	name string
	hide func(c *composition, r *rand.Rand)
}

// loners are the ways of which a call has at most one, with the kind of ways that each excludes.
var loners = []struct {
	hider
	without string
}{
	{hider{"Tree", (*composition).hideByTree}, "positions"},
	{hider{"Documents", (*composition).hideByDocuments}, "positions"},
	{hider{"Keys", (*composition).hideByLists}, "Blocks"},
}

// compose draws a problem of a shape, which hiders may make smaller. It is finite if a cache of
// integers is to hold it.
func compose(r *rand.Rand, s shape) *composition {
	one := r.IntN(2 * len(loners))
	ways, without := hiders, ""
	if one < len(loners) {
		s = fitting(r, loners[one].name, s)
		ways, without = append([]hider{loners[one].hider}, hiders...), loners[one].without
	}
	p := newProblem(r, []distribution{normal, coarse, zeroes}[r.IntN(3)], s)
	if s.b > 1 && r.IntN(2) == 0 { // entries with a common prefix
		for b := 1; b < s.b; b++ {
			n := p.k.SB/p.k.SL/s.kvh - r.IntN(s.lk)
			for h := range s.kvh {
				copy(p.k.Data[b*p.k.SB+h*p.k.SH:][:n*s.d], p.k.Data[h*p.k.SH:])
				copy(p.v.Data[b*p.v.SB+h*p.v.SH:][:n*s.dv], p.v.Data[h*p.v.SH:])
			}
		}
	}
	h := s.kvh * s.group
	c := &composition{problem: p, seen: BHLD(make([]bool, s.b*h*s.lq*s.lk), s.b, h, s.lq, s.lk)}
	fillWith(c.seen.Data, true)
	for i, way := range ways {
		if own := len(ways) > len(hiders) && i == 0; own || way.name != without && r.IntN(2) == 0 {
			c.ways = append(c.ways, way.name)
			way.hide(c, r)
		}
	}
	c.drawScores(r)
	return c
}

// fitting is a shape that a way to hide keys can have.
func fitting(r *rand.Rand, way string, s shape) shape {
	switch way {
	case "Tree":
		s.lq = min(s.lq, s.lk)
	case "Documents":
		if s.b = 1; r.IntN(2) == 0 {
			s.lq = min(s.lq, s.lk)
			s.lk = s.lq
		}
	case "Keys": // each row is compared with a call of its own
		s.lq = min(s.lq, 1+r.IntN(4))
	}
	return s
}

// drawScores draws what scores are made of.
func (c *composition) drawScores(r *rand.Rand) {
	o, h := &c.opt, c.q.H
	o.drawProducts(r)
	if r.IntN(4) == 0 {
		o.Softcap = 1 + 10*r.Float32()
	}
	if r.IntN(4) == 0 {
		o.Scale = float32(r.NormFloat64())
	}
	if r.IntN(4) == 0 {
		o.Sinks = tensor(r, normal, 1, 1, 1, h).Data
	}
	if aligned := o.Causal == BottomRight && (o.KeyLens != nil || o.QueryLens != nil); !aligned &&
		r.IntN(4) == 0 { // distances need a position, which is the same for all entries
		c.drawSlopes(r)
	}
}

// drawSlopes draws slopes where the expanded mask can express them: without a tree, and with lists
// only if nothing else changes scores.
func (c *composition) drawSlopes(r *rand.Rand) {
	o := &c.opt
	if o.Tree != nil || !o.Keys.none() && !(o.Bias.none() && o.Distance.none()) {
		return
	}
	if o.Slopes = tensor(r, normal, 1, 1, 1, c.q.H).Data; !o.Keys.none() {
		o.Scale, o.Softcap, o.Integers, o.BFloat16 = 1, 0, false, false
	}
}

// hide removes pairs from what is seen.
func (c *composition) hide(hidden func(b, h, i, j int) bool) {
	for at := range c.seen.B * c.seen.H * c.seen.L {
		b, h, i := at/c.seen.L/c.seen.H, at/c.seen.L%c.seen.H, at%c.seen.L
		row := c.seen.row(b, h, i)
		for j := range row {
			row[j] = row[j] && !hidden(b, h, i, j)
		}
	}
}

func (c *composition) hideByPosition(r *rand.Rand) {
	c.randomPositions(r)
	o := &c.opt
	c.hide(func(b, _, i, j int) bool {
		queries, keys := c.q.L, c.k.L
		if o.QueryLens != nil {
			queries = o.QueryLens[b]
		}
		if o.KeyLens != nil {
			keys = o.KeyLens[b]
		}
		return o.hidesByPosition(i, j, queries, keys)
	})
}

// hidesByPosition reports whether one of some queries does not see one of some keys.
func (o *Options) hidesByPosition(i, j, queries, keys int) bool {
	at, left, right := i+o.Offset, o.Window.Left, o.Window.Right
	if o.Causal == BottomRight {
		at = i + keys - queries
	}
	return i >= queries || j >= keys || o.Causal != Full && j > at ||
		left > 0 && j <= at-left || right > 0 && j >= at+right
}

// hideByTree draws a tree, with a window and lengths of keys.
func (c *composition) hideByTree(r *rand.Rand) {
	if r.IntN(4) == 0 {
		c.opt.KeyLens = lengths(r, c.q.B, c.k.L)
	}
	if r.IntN(3) == 0 {
		c.opt.Window.Right = r.IntN(c.k.L + 2)
	}
	c.opt.growTree(r, c.q.L, c.k.L)
	seen := c.opt.treeMask(c.q.B, c.k.L)
	c.hide(func(b, _, i, j int) bool {
		return !seen.row(b, 0, i)[j] || c.opt.KeyLens != nil && j >= c.opt.KeyLens[b]
	})
}

// hideByDocuments draws documents, and which keys of its own a query sees by position.
func (c *composition) hideByDocuments(r *rand.Rand) {
	c.randomPositions(r)
	o, count := &c.opt, 1+r.IntN(1+r.IntN(8))
	o.Offset, o.QueryLens, o.KeyLens = 0, nil, nil
	o.Documents = randomLengths(r, c.q.L, count)
	if c.q.L != c.k.L || r.IntN(4) == 0 {
		o.KeyDocuments = randomLengths(r, c.k.L, count)
	}
	keys := o.keyDocuments()
	c.hide(func(_, _, i, j int) bool {
		n := 0
		for i >= o.Documents[n] {
			i, j, n = i-o.Documents[n], j-keys[n], n+1
		}
		return j < 0 || o.hidesByPosition(i, j, o.Documents[n], keys[n])
	})
}

// keyDocuments is the numbers of keys of documents.
func (o *Options) keyDocuments() []int {
	if o.KeyDocuments != nil {
		return o.KeyDocuments
	}
	return o.Documents
}

// hideByLists draws lists of keys.
func (c *composition) hideByLists(r *rand.Rand) {
	heads := []int{1, c.k.H, c.q.H}[r.IntN(3)]
	c.opt.Keys = randomLists(r, oneOr(r, c.q.B), heads, c.q.L, c.k.L)
	unlisted := c.unlisted()
	c.hide(func(b, h, i, j int) bool { return unlisted.row(b, h, i)[j] })
}

// unlisted is which keys are not in the lists of the queries; all are where there are none.
func (c *composition) unlisted() Mask {
	x := BHLD(make([]bool, len(c.seen.Data)), c.q.B, c.q.H, c.q.L, c.k.L)
	if c.opt.Keys.none() {
		return x
	}
	fillWith(x.Data, true)
	for at := range x.B * x.H * x.L {
		b, h, i := at/x.L/x.H, at/x.L%x.H, at%x.L
		for _, j := range c.listOf(b, h, i) {
			x.row(b, h, i)[j] = false
		}
	}
	return x
}

// pattern draws which pairs are seen: by chance, runs, documents, a diagonal, blocks.
func pattern(r *rand.Rand, lq, lk int) func(i, j int) bool {
	a, n := r.IntN(lk+lq), 1+r.IntN(lk)
	switch r.IntN(9) {
	case 0:
		return func(_, _ int) bool { return r.IntN(2) == 0 }
	case 1:
		return func(i, j int) bool { return j <= i+a-lq }
	case 2:
		return func(i, j int) bool { return (i+a)/n == (j+a)/n }
	case 3:
		return func(_, j int) bool { return j >= a-n/2 && j < a+n }
	case 4:
		return func(i, j int) bool { return (i/Block*7+j/Block*5+a)%3 == 0 }
	case 5:
		return func(i, _ int) bool { return i < a }
	case 6:
		return func(i, j int) bool { return (j+i/16*a)%Block < n }
	case 7:
		return func(i, j int) bool { return j/Block*Block != a/Block*Block || i%n == 0 && j == a }
	}
	return func(_, _ int) bool { return true }
}

// patternOfHeads draws a pattern that is the same for all heads, of a few another one, or of each
// its own.
func patternOfHeads(r *rand.Rand, heads, lq, lk int) func(h, i, j int) bool {
	all := make([]func(i, j int) bool, heads)
	all[0] = pattern(r, lq, lk)
	others := []int{0, 1, min(heads, 16)}[r.IntN(3)] // more are alike, too
	for h := range all[1:] {
		all[1+h] = all[0]
		if others > 1 && h < others-1 {
			all[1+h] = pattern(r, lq, lk)
		} else if others > 1 {
			all[1+h] = all[r.IntN(others)]
		}
	}
	if others == 1 {
		all[r.IntN(heads)] = pattern(r, lq, lk)
	}
	return func(h, i, j int) bool { return all[h](i, j) }
}

// drawPairs draws a view of pairs, which may be the same for entries, heads or queries.
func drawPairs[T any](c *composition, r *rand.Rand, rows, cols int,
	of func(h, i, j int) T) View[T] {
	b, h, n := oneOr(r, c.q.B), oneOr(r, c.q.H), rows
	if r.IntN(5) == 0 {
		n = 1
	}
	x := BHLD(make([]T, b*h*n*cols), b, h, n, cols)
	for at := range b * h * n {
		for j := range cols {
			x.Data[at*cols+j] = of(at/n%h, at%n, j)
		}
	}
	if n < rows {
		x.L, x.SL = rows, Broadcast
	}
	if b == 1 && c.q.B > 1 && r.IntN(2) == 0 {
		x.B, x.SB = c.q.B, Broadcast
	}
	if h == 1 && c.q.H > 1 && r.IntN(2) == 0 {
		x.H, x.SH = c.q.H, Broadcast
	}
	return x
}

// One row of a mask and of a bias stands for all queries, however a call computes: the bits are
// those of a row for each.
func TestOneRowOfPairs(t *testing.T) {
	shareSmallCalls(t)
	shapes := []shape{{2, 2, 1, 3, 70, 8, 8}, {1, 2, 2, 1, 200, 16, 8}, {2, 1, 4, 9, 130, 8, 16},
		{1, 1, 1, 1, 1, 4, 4}, {2, 2, 2, 70, 90, 8, 8}, {1, 1, 2, 40, 1100, 8, 8}}
	forEach(t, func(t *testing.T) {
		r := random("one row of pairs")
		for i := range 4 * len(shapes) {
			s := shapes[i%len(shapes)]
			p := newProblem(r, normal, s)
			h, o, one := p.q.H, &p.opt, Options{}
			o.drawProducts(r)
			if i%3 > 0 {
				one.Mask, o.Mask = rowForAll(oneOr(r, s.b), oneOr(r, h), s.lk, s.lq, func() bool {
					return r.IntN(3) > 0
				})
			}
			if i%3 < 2 {
				one.Bias, o.Bias = rowForAll(oneOr(r, s.b), oneOr(r, h), s.lk, s.lq, func() float32 {
					return []float32{float32(r.NormFloat64()), negInf}[r.IntN(4)/3]
				})
			}
			tries := ways
			switch n := r.IntN(4); {
			case n == 0 && s.b == 1:
				o.Documents, o.KeyDocuments = []int{s.lq / 2, s.lq - s.lq/2}, []int{s.lk / 3, s.lk - s.lk/3}
				tries = []way{{"Attend", Attend}, {"Pool", attendPooled}}
			case n == 1:
				o.Keys = View[int32]{Data: []int32{0, int32(s.lk) - 1}, B: 1, H: 1, L: s.lq,
					D: min(2, s.lk), SL: Broadcast}
				tries = []way{{"Attend", Attend}, {"Pool", attendPooled}, {"Cache", attendCached}}
			case n == 2:
				o.Causal = BottomRight
			}
			want := p.solve(t, Attend)
			for _, w := range tries {
				got := p.solve(t, func(dst, q, k, v Tensor, o *Options) error {
					own := *o
					own.Mask, own.Bias = one.Mask, one.Bias
					return w.attend(dst, q, k, v, &own)
				})
				p.same(t, w.name, got, want)
			}
		}
	})
}

// rowForAll is a view with one row for all queries, and one with a copy for each.
func rowForAll[T any](b, h, cols, rows int, of func() T) (one, all View[T]) {
	one = BHLD(make([]T, b*h*cols), b, h, 1, cols)
	for i := range one.Data {
		one.Data[i] = of()
	}
	all = BHLD(make([]T, b*h*rows*cols), b, h, rows, cols)
	for at := range b * h * rows {
		copy(all.row(at/rows/h, at/rows%h, at%rows), one.row(at/rows/h, at/rows%h, 0))
	}
	return one, all
}

func (c *composition) hideByMask(r *rand.Rand) {
	mask := drawPairs(c, r, c.q.L, c.k.L, patternOfHeads(r, c.q.H, c.q.L, c.k.L))
	c.opt.Mask = mask
	c.hide(func(b, h, i, j int) bool { return !mask.Row(b%mask.B, h%mask.H, i)[j] })
}

func (c *composition) hideByBlocks(r *rand.Rand) {
	seen, more := patternOfHeads(r, c.q.H, c.q.L, c.k.L), r.IntN(2) == 0
	blocks := drawPairs(c, r, partsOf(c.q.L, Block), partsOf(c.k.L, Block),
		func(h, i, j int) bool { return more && r.IntN(4) == 0 || seen(h, i*Block, j*Block) })
	c.opt.Blocks = blocks
	c.hide(func(b, h, i, j int) bool {
		return !blocks.Row(b%blocks.B, h%blocks.H, i/Block)[j/Block]
	})
}

// hideByBias draws a bias of −Inf, zeros of both signs and other numbers.
func (c *composition) hideByBias(r *rand.Rand) {
	seen := patternOfHeads(r, c.q.H, c.q.L, c.k.L)
	adds := patternOfHeads(r, c.q.H, c.q.L, c.k.L)
	if r.IntN(2) == 0 {
		adds = func(_, _, _ int) bool { return false }
	}
	zero := float32(math.Copysign(0, float64(r.IntN(2)*2-1)))
	bias := drawPairs(c, r, c.q.L, c.k.L, func(h, i, j int) float32 {
		switch {
		case !seen(h, i, j):
			return negInf
		case adds(h, i, j):
			return float32(r.NormFloat64())
		}
		return zero
	})
	c.opt.Bias = bias
	c.hide(func(b, h, i, j int) bool { return bias.Row(b%bias.B, h%bias.H, i)[j] == negInf })
}

// hideByDistance draws numbers by distance, some of which are −Inf.
func (c *composition) hideByDistance(r *rand.Rand) {
	c.opt.Distance = randomDistance(r, normal, c.q.B, c.q.H, c.q.L, c.k.L)
	bias := c.opt.biasOfDistance(c.q.B, c.q.H, c.q.L, c.k.L)
	c.hide(func(b, h, i, j int) bool { return bias.row(b, h, i)[j] == negInf })
}

// expanded is the problem with one mask, and one bias in place of numbers by distance. What a bias
// hides is 0 in it, and slopes count from an offset, but in documents, each of which has its own.
func (c *composition) expanded() *problem {
	x := *c.problem
	x.opt = x.opt.withoutDistance(c.q.B, c.q.H, c.q.L, c.k.L)
	o := &x.opt
	if aligned := o.Causal == BottomRight && o.Slopes != nil; aligned && o.Documents == nil {
		o.Offset, o.Causal = c.k.L-c.q.L, Full
	} else if !aligned {
		o.Causal = Full
	}
	o.Window, o.QueryLens, o.KeyLens, o.Tree = Window{}, nil, nil, nil
	o.Mask, o.Blocks = c.seen, Mask{}
	if !o.Bias.none() {
		o.Bias.Data = slices.Clone(o.Bias.Data)
		for i, e := range o.Bias.Data {
			if e == negInf {
				o.Bias.Data[i] = 0
			}
		}
	}
	return &x
}

// hidden reports whether no query sees a key.
func (c *composition) hidden(b, kv, j int) bool {
	group := c.q.H / c.k.H
	for at := range group * c.q.L {
		if c.seen.row(b, kv*group+at/c.q.L, at%c.q.L)[j] {
			return false
		}
	}
	return true
}

// poisoned is the problem with numbers that nobody sees changed: keys, values, lists of queries
// that do not exist, and the bias where other options hide a pair.
func (c *composition) poisoned(poison float32) *problem {
	x := *c.problem
	c.poisonLists(&x)
	x.k.Data, x.v.Data = slices.Clone(x.k.Data), slices.Clone(x.v.Data)
	for at := range x.k.B * x.k.H * x.k.L {
		b, kv, j := at/x.k.L/x.k.H, at/x.k.L%x.k.H, at%x.k.L
		if c.hidden(b, kv, j) {
			fillWith(x.k.row(b, kv, j), poison)
			fillWith(x.v.row(b, kv, j), poison)
		}
	}
	c.poisonDistance(&x)
	if x.opt.Bias.none() {
		return &x
	}
	bias, sum := x.opt.Bias, c.opt.withoutDistance(c.q.B, c.q.H, c.q.L, c.k.L).Bias
	bias.Data = slices.Clone(bias.Data)
	for i, e := range bias.Data {
		if e != negInf {
			bias.Data[i] = nan32()
		}
	}
	for at := range c.seen.B * c.seen.H * c.seen.L { // what somebody sees is as it was
		b, h, i := at/c.seen.L/c.seen.H, at/c.seen.L%c.seen.H, at%c.seen.L
		to, from := bias.Row(b%bias.B, h%bias.H, i), x.opt.Bias.Row(b%bias.B, h%bias.H, i)
		for j, seen := range c.seen.row(b, h, i) {
			if seen || sum.Row(b%sum.B, h%sum.H, i)[j] == negInf {
				to[j] = from[j]
			}
		}
	}
	x.opt.Bias = bias
	return &x
}

// poisonDistance makes numbers NaN that are of no pair that is seen.
func (c *composition) poisonDistance(x *problem) {
	o := &x.opt
	if o.Distance.none() {
		return
	}
	bias := o.biasOfDistance(c.q.B, c.q.H, c.q.L, c.k.L)
	for at, t := range []*Tensor{&o.Distance.Query, &o.Distance.Key} {
		if t.none() {
			continue
		}
		from := *t
		t.Data = nans(len(t.Data))
		for n := range c.seen.B * c.seen.H * c.seen.L {
			b, h, i := n/c.seen.L/c.seen.H, n/c.seen.L%c.seen.H, n%c.seen.L
			for j, seen := range c.seen.row(b, h, i) {
				d, together := o.distance(b, i, j, c.q.L, c.k.L)
				if together && (seen || bias.row(b, h, i)[j] == negInf) {
					row, bucket := []int{i, j}[at]%t.L, o.Distance.bucket(d)
					t.row(b%t.B, h%t.H, row)[bucket] = from.row(b%t.B, h%t.H, row)[bucket]
				}
			}
		}
	}
}

// poisonLists makes lists of queries that do not exist no lists of keys.
func (c *composition) poisonLists(x *problem) {
	lists := &x.opt.Keys
	if lists.none() || c.opt.QueryLens == nil || lists.B < c.q.B || lists.SL == Broadcast {
		return
	}
	lists.Data = slices.Clone(lists.Data)
	for at := range lists.B * lists.H * lists.L {
		if b, i := at/lists.L/lists.H, at%lists.L; i >= c.opt.QueryLens[b] {
			fillWith(lists.Row(b, at/lists.L%lists.H, i), -7)
		}
	}
}

// meaning is the result of the problem by its definition.
func (c *composition) meaning(t testing.TB, attend attender) *result {
	x := c.expanded()
	switch {
	case c.opt.Documents != nil:
		return x.solve(t, attendEach)
	case !c.opt.Keys.none():
		return strided(x).wantOfLists(t, 0, func(dst, q, k, v Tensor, opt *Options) error {
			if k.empty() { // no cache is of no token
				return Attend(dst, q, k, v, opt)
			}
			return attend(dst, q, k, v, opt)
		})
	}
	return x.solve(t, attend)
}

// takes reports whether a way to attend can express the problem; sequences without the keys that
// KeyLens hides refuse lists that name them.
func (c *composition) takes(way string) bool {
	switch {
	case c.opt.Documents != nil:
		return way == "Attend" || way == "Pool"
	case overSequences(way) && !c.opt.Distance.Key.none():
		return false
	case c.opt.Keys.none():
		return true
	case overSequences(way):
		return !c.listsMissing()
	}
	return slices.Contains(waysOfLists, way)
}

func overSequences(way string) bool { return strings.HasSuffix(strings.ToLower(way), "sequences") }

// compare compares one way to attend, Attend itself and a pool of some workers with what the
// problem means, and a head of it with the same one alone.
func (c *composition) compare(t testing.TB, r *rand.Rand, a *kerneltest.Arena) {
	defer func(n int) { workers = n }(workers)
	workers = 1 + r.IntN(len(pools)-1)
	want := c.meaning(t, Attend)
	c.compareHead(t, r.IntN(c.q.H), want)
	poisoned := strided(c.poisoned(nan32()))
	one := poisoned.solveStrided(t, r, a, Attend)
	c.same(t, c.title("Attend"), one, want)
	c.same(t, c.title("Pool and one goroutine"), poisoned.solveStrided(t, r, a, attendPooled), one)
	stored := c.problem // values for caches of integers are finite
	if r.IntN(2) == 0 {
		stored = c.poisoned(1000)
	}
	all := append(ways[1:len(ways):len(ways)], way{"State over a sequence", attendStateOfSequence})
	if at := r.IntN(len(all) + 2); at >= len(all) {
		c.compareFormat(t, r, stored)
	} else if c.takes(all[at].name) {
		c.same(t, c.title(all[at].name), stored.solve(t, all[at].attend), want)
	}
}

// compareHead compares a query head of a result with a call of that head alone, whose rows are its
// queries: no group says which row is whose.
func (c *composition) compareHead(t testing.TB, h int, all *result) {
	if !c.opt.Keys.none() {
		return // wantOfLists is of each row alone
	}
	attend := Attend
	if c.opt.Documents != nil {
		attend = attendEach
	}
	x, s := strided(c.expanded()), selection{upTo(c.q.B), []int{h}, 0, c.q.L}
	want := x.part(s).solve(t, attend)
	c.same(t, c.title(fmt.Sprintf("head %d", h)), s.of(x, all), want)
}

func (c *composition) title(way string) string {
	return fmt.Sprintf("%s, %d workers, %v", way, workers, c.ways)
}

// compareFormat compares a way to attend over tokens in any formats, at times with values in keys,
// with what the problem means over these.
func (c *composition) compareFormat(t testing.TB, r *rand.Rand, stored *problem) {
	if c.opt.Documents != nil || !c.opt.Keys.none() && c.opt.Slopes != nil {
		return
	}
	f := formatPairs[r.IntN(len(formatPairs))]
	for !c.opt.multiplies(f) {
		f = formatPairs[r.IntN(len(formatPairs))]
	}
	if c.v.D <= c.k.D && r.IntN(4) == 0 {
		f.values = f.keys
		stored.overKeys()
		c.overKeys()
	}
	in := waysIn(f)
	if r.IntN(4) == 0 {
		c.compareRing(t, r, f, stored, in["Cache"])
		return
	}
	names := slices.Sorted(maps.Keys(in))
	name := names[r.IntN(len(names))]
	if c.takes(name) && (c.opt.Offset == 0 || !overSequences(name)) {
		c.same(t, c.title(fmt.Sprintf("%s of %v", name, f)), stored.solve(t, in[name]),
			c.meaning(t, in["Cache"]))
	}
}

// compareRing compares a cache that has dropped tokens with the same tokens, hidden.
func (c *composition) compareRing(t testing.TB, r *rand.Rand, f formatPair, stored *problem,
	cached attender) {
	ring := ringOf(t, r, f, stored.k, stored.v)
	defer ring.Close()
	c.hide(func(_, _, _, j int) bool { return j < ring.First() })
	attend := func(dst, q, _, _ Tensor, opt *Options) error { return ring.Attend(dst, q, opt) }
	if r.IntN(2) == 0 {
		attend = func(dst, q, _, _ Tensor, opt *Options) error {
			return pools[workers]().AttendCache(dst, q, ring, opt)
		}
	}
	c.same(t, c.title(fmt.Sprintf("ring of %v", f)), stored.solve(t, attend), c.meaning(t, cached))
}

// strided is a problem whose mask and bias are contiguous, and say where they repeat themselves.
func strided(p *problem) *problem {
	x := *p
	x.opt.Mask, x.repeat[3] = spreadOut(p.opt.Mask)
	x.opt.Bias, x.repeat[4] = spreadOut(p.opt.Bias)
	return &x
}

// spreadOut is a view without strides, and over what it repeats itself.
func spreadOut[T any](x View[T]) (View[T], [3]bool) {
	if x.none() {
		return x, [3]bool{}
	}
	y := BHLD(make([]T, x.B*x.H*x.L*x.D), x.B, x.H, x.L, x.D)
	for at := range x.B * x.H * x.L {
		b, h, i := at/x.L/x.H, at/x.L%x.H, at%x.L
		copy(y.row(b, h, i), x.Row(b, h, i))
	}
	return y, [3]bool{x.SB == Broadcast, x.SH == Broadcast, x.SL == Broadcast}
}

// visibleShape draws a shape with several blocks and tiles, of at most so many pairs.
func visibleShape(r *rand.Rand, pairs int) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3), length(r, 3*Block), length(r, 4*Block),
		1 + r.IntN(20), 1 + r.IntN(20)}
	switch r.IntN(16) {
	case 0:
		s.lk = Segment - 70 + r.IntN(Segment+200)
	case 1, 2, 3:
		s.lq = 1 + r.IntN(3)
	}
	wide := r.IntN(3) == 0 // a chunk may begin in the middle of a group, and end in it
	if wide {
		s.group, pairs = 3+r.IntN(126), 4*pairs
	}
	for s.b*s.kvh*s.group*s.lq*s.lk > pairs {
		switch r.IntN(4) {
		case 0:
			s.b = 1
		case 1:
			if s.kvh = (s.kvh + 1) / 2; !wide {
				s.group = (s.group + 1) / 2
			}
		case 2:
			s.lq = (s.lq + 1) / 2
		case 3:
			if !wide || s.lq <= 2 { // several blocks, then
				s.lk -= s.lk / 4
			}
		}
	}
	return s
}

// Whatever hides keys, a call has the bits of one with a mask that says the same, in every way to
// attend, by any number of workers, and of each head alone. What nobody sees may hold anything.
func TestVisibility(t *testing.T) {
	shareSmallCalls(t)
	hosts, operands := random("hosts of what is seen"), new(kerneltest.Arena)
	defer operands.Free()
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(2000) {
			anyTuning(t, hosts)
			compose(r, visibleShape(r, 60_000)).compare(t, r, operands)
		}
	})
}

// FuzzVisibility is TestVisibility of small calls, on an implementation that is drawn, too.
func FuzzVisibility(f *testing.F) {
	seedInputs(f)
	all, operands := implementations(), new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		pairs := 1000
		if r.IntN(16) == 0 {
			pairs = 20_000
		}
		c := compose(r, visibleShape(r, pairs))
		switchTo(all[r.IntN(len(all))])
		anyTuning(t, r)
		c.compare(t, r, operands)
	})
}

// What nobody sees is not read: its pages may be inaccessible, in views, caches and stores, and for
// states over them.
func TestUnseenBlocksAreNotRead(t *testing.T) {
	if !guard.Protects() {
		t.Skip("no memory protection")
	}
	debug.SetPanicOnFault(true)
	forEach(t, func(t *testing.T) {
		r, pages := random(t.Name()), map[string]int{}
		for range budget(400) {
			anyTuning(t, r)
			s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3), length(r, 3*Block),
				1 + r.IntN(6*Block), 16, 16}
			if r.IntN(2) == 0 {
				s.lq = 1 + r.IntN(3)
			}
			switch r.IntN(5) {
			case 2: // chunks begin in the middle of a group
				s.group, s.lq = 3+r.IntN(126), 1+r.IntN(2)
			case 0:
				s.d, s.dv = 1+r.IntN(99), 1+r.IntN(99)
			case 1:
				s.d, s.dv = 64, 64
			}
			c := compose(r, s)
			pages["views"] += c.viewsUnseen(t)
			if c.opt.Documents == nil {
				f := formatPairs[r.IntN(len(formatPairs))]
				for !c.opt.multiplies(f) {
					f = formatPairs[r.IntN(len(formatPairs))]
				}
				pages["Cache"] += c.cacheUnseen(t, f)
				pages["store"] += c.storeUnseen(t, f)
			}
		}
		for _, memory := range []string{"views", "Cache", "store"} {
			if n := pages[memory]; n < budget(400) && os.Getpagesize() == 4096 {
				t.Errorf("%d pages of %s were inaccessible, want more", n, memory)
			}
		}
	})
}

// viewsUnseen compares calls over views whose pages cannot be read with those over others. It
// returns the number of these pages.
func (c *composition) viewsUnseen(t *testing.T) (pages int) {
	want := c.solve(t, Attend)
	x := *c.problem
	for _, y := range []*Tensor{&x.k, &x.v} {
		*y = guardedCopy(t, *y)
		var seen []byteRange
		for at := range y.B * y.H * partsOf(y.L, Block) {
			b, kv, first := at/partsOf(y.L, Block)/y.H, at/partsOf(y.L, Block)%y.H, at%partsOf(y.L,
				Block)*Block
			if !c.unseen(b, kv, first) {
				seen = append(seen, byteRange{4 * y.offset(b, kv, first), 4 * min(Block, y.L-first) * y.D})
			}
		}
		allow, n := forbidOthers(t, rawBytes(y.Data), seen)
		defer allow()
		pages += n
	}
	for _, way := range []way{{"Attend", Attend}, {"Pool", attendPooled}, {"State", attendState}} {
		if c.takes(way.name) {
			c.same(t, c.title(way.name), x.solve(t, way.attend), want)
		}
	}
	return pages
}

// cacheUnseen is viewsUnseen for a cache.
func (c *composition) cacheUnseen(t *testing.T, f formatPair) int {
	cache, err := f.filled(c.k, c.v)
	must(t, err)
	defer cache.Close()
	over := func(dst, q, _, _ Tensor, opt *Options) error { return cache.Attend(dst, q, opt) }
	want, blocks := c.solve(t, over), &cache.packed
	var seen []byteRange
	for at := range c.k.B * c.k.H * partsOf(c.k.L, Block) {
		row, first := at/partsOf(c.k.L, Block), at%partsOf(c.k.L, Block)*Block
		if !c.unseen(row/c.k.H, row%c.k.H, first) {
			place := blocks.OffsetOf(nil, row/c.k.H, row%c.k.H, first)
			seen = append(seen, byteRange{place, blocks.Size})
		}
	}
	allow, pages := forbidBlocks(t, blocks, seen)
	defer allow()
	c.same(t, c.title(fmt.Sprintf("Cache of %v", f)), c.solve(t, over), want)
	c.same(t, c.title(fmt.Sprintf("Pool over a cache of %v", f)), c.solve(t, func(dst, q, _, _ Tensor,
		opt *Options) error {
		return threeWorkers().AttendCache(dst, q, cache, opt)
	}), want)
	return pages
}

// storeUnseen is viewsUnseen for sequences of a store, where a call can have them.
func (c *composition) storeUnseen(t *testing.T, f formatPair) (pages int) {
	if !c.takes("AttendSequences") || c.opt.Offset != 0 {
		return 0
	}
	in := func(attend sequencesAttender) *result {
		return c.solve(t, func(dst, q, k, v Tensor, opt *Options) error {
			return attendPackedIn(f, dst, q, k, v, opt, attend)
		})
	}
	want := in(AttendSequences)
	ways := []sequencesAttender{AttendSequences, pooledSequences}
	if c.opt.Keys.none() && c.q.B == 1 {
		ways = append(ways, updateSequence)
	}
	for i, attend := range ways {
		got := in(func(dst, q Tensor, seqs []*Sequence, opt *Options) error {
			allow, n := c.forbidPages(t, seqs)
			defer allow()
			pages += n
			return attend(dst, q, seqs, opt)
		})
		c.same(t, c.title(fmt.Sprintf("way %d over a store of %v", i, f)), got, want)
	}
	return pages
}

// forbidPages makes what no sequence sees of a store inaccessible.
func (c *composition) forbidPages(t *testing.T, seqs []*Sequence) (allow func(), pages int) {
	blocks := &seqs[0].store.packed
	var seen []byteRange
	for b, s := range seqs {
		for at := range c.k.H * partsOf(s.Len(), Block) {
			kv, first := at%c.k.H, at/c.k.H*Block
			if !c.unseen(b, kv, first) {
				seen = append(seen, byteRange{blocks.OffsetOf(&s.table, 0, kv, first), blocks.Size})
			}
		}
	}
	return forbidBlocks(t, blocks, seen)
}

// unseen reports whether no query sees a key of a block. Blocks of documents begin anywhere, so it
// is all that could be in one with these keys; tokens that a list names may be read.
func (c *composition) unseen(b, kv, first int) bool {
	lo, hi := first, first+Block
	if c.opt.Documents != nil {
		lo, hi = first-Block+1, hi+Block-1
	}
	for j := max(0, lo); j < min(hi, c.k.L); j++ {
		if !c.hidden(b, kv, j) || c.listed(b, kv, j) {
			return false
		}
	}
	return true
}

// listed reports whether a list of a query names a key.
func (c *composition) listed(b, kv, j int) bool {
	if c.opt.Keys.none() {
		return false
	}
	group := c.q.H / c.k.H
	for at := range group * c.q.L {
		if slices.Contains(c.listOf(b, kv*group+at/c.q.L, at%c.q.L), int32(j)) {
			return true
		}
	}
	return false
}

// byteRange is some bytes of memory.
type byteRange struct{ first, bytes int }

// forbidOthers makes pages of memory inaccessible, but for those with bytes that are seen, until
// allow is called. The memory begins at a page.
func forbidOthers(t *testing.T, memory []byte, seen []byteRange) (allow func(), pages int) {
	size := os.Getpagesize()
	accessible := make([]bool, len(memory)/size+1)
	for _, x := range seen {
		for page := x.first / size; page <= (x.first+x.bytes-1)/size; page++ {
			accessible[page] = true
		}
	}
	var all []func()
	for page := range len(memory) / size {
		if !accessible[page] {
			allow, err := guard.Forbid(elements[float32](memory[page*size:][:size]))
			must(t, err)
			all = append(all, allow)
		}
	}
	return func() {
		for _, allow := range all {
			allow()
		}
	}, len(all)
}

// forbidBlocks moves packed blocks to memory of which only what is seen is accessible, until allow
// is called.
func forbidBlocks(t *testing.T, s *packed.Blocks, seen []byteRange) (allow func(), pages int) {
	memory, err := guard.New[float32](len(s.Data) / 4)
	must(t, err)
	data := s.Data
	write, _ := memory.Front(len(data) / 4)
	s.Data = rawBytes(write)
	copy(s.Data, data)
	_, pages = forbidOthers(t, s.Data, seen)
	return func() {
		s.Data = data
		memory.Free()
	}, pages
}

// guardedCopy is a copy that begins at a page.
func guardedCopy(t *testing.T, x Tensor) Tensor {
	b, err := guard.New[float32](len(x.Data))
	must(t, err)
	t.Cleanup(b.Free)
	write, _ := b.Front(len(x.Data))
	copy(write, x.Data)
	x.Data = write
	return x
}
