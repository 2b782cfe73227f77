package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/guard"
)

// What a query sees is said in several ways, and each composition of them means what one mask of
// pairs says.

// composition is a problem in which several options hide keys, and what they leave.
type composition struct {
	*problem
	seen Mask     // [B, H, Lq, Lk]
	ways []string // that hide something
}

// hiders are the ways to hide keys: each draws options, and takes the pairs that these hide out of
// what is seen. A way with a state of its own draws it from what the others have left alone.
var hiders = []struct {
	name string
	hide func(c *composition, r *rand.Rand)
}{
	{"positions", (*composition).hideByPosition},
	{"Mask", (*composition).hideByMask},
	{"Blocks", (*composition).hideByBlocks},
	{"Bias", (*composition).hideByBias},
}

// compose draws a problem of a shape, finite if a cache of integers is to take it.
func compose(r *rand.Rand, s shape) *composition {
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
	for _, way := range hiders {
		if r.IntN(2) == 0 {
			c.ways = append(c.ways, way.name)
			way.hide(c, r)
		}
	}
	o := &p.opt
	o.Integers = r.IntN(4) == 0
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
		o.Slopes = tensor(r, normal, 1, 1, 1, h).Data
	}
	return c
}

// hide takes pairs out of what is seen.
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
		queries, keys, at := c.q.L, c.k.L, i+o.Offset
		if o.QueryLens != nil {
			queries = o.QueryLens[b]
		}
		if o.KeyLens != nil {
			keys = o.KeyLens[b]
		}
		if o.Causal == BottomRight {
			at = i + keys - queries
		}
		left, right := o.Window.Left, o.Window.Right
		return i >= queries || j >= keys || o.Causal != Full && j > at ||
			left > 0 && j <= at-left || right > 0 && j >= at+right
	})
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

// drawPairs draws a view of pairs, which may be the same for entries, heads or queries.
func drawPairs[T any](c *composition, r *rand.Rand, rows, cols int, of func(i, j int) T) View[T] {
	b, h, n := oneOr(r, c.q.B), oneOr(r, c.q.H), rows
	if r.IntN(5) == 0 {
		n = 1
	}
	x := BHLD(make([]T, b*h*n*cols), b, h, n, cols)
	for at := range b * h * n {
		for j := range cols {
			x.Data[at*cols+j] = of(at%n, j)
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

func (c *composition) hideByMask(r *rand.Rand) {
	mask := drawPairs(c, r, c.q.L, c.k.L, pattern(r, c.q.L, c.k.L))
	c.opt.Mask = mask
	c.hide(func(b, h, i, j int) bool { return !mask.Row(b%mask.B, h%mask.H, i)[j] })
}

func (c *composition) hideByBlocks(r *rand.Rand) {
	seen := pattern(r, c.q.L, c.k.L)
	blocks := drawPairs(c, r, parts(c.q.L, Block), parts(c.k.L, Block),
		func(i, j int) bool { return r.IntN(4) == 0 || seen(i*Block, j*Block) })
	c.opt.Blocks = blocks
	c.hide(func(b, h, i, j int) bool {
		return !blocks.Row(b%blocks.B, h%blocks.H, i/Block)[j/Block]
	})
}

// hideByBias draws a bias of −Inf, zeros of both signs and other numbers.
func (c *composition) hideByBias(r *rand.Rand) {
	seen, adds := pattern(r, c.q.L, c.k.L), pattern(r, c.q.L, c.k.L)
	if r.IntN(2) == 0 {
		adds = func(_, _ int) bool { return false }
	}
	zero := float32(math.Copysign(0, float64(r.IntN(2)*2-1)))
	bias := drawPairs(c, r, c.q.L, c.k.L, func(i, j int) float32 {
		switch {
		case !seen(i, j):
			return negInf
		case adds(i, j):
			return float32(r.NormFloat64())
		}
		return zero
	})
	c.opt.Bias = bias
	c.hide(func(b, h, i, j int) bool { return bias.Row(b%bias.B, h%bias.H, i)[j] == negInf })
}

// expanded is the problem with one mask. What a bias hides is 0 in it, and slopes count from an
// offset.
func (c *composition) expanded() *problem {
	x := *c.problem
	o := &x.opt
	if o.Causal == BottomRight && o.Slopes != nil {
		o.Offset = c.k.L - c.q.L
	}
	o.Causal, o.Window, o.QueryLens, o.KeyLens = Full, Window{}, nil, nil
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

// poisoned is the problem with numbers that nobody sees changed: keys, values, and the bias where
// other options hide a pair.
func (c *composition) poisoned(poison float32) *problem {
	x := *c.problem
	x.k.Data, x.v.Data = slices.Clone(x.k.Data), slices.Clone(x.v.Data)
	for at := range x.k.B * x.k.H * x.k.L {
		b, kv, j := at/x.k.L/x.k.H, at/x.k.L%x.k.H, at%x.k.L
		if c.hidden(b, kv, j) {
			fillWith(x.k.row(b, kv, j), poison)
			fillWith(x.v.row(b, kv, j), poison)
		}
	}
	if x.opt.Bias.none() {
		return &x
	}
	bias := x.opt.Bias
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
			if seen {
				to[j] = from[j]
			}
		}
	}
	x.opt.Bias = bias
	return &x
}

// compare compares one way to attend, and Attend itself, with the expanded mask.
func (c *composition) compare(t testing.TB, r *rand.Rand) {
	expanded := c.expanded()
	want := expanded.solve(t, Attend)
	name := func(way string) string { return fmt.Sprintf("%s, %v", way, c.ways) }
	c.same(t, name("Attend"), c.poisoned(nan32()).solve(t, Attend), want)
	stored := c.problem // what caches of integers take is finite
	if r.IntN(2) == 0 {
		stored = c.poisoned(1000)
	}
	if way := r.IntN(len(ways) + 2); way < len(ways) {
		c.same(t, name(ways[way].name), stored.solve(t, ways[way].attend), want)
		return
	}
	format := allFormats[r.IntN(len(allFormats))]
	if c.opt.Integers {
		format = I8
	}
	over := func(p *problem, pool bool) *result {
		cache, err := filledIn(format, p.k, p.v)
		must(t, err)
		defer cache.Close()
		return p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
			if pool {
				return threeWorkers().AttendCache(dst, q, cache, opt)
			}
			return cache.Attend(dst, q, opt)
		})
	}
	c.same(t, name(fmt.Sprintf("Cache of %v", format)), over(stored, r.IntN(2) == 0),
		over(expanded, false))
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
	for s.b*s.kvh*s.group*s.lq*s.lk > pairs {
		switch r.IntN(4) {
		case 0:
			s.b = 1
		case 1:
			s.kvh, s.group = (s.kvh+1)/2, (s.group+1)/2
		case 2:
			s.lq = (s.lq + 1) / 2
		case 3:
			s.lk -= s.lk / 4
		}
	}
	return s
}

