package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Bits of a row depend on the row's query, its visible keys and values and their
// positions, and on nothing else.

// Strides, gaps, order of dimensions, broadcasting and alignment do not
// matter, and nothing outside the views is read or written.
func TestStridesDoNotMatter(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r, a := random("strides"), new(kerneltest.Arena)
				t.Cleanup(a.Free)
				for range budget(250) {
					p := randomProblem(r, randomKind(r))
					want := p.solve(t, Attend)
					anyTuning(t, r)
					p.same(t, "strides", p.solveStrided(t, r, a, way.attend), want)
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
				use(t, tuning.Generic)
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

// testSelections compares random parts of random problems with the whole.
func testSelections(t *testing.T, count int, selections func(r *rand.Rand,
	p *problem) []selection) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r := random("selections")
				for range budget(count) {
					p := randomProblem(r, randomKind(r))
					whole := p.solve(t, Attend)
					for _, s := range selections(r, p) {
						part := p.part(s)
						part.same(t, fmt.Sprintf("%+v of %s", s, p.describe()), part.solve(t, way.attend),
							s.of(p, whole))
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

// A sequence prefilled at once gives the bits of the same sequence decoded token by token, while
// the later keys do not exist yet.
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
						p.opt.Window = Window{r.IntN(s.lk) + 1, r.IntN(3)}
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
		if !step.opt.Mask.none() {
			step.opt.Mask.D = i + 1
		}
		got := step.solve(t, attend)
		want.weights = pick(rowsOf(BHLD(want.weights, 1, p.q.H, 1, p.k.L), 0, 1), []int{0}, upTo(p.q.H),
			0, 1).Data
		kept := want.weights[:0]
		for h := range p.q.H {
			kept = append(kept, want.weights[h*p.k.L:][:i+1]...)
		}
		want.weights = kept
		step.same(t, fmt.Sprintf("query %d of %s", i, p.describe()), got, want)
	}
}

// What masked keys, values and biases hold has no influence. A NaN makes the rows NaN
// that see it, and no others.
func TestPoison(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r, a := random("poison"), new(kerneltest.Arena)
				t.Cleanup(a.Free)
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

func testPoison(t *testing.T, r *rand.Rand, a *kerneltest.Arena, p *problem, attend attender) {
	clean := p.solve(t, Attend)
	ref := p.reference()
	bad := *p
	n := p.k.B * p.k.H * p.k.L
	what := poison{make([]bool, n), make([]bool, n), make([]bool, n)}
	bad.k, bad.v = pick(p.k, upTo(p.k.B), upTo(p.k.H), 0, p.k.L), pick(p.v, upTo(p.k.B), upTo(p.k.H),
		0, p.k.L)
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
		got = bad.solveStrided(t, r, a, attend)
	}
	for row := range p.q.B * p.q.H * p.q.L {
		b, h, i := row/p.q.L/p.q.H, row/p.q.L%p.q.H, row%p.q.L
		var sees, key, nanKey, nanValue bool
		for j := range p.k.L {
			at := (b*p.k.H+h*p.k.H/p.q.H)*p.k.L + j
			if (what.key[at] || what.value[at]) && ref.Visible(b, h, i, j) {
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
			p.same(t, fmt.Sprintf("row (%d,%d,%d), without its output", b, h, i),
				&result{want.o, mine.lse, mine.weights}, want)
		}
	}
}

func mustBeNaN(t *testing.T, p *problem, x []float32) {
	t.Helper()
	for i, e := range x {
		if e == e {
			t.Fatalf("element %d of a row that sees a NaN is %v, want NaN\n%s", i, e, p.describe())
		}
	}
}

// poisonBias writes NaN and infinities to elements of the bias that belong to
// keys that are masked by something else, for every row that shares the element.
func (p *problem) poisonBias(r *rand.Rand, clean *problem) {
	if p.opt.Bias.none() {
		return
	}
	from := clean.opt.Bias
	bias := pick(from, upTo(from.B), upTo(from.H), 0, from.L)
	p.opt.Bias = bias
	ref := clean.reference()
	ref.Bias = nil
	visible := make([]bool, len(bias.Data))
	for row := range p.q.B * p.q.H * p.q.L {
		b, h, i := row/p.q.L/p.q.H, row/p.q.L%p.q.H, row%p.q.L
		for j := range p.k.L {
			at := bias.offset(b%bias.B, h%bias.H, i) + j
			visible[at] = visible[at] || ref.Visible(b, h, i, j)
		}
	}
	for at, is := range visible {
		if !is && r.IntN(3) == 0 {
			bias.Data[at] = specials[4+r.IntN(5)]
		}
	}
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
					opt.LSE, opt.Weights = lse, weights
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
	keys := 300
	if few() {
		keys = Block + 9
	}
	p := newProblem(random("cache size"), normal, shape{1, 1, 1, 1100, keys, tuning.TileDim, 56})
	tuned = tuned.WithCaches(0, 0)
	want := p.solve(t, Attend)
	rows := map[int]bool{}
	for _, size := range []int{-1, 1, 256 << 10, 1 << 20, 2 << 20, 64 << 20} {
		tuned = tuned.WithCaches(0, size)
		rows[tuned.ScratchBytes()] = true
		for _, tuned.TileRows = range []int{minTileRows, maxTileRows} {
			p.same(t, fmt.Sprintf("a cache of %d bytes, tiles of %d rows", size, tuned.TileRows),
				p.solve(t, Attend), want)
		}
	}
	if len(rows) != 4 {
		t.Errorf("%d sizes of chunks, want 4", len(rows))
	}
}

// A key that one row sees is poison for that row alone, and a key that no row
// sees is poison for none: over a cache, a pool and a state as in Attend.
func TestPoisonedKeys(t *testing.T) { forEach(t, testPoisonedKeys) }

func testPoisonedKeys(t *testing.T) {
	const heads, lq, lk, d = 2, 9, Segment + 3*Block + 5, 8
	r := random(t.Name())
	q := tensor(r, normal, 1, heads, lq, d)
	bits := make([]bool, lq*lk)
	for i := range bits {
		bits[i] = i%lk%7 != 3 && r.IntN(5) > 0
	}
	mask := BHLD(bits, 1, 1, lq, lk)
	// Row 2 alone sees the key seen; nobody sees every seventh.
	const seen, row = 300, 2
	for i := range lq {
		mask.row(0, 0, i)[seen] = i == row
	}
	k, v := tensor(r, normal, 1, 1, lk, d), tensor(r, normal, 1, 1, lk, d)
	opt := &Options{Mask: mask}
	want := BHLD(nans(heads*lq*d), 1, heads, lq, d)
	must(t, Attend(want, q, k, v, opt))

	poison := []float32{nan32(), float32(math.Inf(1)), negInf}
	for j := range lk {
		if j%7 == 3 || j == seen {
			for x := range d {
				k.row(0, 0, j)[x], v.row(0, 0, j)[x] = poison[(j+x)%3], poison[(j+x+1)%3]
			}
		}
	}
	pool := NewPool(3)
	defer pool.Close()
	for _, way := range []struct {
		name   string
		attend func(dst Tensor) error
	}{
		{"Attend", func(dst Tensor) error { return Attend(dst, q, k, v, opt) }},
		{"Pool", func(dst Tensor) error { return pool.Attend(dst, q, k, v, opt) }},
		{"Cache", func(dst Tensor) error {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: lk})
			must(t, err)
			must(t, c.Append(k, v))
			return c.Attend(dst, q, opt)
		}},
		{"State", func(dst Tensor) error {
			s, err := NewState(StateConfig{1, heads, lq, d})
			must(t, err)
			c := &stateCase{b: 1, h: heads, kv: 1, lq: lq, lk: lk, d: d, dv: d, q: q, k: k, v: v, opt: *opt}
			c.update(t, s, 0, lk, 3*Block)
			return s.Finish(dst, nil)
		}},
	} {
		got := BHLD(nans(heads*lq*d), 1, heads, lq, d)
		must(t, way.attend(got))
		for h := range heads {
			for i := range lq {
				if i != row {
					mustEqualBits(t, way.name, got.row(0, h, i), want.row(0, h, i))
					continue
				}
				for _, e := range got.row(0, h, i) {
					if e == e {
						t.Errorf("%s: the row that sees the poison is %v, want NaN", way.name, e)
					}
				}
			}
		}
	}
}

// The row of a CPU decides how fast results come, and nothing else: whatever CPU the tests run on,
// each row gives the bits of the generic code, by all ways and in both layouts of keys and values.
func TestTuningRowsDoNotMatter(t *testing.T) {
	cases := tuningCases(t, random("tuning rows"), budget(280))
	forEachTuning(t, func(t *testing.T) {
		row, taken, some := tuned, tuningPaths{}, cases
		// slow, and the results were computed nearly so
		if row.ISA == tuning.Generic && chosen.ISA != tuning.Generic {
			some = cases[:(len(cases)+3)/4]
		}
		for i, c := range some {
			// nearly all calls fit the first, and none fits the last
			tuned.L2 = []int{1 << 20, 1 << 20, 0}[i/8%3]
			tuned.TileRows = []int{row.TileRows, minTileRows, maxTileRows}[i/24%3]
			for _, way := range ways {
				c.same(t, way.name, c.solve(t, way.attend), c.want)
			}
			taken.count(t, c.problem)
		}
		taken.check(t, row, len(some))
		tuned = row
		if row.Reads == tuning.SequentialReads {
			tuned.L2 = 0 // only keys and values that do not fit are read sequentially
		}
		if row.ISA != tuning.Generic || !testing.Short() {
			compareGolden(t)
		}
	})
}

// tuningCase is a problem and its result by generic code.
type tuningCase struct {
	*problem
	want *result
}

// tuningCases draws problems of all kinds, and solves them by generic code. In every second one the
// heads of a token lie side by side.
func tuningCases(t *testing.T, r *rand.Rand, count int) (cases []tuningCase) {
	use(t, tuning.Generic)
	defer func(row tuning.Row) { tuned = row }(chosen)
	for i := range count {
		p := tuningProblem(r, i/2%4)
		if r.IntN(4) == 0 {
			p.v.Data[r.IntN(len(p.v.Data))] = nan32()
		}
		want := p.solve(t, Attend)
		if i%2 == 0 {
			p.k, p.v = tokenMajor(p.k), tokenMajor(p.v)
		}
		cases = append(cases, tuningCase{p, want})
	}
	return cases
}

// tuningProblem draws a problem of one of four kinds.
func tuningProblem(r *rand.Rand, kind int) *problem {
	var s shape
	switch kind {
	case 0: // any shape, larger heads too
		return randomProblem(r, randomKind(r))
	case 1: // few queries of several heads
		s = shape{1 + r.IntN(2), 2 + r.IntN(4), 1 + r.IntN(3), 1 + r.IntN(4), Block + length(r, 3*Block),
			length(r, 40), length(r, 40)}
	case 2: // few queries of one head, over several blocks or more than a segment
		s = shape{1, 1, 1 + r.IntN(3), 1, 2*Block + r.IntN(Segment), 8 * (1 + r.IntN(5)),
			8 * (1 + r.IntN(5))}
	case 3: // tiles of many queries
		s = shape{1, 1, 1 + r.IntN(2), floats.MaximaRows * (1 + r.IntN(12)),
			Block*(1+r.IntN(2)) + r.IntN(20),
			floats.MaximaDim - 4 + r.IntN(20), 8 * (1 + r.IntN(8))}
	}
	p := problemOf(r, randomKind(r), s)
	if r.IntN(3) != 0 {
		p.opt.Mask, p.opt.Bias, p.opt.Softcap, p.opt.Slopes = Mask{}, Tensor{}, 0, nil
	}
	if r.IntN(2) != 0 { // all keys are visible
		p.opt.Causal, p.opt.Offset, p.opt.Window, p.opt.KeyLens = Full, 0, Window{}, nil
	}
	return p
}

// tuningPaths counts the problems that went through spans of blocks, spans of steps and kernels of
// full blocks.
type tuningPaths struct{ blocks, steps, full int }

func (n *tuningPaths) count(t *testing.T, p *problem) {
	plan, s := p.firstSpan(t)
	if s.blocks > 1 {
		n.blocks++
	}
	if s.blocks > 0 && s.step < Block {
		n.steps++
	}
	if plan.full {
		n.full++
	}
}

// check fails the test if a path that the row asks for was hardly taken, because then nothing was
// compared.
func (n *tuningPaths) check(t *testing.T, row tuning.Row, of int) {
	least := of / 40
	if row.Reads == tuning.SequentialReads && n.blocks < least || row.Reads == tuning.PagedReads &&
		n.steps < least || row.ISA != tuning.Generic && n.full < least {
		t.Errorf("of %d problems %d went in spans of blocks, %d in steps, %d through kernels of full "+
			"blocks", of, n.blocks, n.steps, n.full)
	}
}

// Each value that a field of a row may have gives the bits of the generic code, in calls of every
// number of rows that a kernel has a tile for, over all that kernels read.
func TestTuningValuesDoNotMatter(t *testing.T) {
	calls := tuningCalls(t)
	for _, own := range tuning.Table() {
		if !slices.Contains(implementations(), own.ISA) || own.ISA == tuning.Generic ||
			testing.Short() && own.CPU != chosen.CPU {
			continue
		}
		t.Run(string(own.CPU)+"/"+own.ISA.String(), func(t *testing.T) {
			own := tuning.For(own.CPU, own.ISA, 48<<10, 1<<20)
			useTuning(t, own)
			for i, field := range tuning.Fields() {
				for j, value := range valuesOf(&field) {
					row := own
					if field.Set(&row, value); row.Check() != nil || row.ISA != own.ISA {
						continue // kernels that are not there
					}
					for n, c := range calls {
						if (n+i+j)%sampled(&field, value) != 0 {
							continue
						}
						if tuned = row; field.Name != "L2" && (n+j)%2 == 0 {
							tuned.L2 = 0 // what calls read is in no cache
						}
						mustEqualBits(t, fmt.Sprintf("%s = %d, %s", field.Name, value, c.name), c.call(t), c.want)
					}
				}
			}
		})
	}
}

// sampled is of how many calls one is tried with a value: kernels end near the bounds.
func sampled(f *tuning.Field, value int) int {
	bound := value == f.Least || value == f.Most
	switch {
	case testing.Short() && bound:
		return 4
	case testing.Short():
		return 32
	case few() && bound:
		return 2
	case few():
		return 16
	}
	return 1
}

// valuesOf is values of a field: all, or those next to its bounds and to sizes of tiles.
func valuesOf(f *tuning.Field) (values []int) {
	for _, n := range []int{f.Least, f.Least + 1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 24, 25, 48, 64, 96,
		97, 256, 1000, 4096, f.Most - 1, f.Most} {
		if f.Takes(n) && !slices.Contains(values, n) {
			values = append(values, n)
		}
	}
	return values
}

// boundCall is a call, and its result by generic code.
type boundCall struct {
	name string
	call func(t *testing.T) []float32
	want []float32
}

// tuningCalls are calls of some numbers of rows over each that kernels read: views in both layouts,
// tokens and matrices in all formats.
func tuningCalls(t *testing.T) (calls []boundCall) {
	use(t, tuning.Generic)
	defer func() { tuned = chosen }()
	add := func(name string, call func(t *testing.T) []float32) {
		calls = append(calls, boundCall{name, call, slices.Clone(call(t))})
	}
	r := random("calls of tuning")
	for i, rows := range []int{1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 24, 25, 47, 50, 100} {
		group := 1
		if i%2 == 1 && rows%2 == 0 {
			group = 2
		}
		s := shape{1, 2, group, rows / group, 2*Block + 1 + r.IntN(Block), 8 * (5 + r.IntN(6)),
			8 * (5 + r.IntN(6))}
		p := newProblem(r, normal, s)
		if i%3 == 0 {
			p.opt.Causal = BottomRight
		}
		beside := *p
		beside.k, beside.v = tokenMajor(p.k), tokenMajor(p.v)
		for _, p := range []*problem{p, &beside} {
			add(fmt.Sprintf("%d rows over views", rows), func(t *testing.T) []float32 {
				return p.solve(t, Attend).o
			})
		}
		for _, f := range allFormats {
			addCaches(t, add, p, f, rows)
		}
		w := tensor(r, normal, 1, 1, 3*panel+5, s.d)
		for _, f := range matrixTypes {
			m, err := PackMatrix(w, MatrixConfig{Format: f, Transposed: true})
			must(t, err)
			addMatrix(add, m, tensor(r, normal, 1, 1, rows, s.d), f.String())
		}
		m, err := PackMatrix(w, MatrixConfig{Format: I8, Transposed: true, Integers: true})
		must(t, err)
		addMatrix(add, m, tensor(r, normal, 1, 1, rows, s.d), "integers")
	}
	return calls
}

// addCaches adds calls over a cache and a store of a format, and in integers over these.
func addCaches(t *testing.T, add func(string, func(t *testing.T) []float32), p *problem, f Format,
	rows int) {
	c, err := filledIn(f, p.k, p.v)
	must(t, err)
	store, err := NewStore(StoreConfig{KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Pages: partsOf(p.k.L, Block), Format: f})
	must(t, err)
	seq := store.NewSequence()
	must(t, seq.Append(p.k, p.v))
	for _, integers := range []bool{false, true} {
		if integers && f < I8 {
			continue
		}
		opt := p.opt
		opt.Integers = integers
		name := fmt.Sprintf("%d rows over %v, integers %t", rows, f, integers)
		add("Cache, "+name, func(t *testing.T) []float32 {
			dst, _, _ := p.results()
			must(t, c.Attend(dst, p.q, &opt))
			return dst.Data
		})
		packed := opt
		packed.QueryLens = []int{p.q.L}
		add("AttendSequences, "+name, func(t *testing.T) []float32 {
			dst, _, _ := p.results()
			must(t, AttendSequences(dst, p.q, []*Sequence{seq}, &packed))
			return dst.Data
		})
	}
}

// addMatrix adds a product by a matrix.
func addMatrix(add func(string, func(t *testing.T) []float32), m *Matrix, a Tensor, name string) {
	_, _, _, outputs := m.Dims()
	add(fmt.Sprintf("%d rows by a matrix of %s", a.L, name), func(t *testing.T) []float32 {
		dst := zeros(1, 1, a.L, outputs)
		must(t, m.MatMul(dst, a, nil))
		return dst.Data
	})
}
