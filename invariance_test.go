package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// Bits of a row depend on the row's query, its live keys and values and their
// positions, and on nothing else.

// ways lists what computes attention and must give the bits of Attend.
var ways = []struct {
	name   string
	attend attender
}{
	{"Attend", Attend},
	{"Cache", attendCached},
	{"Pool", attendPooled},
	{"State", attendStreamed},
	{"Pool over a cache", attendPooledCached},
}

var threeWorkers = sync.OnceValue(func() *Pool { return NewPool(3) })

// attendPooled is Pool.Attend, but cuts even the smallest call into as many
// pieces as it can.
func attendPooled(dst, q, k, v Tensor, opt *Options) error {
	return pooled(dst, func(j *job) error {
		j.plan = newPlan(dst, q, k, v, opt)
		return j.plan.init(opt)
	})
}

// pooled runs a call that prepare validates.
func pooled(dst Tensor, prepare func(j *job) error) error {
	p := threeWorkers()
	j, err := p.begin()
	if err != nil {
		return err
	}
	defer p.end(j)
	if err := prepare(j); err != nil || dst.empty() {
		return err
	}
	j.begin(p.size)
	p.run(j)
	return nil
}

// attendCached puts keys and values into a cache, some at a time, and attends over that.
func attendCached(dst, q, k, v Tensor, opt *Options) error {
	if k.empty() {
		return Attend(dst, q, k, v, opt)
	}
	c, err := filled(k, v)
	if err != nil {
		return err
	}
	return c.Attend(dst, q, opt)
}

// attendPooledCached is attendCached with a pool that cuts even the smallest call.
func attendPooledCached(dst, q, k, v Tensor, opt *Options) error {
	if k.empty() {
		return attendPooled(dst, q, k, v, opt)
	}
	c, err := filled(k, v)
	if err != nil {
		return err
	}
	return pooled(dst, func(j *job) error {
		j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
		return j.plan.initCache(c, opt)
	})
}

// filled is a cache of some tokens.
func filled(k, v Tensor) (*Cache, error) {
	c, err := NewCache(CacheConfig{Batch: k.B, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D, Capacity: k.L})
	if err != nil {
		return nil, err
	}
	r := random("cache")
	for i := 0; i < k.L; {
		n := min(1+r.IntN(100), k.L-i)
		if err := c.Append(rowsOf(k, i, n), rowsOf(v, i, n)); err != nil {
			return nil, err
		}
		i += n
	}
	return c, nil
}

// attendStreamed gives the keys to two states in chunks of whole blocks, and
// merges them. What a state cannot know, the weights and where the last of
// several sequences of different lengths end, it leaves to Attend.
func attendStreamed(dst, q, k, v Tensor, opt *Options) error {
	err := Attend(dst, q, k, v, opt)
	o := *opt
	if err != nil || dst.empty() || o.Causal == BottomRight && (o.KeyLens != nil || o.QueryLens != nil) {
		return err
	}
	for at := range dst.B * dst.H * dst.L {
		fillWith(dst.row(at/dst.L/dst.H, at/dst.L%dst.H, at%dst.L), float32(math.NaN()))
	}
	if o.Causal == BottomRight {
		o.Causal, o.Offset = TopLeft, k.L-q.L
	}
	cut := min(k.L, Segment)
	first, err := streamed(q, k, v, o, 0, cut)
	if err != nil {
		return err
	}
	second, err := streamed(q, k, v, o, cut, k.L)
	if err != nil {
		return err
	}
	if err := first.Merge(second); err != nil {
		return err
	}
	return first.Finish(dst, opt.LSE)
}