// Whatever hides keys, a call has the bits of one with a mask that says the same, in every way to
// attend, and what nobody sees may hold anything.
func TestVisibility(t *testing.T) {
	shareSmallCalls(t)
	hosts := random("hosts of what is seen")
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(2000) {
			anyTuning(t, hosts)
			compose(r, visibleShape(r, 60_000)).compare(t, r)
		}
	})
}

// FuzzVisibility is TestVisibility of small calls.
func FuzzVisibility(f *testing.F) {
	seedInputs(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		r := randomFrom(data)
		pairs := 1000
		if r.IntN(16) == 0 {
			pairs = 20_000
		}
		c := compose(r, visibleShape(r, pairs))
		anyTuning(t, r)
		c.compare(t, r)
	})
}

// What nobody sees is not read: its pages may be inaccessible.
func TestUnseenBlocksAreNotRead(t *testing.T) {
	if !guard.Protects() {
		t.Skip("no memory protection")
	}
	debug.SetPanicOnFault(true)
	const d = 16 // 64 keys are a page
	forEach(t, func(t *testing.T) {
		r, pages := random(t.Name()), 0
		for range budget(300) {
			s := shape{1, 1 + r.IntN(2), 1 + r.IntN(3), length(r, 3*Block), Block * (1 + r.IntN(6)), d, d}
			if r.IntN(4) == 0 {
				s.lq = 1
			}
			c := compose(r, s)
			want := c.solve(t, Attend)
			k, v := guardedCopy(t, c.k), guardedCopy(t, c.v)
			cache, err := filledIn(formatFor(&c.opt), c.k, c.v)
			must(t, err)
			var unseen [][2]int
			for at := range s.kvh * s.lk / Block {
				kv, first := at/(s.lk/Block), at%(s.lk/Block)*Block
				if !slices.ContainsFunc(stretch(first, first+Block),
					func(j int) bool { return !c.hidden(0, kv, j) }) {
					unseen = append(unseen, [2]int{kv, first})
				}
			}
			for _, x := range unseen {
				for _, y := range []Tensor{k, v} {
					allow, err := guard.Forbid(y.Data[y.offset(0, x[0], x[1]):][:Block*d])
					must(t, err)
					defer allow()
				}
			}
			for _, attend := range []attender{Attend, attendPooled} {
				got := c.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
					return attend(dst, q, k, v, opt)
				})
				c.same(t, fmt.Sprint("views, ", c.ways), got, want)
			}
			for _, x := range unseen {
				at := cache.packed.offsetOf(nil, 0, x[0], x[1])
				block := cache.packed.data[at:][:cache.packed.block]
				if allow, err := guard.Forbid(elements[float32](block)); err == nil { // whole pages
					defer allow()
					pages++
				}
			}
			got := c.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return cache.Attend(dst, q, opt)
			})
			c.same(t, fmt.Sprint("Cache, ", c.ways), got, want)
		}
		if pages == 0 {
			t.Error("no page of a cache was inaccessible")
		}
	})
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