// streamed is a state that has seen keys [lo, hi).
func streamed(q, k, v Tensor, o Options, lo, hi int) (*State, error) {
	s, err := NewState(q.B, q.H, q.L, v.D)
	if err != nil {
		return nil, err
	}
	r := random("chunks")
	origin, chunk := lo, o
	chunk.Offset, chunk.LSE, chunk.Weights = o.Offset-origin, nil, nil
	for lo < hi {
		n := min(Block*(1+r.IntN(3)), hi-lo)
		if o.Mask != nil {
			mask := *o.Mask
			mask.Data, mask.D = mask.Data[lo:], n
			chunk.Mask = &mask
		}
		if o.Bias != nil {
			bias := *o.Bias
			bias.Data, bias.D = bias.Data[lo:], n
			chunk.Bias = &bias
		}
		if o.KeyLens != nil {
			chunk.KeyLens = make([]int, len(o.KeyLens))
			for b, m := range o.KeyLens {
				chunk.KeyLens[b] = min(max(0, m-lo), n)
			}
		}
		if err := s.Update(q, rowsOf(k, lo, n), rowsOf(v, lo, n), &chunk); err != nil {
			return nil, err
		}
		lo += n
	}
	return s, nil
}

// rowsOf is rows [i, i+n) of a view.
func rowsOf[T any](v View[T], i, n int) View[T] {
	v.Data, v.L = v.Data[i*v.SL:], n
	return v
}

// kinds of inputs that results must not differ for.
func randomKind(r *rand.Rand) distribution {
	return []distribution{normal, normal, normal, special, coarse, huge, tiny, zeroes}[r.IntN(8)]
}

// Strides, gaps, order of dimensions, broadcasting and alignment do not
// matter, and nothing outside the views is read or written.
func TestStridesDoNotMatter(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r, a := random("strides"), new(arena)
				t.Cleanup(a.free)
				for range budget(250) {
					p := randomProblem(r, randomKind(r))
					want := p.solve(t, Attend)
					anyTuning(t, r)
					p.same(t, "strides", p.solveScattered(t, r, a, way.attend), want)
				}
			})
		})
	}
}

// Every implementation gives the bits of the generic one.
func TestImplementationsAgree(t *testing.T) {
	list := implementations()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			r := random("implementations")
			for range budget(200) {
				p := randomProblem(r, randomKind(r))
				use(t, generic)
				want := p.solve(t, Attend)
				for _, i := range list {
					use(t, i)
					anyTuning(t, r)
					p.same(t, i.String(), p.solve(t, way.attend), want)
				}
			}
		})
	}
}

// selection is some rows of a problem: batch entries, query heads, queries from first on.
type selection struct {
	batches, heads []int
	first, count   int
}

// pick gathers parts of a view into a contiguous one. A view of one batch
// entry or head stands for all.
func pick[T any](v View[T], batches, heads []int, first, count int) View[T] {
	out := BHLD(make([]T, len(batches)*len(heads)*count*v.D), len(batches), len(heads), count, v.D)
	for b, fromB := range batches {
		for h, fromH := range heads {
			for i := range count {
				copy(out.row(b, h, i), v.row(fromB%v.B, fromH%v.H, first+i))
			}
		}
	}
	return out
}

// part is the problem of the selected rows alone. If the selection has not
// all queries, it has one batch entry.
func (p *problem) part(s selection) *problem {
	group := p.q.H / p.k.H
	var kv []int
	for _, h := range s.heads {
		if len(kv) == 0 || kv[len(kv)-1] != h/group {
			kv = append(kv, h/group)
		}
	}
	out := &problem{
		q: pick(p.q, s.batches, s.heads, s.first, s.count),
		k: pick(p.k, s.batches, kv, 0, p.k.L),
		v: pick(p.v, s.batches, kv, 0, p.k.L),
	}
	o := &out.opt
	*o = p.opt
	if s.count != p.q.L { // say explicitly where the queries are
		o.Offset = p.reference().Position(s.batches[0], s.first)
		if o.Causal == BottomRight {
			o.Causal = TopLeft
		}
	}
	if o.Mask != nil {
		mask := pick(*o.Mask, s.batches, s.heads, s.first, s.count)
		o.Mask = &mask
	}
	if o.Bias != nil {
		bias := pick(*o.Bias, s.batches, s.heads, s.first, s.count)
		o.Bias = &bias
	}
	o.Slopes, o.Sinks = choice(o.Slopes, s.heads), choice(o.Sinks, s.heads)
	o.KeyLens, o.QueryLens = choice(o.KeyLens, s.batches), choice(o.QueryLens, s.batches)
	for b, n := range o.QueryLens {
		o.QueryLens[b] = min(max(n-s.first, 0), s.count)
	}
	return out
}

func choice[T any](from []T, indices []int) (out []T) {
	if from == nil {
		return nil
	}
	for _, i := range indices {
		out = append(out, from[i])
	}
	return out
}

// of returns the selected rows of a result.
func (s selection) of(p *problem, r *result) *result {
	part := func(data []float32, d int) []float32 {
		return pick(BHLD(data, p.q.B, p.q.H, p.q.L, d), s.batches, s.heads, s.first, s.count).Data
	}
	return &result{part(r.o, p.v.D), part(r.lse, 1), part(r.weights, p.k.L)}
}

func upTo(n int) []int { return stretch(0, n) }

func stretch(lo, hi int) (s []int) {
	for i := lo; i < hi; i++ {
		s = append(s, i)
	}
	return s
}

// testSelections compares random parts of random problems with the whole.
func testSelections(t *testing.T, count int, selections func(r *rand.Rand, p *problem) []selection) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r := random("selections")
				for range budget(count) {
					p := randomProblem(r, randomKind(r))
					whole := p.solve(t, Attend)
					for _, s := range selections(r, p) {
						part := p.part(s)
						part.same(t, fmt.Sprintf("%+v of %s", s, p.describe()), part.solve(t, way.attend), s.of(p, whole))
					}
				}
			})
		})
	}
}

func TestRowsAlone(t *testing.T) {
	testSelections(t, 150, func(r *rand.Rand, p *problem) (out []selection) {
		for range 4 {
			out = append(out, selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1})
		}
		return out
	})
}

func TestQueryChunks(t *testing.T) {
	testSelections(t, 120, func(r *rand.Rand, p *problem) (out []selection) {
		for i := 0; i < p.q.L; {
			n := min(1+r.IntN(50), p.q.L-i)
			out = append(out, selection{[]int{r.IntN(p.q.B)}, upTo(p.q.H), i, n})
			i += n
		}
		return out
	})
}

func TestBatchComposition(t *testing.T) {
	testSelections(t, 150, func(r *rand.Rand, p *problem) []selection {
		some := make([]int, 1+r.IntN(4)) // in any order, some of them twice
		for i := range some {
			some[i] = r.IntN(p.q.B)
		}
		kv := r.IntN(p.k.H)
		group := p.q.H / p.k.H
		return []selection{
			{some, upTo(p.q.H), 0, p.q.L},
			{some, stretch(kv*group, (kv+1)*group), 0, p.q.L},
		}
	})
}

// A sequence prefilled at once and the same sequence token by token, when the
// later keys do not exist yet.
func TestPrefillEqualsDecode(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r := random("decode")
				for range budget(60) {
					s := randomShape(r, moderate)
					s.b, s.lk = 1, min(s.lk, 200)
					s.lq = s.lk
					p := newProblem(r, randomKind(r), s)
					p.opt.Causal = BottomRight
					if r.IntN(2) == 0 {
						p.opt.Window = &Window{r.IntN(s.lk), r.IntN(3) - 1}
					}
					if r.IntN(2) == 0 {
						p.opt.Slopes = tensor(r, normal, 1, 1, 1, p.q.H).Data
					}
					if r.IntN(2) == 0 {
						p.opt.Mask = p.randomMask(r)
					}
					p.decodes(t, r, way.attend)
				}
			})
		})
	}
}

// decodes compares some rows of a causal problem with single queries over as
// many keys as there were at their time.
func (p *problem) decodes(t *testing.T, r *rand.Rand, attend attender) {
	whole := p.solve(t, Attend)
	for i := range p.q.L {
		if r.IntN(20) != 0 && i != p.q.L-1 {
			continue
		}
		at := selection{[]int{0}, upTo(p.q.H), i, 1}
		want := at.of(p, whole)
		step := p.part(at)
		step.opt.Causal, step.opt.Offset = BottomRight, 0
		step.k, step.v = rowsOf(step.k, 0, i+1), rowsOf(step.v, 0, i+1)
		if step.opt.Mask != nil {
			step.opt.Mask.D = i + 1
		}
		got := step.solve(t, attend)
		want.weights = pick(rowsOf(BHLD(want.weights, 1, p.q.H, 1, p.k.L), 0, 1), []int{0}, upTo(p.q.H), 0, 1).Data
		kept := want.weights[:0]
		for h := range p.q.H {
			kept = append(kept, want.weights[h*p.k.L:][:i+1]...)
		}
		want.weights = kept
		step.same(t, fmt.Sprintf("query %d of %s", i, p.describe()), got, want)
	}
}

// What masked keys, values and biases hold has no influence; a NaN that a row
// does see makes the row NaN, and no other.
func TestPoison(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r, a := random("poison"), new(arena)
				t.Cleanup(a.free)
				for range budget(200) {
					p := randomProblem(r, normal)
					p.repeat = [5][3]bool{}
					testPoison(t, r, a, p, way.attend)
				}
			})
		})
	}
}

// poison remembers what was done to the keys [B, KVH, Lk] of a problem.
type poison struct {
	key, value []bool // something
	nan        []bool // the key, or the value, became NaN
}

func testPoison(t *testing.T, r *rand.Rand, a *arena, p *problem, attend attender) {
	clean := p.solve(t, Attend)
	ref := p.reference()
	bad := *p
	n := p.k.B * p.k.H * p.k.L
	what := poison{make([]bool, n), make([]bool, n), make([]bool, n)}
	bad.k, bad.v = pick(p.k, upTo(p.k.B), upTo(p.k.H), 0, p.k.L), pick(p.v, upTo(p.k.B), upTo(p.k.H), 0, p.k.L)
	every := 1 + r.IntN(p.k.L+1)
	for at := range n {
		if r.IntN(every) != 0 {
			continue
		}
		value := specials[4+r.IntN(5)] // infinities and NaN
		what.nan[at] = value != value
		what.key[at] = r.IntN(2) == 0
		what.value[at] = !what.key[at] || r.IntN(2) == 0
		if what.key[at] {
			fillWith(bad.k.Data[at*p.k.D:][:p.k.D], value)
		}
		if what.value[at] {
			fillWith(bad.v.Data[at*p.v.D:][:p.v.D], value)
		}
	}
	bad.poisonBias(r, p)
	got := bad.solve(t, attend)
	if r.IntN(2) == 0 {
		got = bad.solveScattered(t, r, a, attend)
	}
	for row := range p.q.B * p.q.H * p.q.L {
		b, h, i := row/p.q.L/p.q.H, row/p.q.L%p.q.H, row%p.q.L
		var sees, key, nanKey, nanValue bool
		for j := range p.k.L {
			at := (b*p.k.H+h*p.k.H/p.q.H)*p.k.L + j
			if (what.key[at] || what.value[at]) && ref.Live(b, h, i, j) {
				sees, key = true, key || what.key[at]
				nanKey = nanKey || what.nan[at] && what.key[at]
				nanValue = nanValue || what.nan[at] && what.value[at]
			}
		}
		one := selection{[]int{b}, []int{h}, i, 1}
		mine, want := one.of(p, got), one.of(p, clean)
		switch {
		case !sees:
			p.same(t, fmt.Sprintf("row (%d,%d,%d), which sees no poison", b, h, i), mine, want)
		case nanKey || nanValue:
			mustBeNaN(t, p, mine.o)
			if nanKey {
				mustBeNaN(t, p, mine.lse)
			}
		}
		if !key { // values are in the output and nowhere else
			p.same(t, fmt.Sprintf("row (%d,%d,%d), without its output", b, h, i), &result{want.o, mine.lse, mine.weights}, want)
		}
	}
}

func mustBeNaN(t *testing.T, p *problem, x []float32) {
	t.Helper()
	for i, e := range x {
		if e == e {
			t.Fatalf("element %d of a row with a live NaN is %v, want NaN\n%s", i, e, p.describe())
		}
	}
}

func fillWith[T any](x []T, e T) {
	for n := copy(x, []T{e}); n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// poisonBias writes NaN and infinities to elements of the bias that belong to
// keys that are masked by something else, for every row that shares the element.
func (p *problem) poisonBias(r *rand.Rand, clean *problem) {
	if p.opt.Bias == nil {
		return
	}
	from := clean.opt.Bias
	bias := pick(*from, upTo(from.B), upTo(from.H), 0, from.L)
	p.opt.Bias = &bias
	ref := clean.reference()
	ref.Bias = nil
	live := make([]bool, len(bias.Data))
	for row := range p.q.B * p.q.H * p.q.L {
		b, h, i := row/p.q.L/p.q.H, row/p.q.L%p.q.H, row%p.q.L
		for j := range p.k.L {
			at := bias.offset(b%bias.B, h%bias.H, i) + j
			live[at] = live[at] || ref.Live(b, h, i, j)
		}
	}
	for at, is := range live {
		if !is && r.IntN(3) == 0 {
			bias.Data[at] = specials[4+r.IntN(5)]
		}
	}
}

// A mask that is true everywhere gives the bits of no mask.
func TestAllTrueMask(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("true")
		for range budget(150) {
			p := randomProblem(r, randomKind(r))
			p.opt.Mask = nil
			want := p.solve(t, Attend)
			mask := BHLD(make([]bool, p.q.L*p.k.L), 1, 1, p.q.L, p.k.L)
			for i := range mask.Data {
				mask.Data[i] = true
			}
			p.opt.Mask = &mask
			p.same(t, "all-true mask", p.solve(t, Attend), want)
		}
	})
}

// Rows without a live key are zero with LSE −Inf, whatever takes the keys away.
func TestEmptyRows(t *testing.T) {
	none := BHLD(make([]bool, 3*70), 1, 1, 3, 70)
	masked := BHLD(make([]float32, 3*70), 1, 1, 3, 70)
	fillWith(masked.Data, negInf)
	cases := map[string]Options{
		"mask":    {Mask: &none},
		"bias":    {Bias: &masked},
		"keys":    {KeyLens: []int{0, 0}},
		"queries": {QueryLens: []int{0, 0}},
		"causal":  {Causal: TopLeft, Offset: -3},
		"window":  {Offset: 100, Window: &Window{Left: 5, Right: -1}},
	}
	forEach(t, func(t *testing.T) {
		for name, opt := range cases {
			for _, sinks := range [][]float32{nil, {0.5, negInf}, {nan32(), float32(math.Inf(1))}} {
				p := newProblem(random(name), normal, shape{2, 1, 2, 3, 70, 16, 24})
				p.opt = opt
				p.opt.Sinks = sinks
				mustBeEmpty(t, name, p.solve(t, Attend))
			}
		}
	})
}

func mustBeEmpty(t *testing.T, what string, r *result) {
	t.Helper()
	for _, x := range [][]float32{r.o, r.weights} {
		for i, e := range x {
			if math.Float32bits(e) != 0 {
				t.Fatalf("%s: element %d of %d is %v (%#08x), want +0", what, i, len(x), e, math.Float32bits(e))
			}
		}
	}
	for i, e := range r.lse {
		if e != negInf {
			t.Fatalf("%s: LSE %d is %v, want -Inf", what, i, e)
		}
	}
}

// Scores that overflow to −Inf weigh nothing; a row with only such scores
// counts as empty, even if its values are NaN.
func TestOverflowToMinusInf(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, lk := range []int{1, 5, 64, 65, 200} {
			p := newProblem(random("overflow"), zeroes, shape{1, 1, 1, 7, lk, 8, 8})
			fillWith(p.q.Data, 1e30)
			fillWith(p.k.Data, -1e30)
			fillWith(p.v.Data, float32(math.NaN()))
			mustBeEmpty(t, fmt.Sprintf("%d keys", lk), p.solve(t, Attend))
		}
		p := newProblem(random("one left"), normal, shape{1, 1, 1, 7, 70, 8, 8})
		fillWith(p.q.Data, 1e30)
		fillWith(p.k.Data, -1e30)
		clear(p.k.row(0, 0, 66))
		got := p.solve(t, Attend)
		for i := range p.q.L {
			if at := firstDifference(got.o[i*8:], p.v.row(0, 0, 66)); at >= 0 {
				t.Errorf("row %d is %v, want the only value that counts, %v", i, got.o[i*8:][:8], p.v.row(0, 0, 66))
			}
		}
	})
}

// Scores of ±1e30 leave one key, or the mean of equal ones.
func TestHugeScores(t *testing.T) {
	forEach(t, func(t *testing.T) {
		p := newProblem(random("huge"), normal, shape{1, 1, 1, 3, 100, 1, 4})
		fillWith(p.q.Data, 1e15)
		for j := range p.k.L {
			p.k.Data[j] = float32(j%50) * 2e13
		}
		got := p.solve(t, Attend)
		for i := range p.q.L {
			for x, e := range got.o[i*4:][:4] {
				want := (p.v.row(0, 0, 49)[x] + p.v.row(0, 0, 99)[x]) / 2
				if math.Abs(float64(e-want)) > 1e-6 {
					t.Errorf("row %d, column %d is %v, want %v", i, x, e, want)
				}
			}
		}
	})
}

// Subnormal values are neither flushed nor scaled wrongly.
func TestSubnormalValues(t *testing.T) {
	forEach(t, func(t *testing.T) {
		p := newProblem(random("subnormal"), normal, shape{1, 1, 1, 3, 1, 16, 20})
		tiny.fill(random("values"), p.v.Data)
		got := p.solve(t, Attend)
		for i := range p.q.L {
			for x, e := range got.o[i*20:][:20] {
				if want := p.v.Data[x] + 0; e != want {
					t.Errorf("row %d, column %d is %g, want the value %g", i, x, e, want)
				}
			}
		}
	})
}

// No negative zero comes out.
func TestNoNegativeZero(t *testing.T) {
	forEach(t, func(t *testing.T) {
		p := newProblem(random("zero"), normal, shape{1, 1, 2, 5, 70, 16, 20})
		fillWith(p.v.Data, specials[1])
		for i, e := range p.solve(t, Attend).o {
			if math.Float32bits(e) != 0 {
				t.Fatalf("element %d is %v (%#08x), want +0", i, e, math.Float32bits(e))
			}
		}
	})
}

// Views without elements are valid.
func TestEmptyDimensions(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, s := range []shape{
			{0, 2, 2, 3, 4, 5, 6}, {2, 0, 2, 3, 4, 5, 6}, {2, 2, 0, 3, 4, 5, 6}, {2, 2, 2, 0, 4, 5, 6}, {2, 2, 2, 3, 0, 5, 6},
		} {
			p := newProblem(random("empty"), normal, s)
			mustBeEmpty(t, fmt.Sprintf("%+v", s), p.solve(t, Attend))
		}
	})
}

// Callers at the same time get what they get alone.
func TestConcurrentCallers(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("callers")
		var wait sync.WaitGroup
		for range 8 {
			p := randomProblem(r, normal)
			want := p.solve(t, Attend)
			wait.Go(func() {
				for range 5 {
					dst, weights, lse := p.results()
					opt := p.opt
					opt.LSE, opt.Weights = lse, &weights
					if err := Attend(dst, p.q, p.k, p.v, &opt); err != nil {
						t.Error(err)
					}
					if firstDifference(dst.Data, want.o) >= 0 || firstDifference(lse, want.lse) >= 0 {
						t.Errorf("a concurrent call gives other bits: %s", p.describe())
					}
				}
			})
		}
		wait.Wait()
	})
}

// How many rows a chunk and a tile have depends on the CPU's caches; the bits do not.
func TestCacheSizeDoesNotMatter(t *testing.T) {
	useTuning(t, with16Lanes(tuned))
	p := newProblem(random("cache size"), normal, shape{1, 1, 1, 1100, 300, tileDim, 56})
	tuned = tuned.withCaches(0, 0)
	want := p.solve(t, Attend)
	rows := map[int]bool{}
	for _, size := range []int{-1, 1, 256 << 10, 1 << 20, 2 << 20, 64 << 20} {
		tuned = tuned.withCaches(0, size)
		rows[tuned.scratchBytes()] = true
		for _, tuned.tileRows = range []int{leastTileRows, mostTileRows} {
			p.same(t, fmt.Sprintf("a cache of %d bytes, tiles of %d rows", size, tuned.tileRows), p.solve(t, Attend), want)
		}
	}
	if len(rows) != 4 {
		t.Errorf("%d sizes of chunks, want 4", len(rows))
	}
}
