package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/online"
)

func int8Problem(r *rand.Rand, s shape) *problem {
	p := finiteProblem(r, s)
	p.opt.Integers = true
	return p
}

// extremeInt8Problem is one with queries, keys, values and a Scale of any size that the domain has,
// queries that are not finite, and rows that see nothing.
func extremeInt8Problem(r *rand.Rand, s shape) *problem {
	p := int8Problem(r, s)
	p.q, p.repeat = contiguous(p.q), [5][3]bool{}
	scaleBy(p.k.Data, anyPower(r, 105))
	scaleBy(p.v.Data, anyPower(r, 105))
	for at := 0; at < len(p.q.Data); at += p.q.D {
		extremeQuery(r, p.q.Data[at:][:p.q.D])
	}
	if r.IntN(2) == 0 {
		p.opt.Scale = anyPower(r, 126) * float32(1-2*r.IntN(2))
	}
	if p.opt.Sinks != nil && r.IntN(2) == 0 {
		special.Fill(r, p.opt.Sinks)
	}
	if r.IntN(4) == 0 {
		p.opt.KeyLens = make([]int, p.k.B)
	}
	if m := p.opt.Mask; !m.none() {
		clear(m.row(r.IntN(m.B), r.IntN(m.H), r.IntN(m.L)))
	}
	return p
}

// anyPower is a power of 2 up to some exponent, or down to it.
func anyPower(r *rand.Rand, most int) float32 {
	return float32(math.Ldexp(1, r.IntN(2*most+1)-most))
}

// extremeQuery makes a query tiny, zero, large or not finite. Those whose rotation overflows are
// for TestInt8HugeQueries.
func extremeQuery(r *rand.Rand, row []float32) {
	switch r.IntN(6) {
	case 0:
		special.Fill(r, row)
	case 1:
		tiny.Fill(r, row)
	case 2:
		clear(row)
	case 3:
		row[r.IntN(len(row))] = []float32{nan32(), float32(math.Inf(1)), negInf}[r.IntN(3)]
	case 4:
		scaleBy(row, anyPower(r, 115))
	}
	for x, e := range row {
		if e-e == 0 {
			row[x] = min(max(e, -0x1p120), 0x1p120)
		}
	}
}

// mustBeInt8ByDefinition: every way to compute attention in integers has the bits of the
// definition.
func (p *problem) mustBeInt8ByDefinition(t *testing.T) {
	t.Helper()
	want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
		newIntegers(rotatedRows(p.k), p.v).attend(dst, rotatedRows(q), opt)
		return nil
	})
	for i, way := range ways {
		got := p.solve(t, way.attend)
		if i == 0 {
			want.weights = got.weights // the definition has none; ways are compared
		}
		p.same(t, way.name, got, want)
	}
}

func TestInt8IsItsDefinition(t *testing.T) {
	for name, draw := range map[string]func(r *rand.Rand, s shape) *problem{
		"usual": int8Problem, "extreme": extremeInt8Problem} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r := random("int8 " + name)
				for range budget(200) {
					anyTuning(t, r)
					draw(r, anyTypedShape(r)).mustBeInt8ByDefinition(t)
				}
			})
		})
	}
}

// Keys and values that become integers once a call, for all workers, give the bits of those that
// one worker makes; and calls in which several would make them again do so, if nothing may be
// hidden from all, and some row sees a key.
func TestInt8PackedOnce(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, once := random("packed once"), 0
		p := NewPool(8)
		defer p.Close()
		for i := range budget(100) {
			s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3), length(r, 200), length(r, 400),
				length(r, 70), length(r, 70)}
			x := []func(r *rand.Rand, s shape) *problem{int8Problem, extremeInt8Problem}[i%2](r, s)
			row := tuned
			row.SmallCall, row.WakingCall, row.FlopsPerNs = 0, 0, 1e-6 // any call is long
			useTuning(t, row)
			j, dst := new(attention), zeros(x.q.B, x.q.H, x.q.L, x.v.D)
			j.plan = newPlan(dst, x.q, x.k, x.v, &x.opt)
			if x.opt.Documents == nil && j.plan.init(&x.opt) == nil && !dst.empty() {
				j.schedule(8)
				is := j.plan.packed != nil
				hides := !x.opt.Mask.none() || !x.opt.Blocks.none() || !x.opt.Bias.none()
				want := !hides && x.opt.Keys.none() && j.plan.cost(&tuned) > 0 // some row sees a key
				if is != want {
					t.Errorf("%+v with %+v: packed once: %t, want %t", s, x.opt, is, want)
				}
				if is {
					once++
				}
			}
			x.same(t, "a pool", x.solve(t, p.Attend), x.solve(t, Attend))
		}
		if once < budget(20) {
			t.Errorf("%d calls packed once, want more", once)
		}
	})
}

// FuzzInt8: with empty rows and units of any size, every way has the bits of the definition, with
// an implementation that is drawn like everything else.
func FuzzInt8(f *testing.F) {
	seedInputs(f)
	all := implementations()
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		switchTo(all[r.IntN(len(all))])
		anyTuning(t, r)
		extremeInt8Problem(r, fewRowsAndKeys(r)).mustBeInt8ByDefinition(t)
	})
}

// Values of 1 give 1, wherever small weights are: eight bits would round them to nothing.
func TestInt8KeepsSmallWeights(t *testing.T) {
	const keys, d = 2048, 64
	for name, key := range map[string]int{"one score of 0 beside 2047 of −7": 0,
		"a last one": keys - 1} {
		q, k, v := zeros(1, 1, 1, d), zeros(1, 1, keys, d), zeros(1, 1, keys, d)
		q.Data[0] = 8
		fillWith(v.Data, 1)
		for j := range keys {
			if j != key {
				k.row(0, 0, j)[0] = -7
			}
		}
		dst := zeros(1, 1, 1, d)
		must(t, Attend(dst, q, k, v, &Options{Integers: true}))
		for _, e := range dst.Data {
			if math.Abs(float64(e)-1) > 1e-3 {
				t.Fatalf("%s: values of 1 give %v", name, e)
			}
		}
	}
}

// A NaN or an infinity reaches the rows that see it, all of each, and no others.
func TestInt8NotFinite(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf} {
			for _, into := range []string{"q", "k", "v"} {
				p := newProblem(random("not finite"), normal, shape{1, 1, 2, 90, 90, 12, 20})
				p.opt = Options{Integers: true, Causal: TopLeft}
				want := p.solve(t, Attend)
				row := map[string][]float32{"q": p.q.row(0, 1, 70),
					"k": p.k.row(0, 0, 70), "v": p.v.row(0, 0, 70)}[into]
				row[5] = bad
				got := p.solve(t, Attend)
				for at := range 2 * 90 {
					h, i := at/90, at%90
					sees := i >= 70
					if into == "q" {
						sees = i == 70 && h == 1
					}
					for x := range 20 {
						g, w := got.o[at*20+x], want.o[at*20+x]
						if sees != (g != g) || !sees && g != w {
							t.Fatalf("%v in %s: output %d of query %d, head %d is %v, was %v", bad, into, x, i, h, g, w)
						}
					}
				}
			}
		}
	})
}

func TestInt8Errors(t *testing.T) {
	x := zeros(1, 1, 2, 8)
	opt := &Options{Integers: true}
	for _, f := range []Format{F32, F16, BF16} {
		c, err := filledIn(f, x, x)
		must(t, err)
		dst := BHLD(nans(16), 1, 1, 2, 8)
		text := fmt.Sprintf("Integers is true over keys in %v, want I8 or I4", f)
		mustFail(t, "cache", c.Attend(dst, x, opt), ErrOption, text)
		mustBeUntouched(t, dst)
	}
	s := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 2, Format: F16})
	must(t, s.Append(x, x))
	text := "Integers is true over keys in F16, want I8 or I4"
	o := Options{Integers: true, QueryLens: []int{2}}
	mustFail(t, "store", AttendSequences(zeros(1, 1, 2, 8), x, []*Sequence{s}, &o), ErrOption, text)
	st, err := NewState(StateConfig{1, 1, 2, 8})
	must(t, err)
	mustFail(t, "state", st.UpdateSequence(x, s, opt), ErrOption, text)
	wide := zeros(1, 1, 1, maxInt8Dim)
	mustFail(t, "wide", Attend(zeros(1, 1, 1, 8), wide, wide, zeros(1, 1, 1, 8), opt), ErrUnsupported,
		"k.D is 65536 with Integers, want less than 65536: sums would overflow")
}

// relativeErrorOfInt8 is the error of outputs against float32.
func relativeErrorOfInt8(t *testing.T, p *problem) float64 {
	q := *p
	q.opt.Integers = true
	return relativeError(q.solve(t, Attend).o, p.solve(t, Attend).o)
}

// Integers cost little more than the rounding of queries, keys and values.
func TestInt8Accuracy(t *testing.T) {
	for _, d := range []int{64, 128} {
		p := newProblem(random("int8 accuracy"), normal, shape{1, 2, 1, 48, 512, d, d})
		if e := relativeErrorOfInt8(t, p); !(e > 0.005 && e < 0.013) {
			t.Errorf("D = %d: the error is %.4f, want about 0.01", d, e)
		}
	}
}

// States in parts, travelled and merged, have the bits of one call; states of other queries meet in
// natural units.
func TestInt8States(t *testing.T) {
	p := newProblem(random("int8 states"), normal, shape{2, 2, 2, 5, 3*Segment + 77, 24, 16})
	p.opt.Integers = true
	want := p.solve(t, Attend)
	first, err := stateOver(p.q, p.k, p.v, p.opt, 0, 2*Segment)
	must(t, err)
	second, err := stateOver(p.q, p.k, p.v, p.opt, 2*Segment, p.k.L)
	must(t, err)
	data, err := second.MarshalBinary()
	must(t, err)
	var travelled State
	must(t, travelled.UnmarshalBinary(data))
	must(t, first.Merge(&travelled))
	dst, _, lse := p.results()
	must(t, first.Finish(dst, lse))
	mustEqualBits(t, "outputs", dst.Data, want.o)
	mustEqualBits(t, "log-sum-exps", lse, want.lse)
	for n := range len(data) {
		if err := new(State).UnmarshalBinary(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes are a state", n, len(data))
		}
	}
	// beside an Update in float32 both are natural, which moves results by some rounding
	mixed, err := stateOver(p.q, p.k, p.v, p.opt, 0, Segment)
	must(t, err)
	rest := rowsOf(p.k, Segment, p.k.L-Segment)
	must(t, mixed.Update(p.q, rest, rowsOf(p.v, Segment, p.k.L-Segment), nil))
	must(t, mixed.Finish(dst, nil))
	if e := relativeError(dst.Data, want.o); e > 0.02 {
		t.Errorf("the error of a state of both arithmetics is %v", e)
	}
}

// attendForks is for queries of one batch entry that see keys from 0 on: each attends over a fork
// of one sequence, so that they share pages.
func attendForks(dst, q, k, v Tensor, opt *Options) error {
	if q.B > 1 || opt.Causal != Full || opt.Window != (Window{}) || opt.KeyLens != nil || k.empty() {
		return Attend(dst, q, k, v, opt)
	}
	store, err := NewStore(StoreConfig{KVHeads: k.H, HeadDim: k.D, ValueDim: v.D,
		Pages: (k.L + Block - 1) / Block, Format: formatFor(opt), ValuesInKeys: latent(k, v)})
	if err != nil {
		return err
	}
	seqs := []*Sequence{store.NewSequence()}
	if err := seqs[0].Append(k, keptValues(k, v)); err != nil {
		return err
	}
	for range q.L - 1 {
		seqs = append(seqs, seqs[0].Fork())
	}
	o := *opt
	o.QueryLens = slices.Repeat([]int{1}, q.L)
	return AttendSequences(dst, q, seqs, &o)
}

// forEachInt8Way runs a test with each implementation and each way to compute, over values of their
// own and over values in keys, of which views are not the integers: there are no such calls.
func forEachInt8Way(t *testing.T, test func(t *testing.T, latent bool, attend attender)) {
	forEach(t, func(t *testing.T) {
		for _, way := range append(slices.Clone(ways), struct {
			name   string
			attend attender
		}{"forks", attendForks}) {
			t.Run(way.name, func(t *testing.T) { test(t, false, way.attend) })
			t.Run(way.name+", values in keys", func(t *testing.T) { test(t, true, way.attend) })
		}
	})
}

// Queries whose unit float32 does not hold give what float32 gives.
func TestInt8UnitsBeyondFloat32(t *testing.T) {
	inf := float32(math.Inf(1))
	for name, c := range map[string]struct{ q, scale, k, lse float32 }{
		"a tiny query":            {q: 1e-44, k: 1},
		"the smallest query":      {q: math.SmallestNonzeroFloat32, k: 1},
		"a tiny Scale":            {q: 1e-20, scale: 1e-30, k: 1},
		"the smallest Scale":      {q: 1e-20, scale: math.SmallestNonzeroFloat32, k: 1},
		"a large unit":            {q: 1e30, scale: 1e30, k: 1, lse: inf},
		"a large negative unit":   {q: 1e30, scale: -1e30, k: 1, lse: negInf},
		"a large unit, zero keys": {q: 1e30, scale: 1e30},
		"a large query":           {q: math.MaxFloat32, k: 1, lse: inf},
		"a large query, back":     {q: math.MaxFloat32, scale: 0x1p-126, k: 0x1p-100},
	} {
		t.Run(name, func(t *testing.T) {
			forEachInt8Way(t, func(t *testing.T, latent bool, attend attender) {
				const d, keys = 64, 3*Block + 7
				p := newProblem(random(name), zeroes, shape{1, 1, 2, 5, keys, d, d})
				fillWith(p.q.Data, c.q)
				fillWith(p.k.Data, c.k)
				for j := range keys {
					fillWith(p.v.row(0, 0, j), float32(j%2*2))
				}
				p.opt = Options{Integers: true, Scale: c.scale}
				mean := float32(2*(keys/2)) / keys
				if latent {
					p.overKeys()
					mean = c.k
				}
				got := p.solve(t, attend)
				for i, e := range got.o {
					if !(math.Abs(float64(e-mean)) <= 1e-3*math.Abs(float64(mean))) {
						t.Fatalf("output %d is %v, want %v", i, e, mean)
					}
				}
				for i, e := range got.lse {
					want := c.lse
					if want == 0 {
						want = float32(math.Log(keys))
					}
					if e != want && !(math.Abs(float64(e-want)) < 1e-4) {
						t.Fatalf("LSE %d is %v, want %v", i, e, want)
					}
				}
			})
		})
	}
}

// Where scores overflow in natural units a sink counts for nothing, in outputs and in weights.
func TestSinksBesideScoresThatOverflow(t *testing.T) {
	for _, int8 := range []bool{false, true} {
		forEachInt8Way(t, func(t *testing.T, _ bool, attend attender) {
			p := newProblem(random("sinks"), zeroes, shape{1, 1, 1, 3, Block + 9, 4, 4})
			fillWith(p.q.Data, 1e30)
			fillWith(p.k.row(0, 0, 2), 1)
			fillWith(p.k.row(0, 0, 3), 0.5)
			fillWith(p.v.row(0, 0, 2), 7)
			p.opt = Options{Integers: int8, Scale: 1e30, Sinks: []float32{5}}
			got := p.solve(t, attend)
			for i, e := range got.o {
				if !(math.Abs(float64(e-7)) < 1e-3) {
					t.Fatalf("Int8 %t: output %d is %v, want 7", int8, i, e)
				}
			}
			p.opt.Sinks[0] = nan32()
			for i, e := range p.solve(t, attend).o {
				if e == e {
					t.Fatalf("Int8 %t: beside a sink of NaN, output %d is %v, want NaN", int8, i, e)
				}
			}
			for i, e := range got.weights {
				if want := float32(zeroIf(i%p.k.L != 2)); e != want {
					t.Fatalf("Int8 %t: weight %d is %v, want %v", int8, i, e, want)
				}
			}
		})
	}
}

// A power of 2 may stand in the query or in Scale, with the same bits, even where the rotation of
// the query overflows.
func TestInt8HugeQueries(t *testing.T) {
	forEachInt8Way(t, func(t *testing.T, latent bool, attend attender) {
		r := random("huge queries")
		for _, flip := range []float32{1, -1} {
			p := newProblem(r, normal, shape{1, 2, 2, 3, Block + 20, 96, 80})
			if latent {
				p.overKeys()
			}
			scaleBy(p.k.Data, 0x1p-6)
			for i := range p.q.Data {
				p.q.Data[i] = 1.5 + r.Float32()/4
			}
			p.opt = Options{Integers: true, Scale: 3 * flip}
			want := p.solve(t, attend)
			scaleBy(p.q.Data, 0x1p127)
			p.opt.Scale *= 0x1p-127 // which is exact
			got := p.solve(t, attend)
			mustEqualBits(t, "outputs", got.o, want.o)
			mustEqualBits(t, "log-sum-exps", got.lse, want.lse)
		}
	})
}

// Rows that see no key are zero with LSE −Inf, whatever their queries hold and whatever hides the
// keys.
func TestInt8RowsThatSeeNoKey(t *testing.T) {
	const lq, lk, d = 6, Block + 30, 8
	hidden := func() Mask {
		return BHLD(make([]bool, lq*lk), 1, 1, lq, lk)
	}
	bias := zeros(1, 1, lq, lk)
	fillWith(bias.Data, negInf)
	for name, opt := range map[string]Options{
		"Mask":            {Mask: hidden()},
		"Mask, Softcap":   {Mask: hidden(), Softcap: 3},
		"Mask, Sinks":     {Mask: hidden(), Sinks: []float32{1, 2}},
		"Mask, Slopes":    {Mask: hidden(), Slopes: []float32{1, 2}},
		"Bias":            {Bias: bias},
		"Causal":          {Causal: TopLeft, Offset: -lq},
		"Window":          {Window: Window{1, 1}, Offset: lk},
		"KeyLens":         {KeyLens: []int{0}},
		"KeyLens, Causal": {KeyLens: []int{0}, Causal: BottomRight},
		"no keys":         {},
	} {
		t.Run(name, func(t *testing.T) {
			forEachInt8Way(t, func(t *testing.T, latent bool, attend attender) {
				for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf, 1e-45, 1e-39, 0,
					math.MaxFloat32} {
					p := newProblem(random(name), normal, shape{1, 1, 2, lq, lk, d, d})
					if name == "no keys" {
						p.k, p.v = zeros(1, 1, 0, d), zeros(1, 1, 0, d)
					}
					if latent {
						p.overKeys()
					}
					fillWith(p.q.Data[:7*d], bad)
					p.opt = opt
					p.opt.Integers = true
					got := p.solve(t, attend)
					for i, e := range got.o {
						if e != 0 {
							t.Fatalf("queries of %v: output %d is %v, want 0", bad, i, e)
						}
					}
					for i, e := range got.lse {
						if e != negInf {
							t.Fatalf("queries of %v: LSE %d is %v, want −Inf", bad, i, e)
						}
					}
				}
			})
		})
	}
}

// A key that is too large for its products makes NaN of the rows that see it, and of no others.
func TestInt8KeysBeyondTheDomain(t *testing.T) {
	const d, lq = 16, 40
	for most, overflows := range map[float32]bool{0x1p127 / (127 * d): false, 0x1p120: true} {
		forEach(t, func(t *testing.T) {
			p := newProblem(random("large keys"), zeroes, shape{1, 1, 1, lq, lq, d, d})
			fillWith(p.q.Data, 1)
			fillWith(p.v.Data, 1)
			fillWith(p.k.row(0, 0, 20), most)
			p.opt = Options{Integers: true, Causal: TopLeft}
			for i, e := range p.solve(t, Attend).o {
				sees, isOne := overflows && i/d >= 20, math.Abs(float64(e)-1) < 1e-3
				if sees != (e != e) || !sees && !isOne {
					t.Fatalf("a key of %v: output %d of query %d is %v", most, i%d, i/d, e)
				}
			}
		})
	}
}

// TestUnitsOfRows compares the units and factors that rows get in one pass with those that are
// found row by row.
func TestUnitsOfRows(t *testing.T) {
	scales := []float32{0, math.SmallestNonzeroFloat32, 0x1p-130, 0x1p-126, 0x1.234p-60, 1, 3, 0x1p79,
		0x1.fffffep119, 0x1p120, 0x1.8p127 / 127, math.MaxFloat32}
	r := random(t.Name())
	for range 1000 {
		scales = append(scales, math.Float32frombits(r.Uint32N(0x7f800000)))
	}
	n := len(scales)
	for _, scale := range scales[1:100] {
		for _, natural := range []bool{false, true} {
			p := &plan{scoreScale: scale, natural: natural}
			w := &intScratch{units: slices.Clone(scales), factors: make([]float32, n)}
			want := &intScratch{units: make([]float32, n), factors: make([]float32, n)}
			w.quantizeQueries(p, &chunk{rows: n}, nil, n)
			for row, s := range scales {
				want.setUnit(p, row, online.IntegerUnit(p.scoreScale, s, 1))
			}
			if !slices.Equal(w.units, want.units) || !slices.Equal(w.factors, want.factors) {
				t.Fatalf("scale %v, natural %v: units or factors differ", scale, natural)
			}
		}
	}
}

// Caches and stores of I4, and of keys and values in two formats.

// keptIn is tokens as a cache keeps them in a format, in the words of its definition: numbers as
// float32, and a scale for each token, 1 where the format has none.
func keptIn(f Format, x Tensor) (Tensor, []float32) {
	y, scales := zeros(x.B, x.H, x.L, x.D), make([]float32, 0, x.B*x.H*x.L)
	for at := range x.B * x.H * x.L {
		b, h, i := at/x.L/x.H, at/x.L%x.H, at%x.L
		row, scale := x.row(b, h, i), float32(1)
		switch f {
		case I8:
			row, scale = integersOf(row)
		case I4:
			row, scale = levelsOf(row)
		}
		for c, e := range row {
			switch f {
			case F16:
				e = f32.FromF16(f32.ToF16(e))
			case BF16:
				e = f32.FromBF16(f32.ToBF16(e))
			}
			y.row(b, h, i)[c] = e
		}
		scales = append(scales, scale)
	}
	return y, scales
}

// levelsOf is a row as a cache of I4 keeps it.
func levelsOf(row []float32) (q []float32, scale float32) {
	scale, q = integers.ScaleOf(largestGeneric(row)), make([]float32, len(row))
	for i, e := range row {
		t := float64(float32(e / scale))
		if scale == 0 {
			t = 0
		}
		q[i] = float32(math.Copysign(nearestLevel(math.Abs(t)), t))
	}
	return q, scale
}

// nearestLevel is the magnitude of the level of a magnitude in scales.
func nearestLevel(t float64) float64 {
	switch {
	case t < 10.5:
		return 5
	case t < 22:
		return 16
	case t < 34:
		return 28
	case t < 47:
		return 40
	case t < 61.5:
		return 54
	case t < 79:
		return 69
	case t < 103:
		return 89
	}
	return 117
}

// definition is tokens in two formats: what their formats rotate is rotated.
func (f formatPair) definition(k, v Tensor) (c *integerTokens, queries func(q Tensor) Tensor) {
	c = &integerTokens{unrotate: 1}
	queries = func(q Tensor) Tensor { return q }
	if f.keys == I8 || f.keys == I4 {
		if queries = rotatedRows; latent(k, v) {
			queries = func(x Tensor) Tensor { return latentRows(x, v.D) }
		}
	}
	c.k, c.keyScales = keptIn(f.keys, queries(k))
	switch {
	case latent(k, v):
		c.v, c.valueScales = firstOf(c.k, v.D), c.keyScales
		if f.keys == I8 || f.keys == I4 {
			c.unrotate = v.D & -v.D
		}
	case f.values == I4:
		c.unrotate = v.D & -v.D
		c.v, c.valueScales = keptIn(I4, rotatedRows(v))
	default:
		c.v, c.valueScales = keptIn(f.values, v)
	}
	return c, queries
}

// mustBeDefined: every way over tokens in two formats has the bits of the definition.
func (p *problem) mustBeDefined(t *testing.T, f formatPair) {
	t.Helper()
	c, queries := f.definition(p.k, p.v)
	want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
		c.attend(dst, queries(q), opt)
		return nil
	})
	want.weights = nil // the definition has none; ways are compared
	for _, name := range []string{"Cache", "Pool over a cache", "AttendSequences",
		"Pool over sequences"} {
		if p.opt.Offset != 0 && strings.Contains(strings.ToLower(name), "sequences") {
			continue
		}
		got := p.solve(t, waysIn(f)[name])
		if want.weights == nil {
			want.weights = got.weights
		}
		p.same(t, fmt.Sprint(f, " ", name), got, want)
	}
}

// Keys and values in any two formats give what their definitions say, with every option.
func TestCacheOfTwoFormatsIsItsDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, f := range formatPairs {
			r := random("two formats " + f.String())
			for range budget(40) {
				anyTuning(t, r)
				finiteProblem(r, anyTypedShape(r)).mustBeDefined(t, f)
			}
		}
	})
}

// integerPairs are those that Integers takes.
var integerPairs = []formatPair{{I8, I8}, {I4, I4}, {I8, I4}, {I4, I8}}

// So do products of integers.
func TestInt8OfTwoFormatsIsItsDefinition(t *testing.T) {
	for name, draw := range map[string]func(r *rand.Rand, s shape) *problem{
		"usual": int8Problem, "extreme": extremeInt8Problem} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				for _, f := range integerPairs {
					r := random("int8 " + f.String() + name)
					for range budget(100) {
						anyTuning(t, r)
						draw(r, anyTypedShape(r)).mustBeDefined(t, f)
					}
				}
			})
		})
	}
}

// And values that are part of keys in I4, stored or computed with.
func TestLatentLevelsAreTheirDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("latent levels")
		for range budget(200) {
			anyTuning(t, r)
			p := finiteProblem(r, latentShape(r)).overKeys()
			p.opt.Integers = r.IntN(2) == 0
			p.mustBeDefined(t, formatPair{I4, I4})
		}
	})
}

// A token has the same codes wherever it is appended and in whatever company: alone, in groups, in
// whole panels, and after others were taken back or moved.
func TestCacheOfLevelsDoesNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("levels")
		for range budget(100) {
			s := shape{1, 2, 1, 1, 1 + r.IntN(3*Block), 1 + r.IntN(40), 1 + r.IntN(40)}
			f := integerPairs[1+r.IntN(3)]
			p := finiteProblem(r, s)
			want, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: s.d, ValueDim: s.dv,
				Capacity: s.lk, Format: f.keys, ValueFormat: f.values})
			must(t, err)
			must(t, want.Append(p.k, p.v))
			got := p.typedCacheOf(t, r, f)
			mustEqualFiles(t, "appended in pieces", cacheFileOf(t, got), cacheFileOf(t, want))

			var kept []int
			for j := range s.lk {
				if r.IntN(3) > 0 {
					kept = append(kept, j)
				}
			}
			if len(kept) == 0 {
				continue
			}
			must(t, got.Keep(kept))
			must(t, want.Truncate(kept[0]))
			for _, j := range kept {
				must(t, want.Append(rowsOf(p.k, j, 1), rowsOf(p.v, j, 1)))
			}
			mustEqualFiles(t, "kept", cacheFileOf(t, got), cacheFileOf(t, want))
			must(t, got.Close())
			must(t, want.Close())
		}
	})
}

// What is read is levels times scales, rotated back.
func TestCacheOfLevelsReads(t *testing.T) {
	r := random("levels read")
	for range 20 {
		s := shape{2, 2, 1, 1, 1 + r.IntN(2*Block), 1 + r.IntN(40), 1 + r.IntN(40)}
		p := finiteProblem(r, s)
		f := integerPairs[1+r.IntN(3)]
		c := p.typedCacheOf(t, r, f)
		k, v := zeros(2, 2, s.lk, s.d), zeros(2, 2, s.lk, s.dv)
		must(t, c.Read(k, v, 0))
		d, _ := f.definition(p.k, p.v)
		mustEqualBits(t, "keys", k.Data, rotatedRows(decoded(d.k, d.keyScales)).Data)
		want := decoded(d.v, d.valueScales)
		rotateGeneric(want.Data, 2*2*s.lk, s.dv, s.dv, d.unrotate)
		mustEqualBits(t, "values", v.Data, want.Data)
		must(t, c.Close())
	}
}

// Values that would overflow when they are rotated are refused, as keys are; ValueFormat is one
// that there is, and with ValuesInKeys the format of keys.
func TestTwoFormatsErrors(t *testing.T) {
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 4, Capacity: 9, Format: I8,
		ValueFormat: I4}
	c, err := NewCache(config)
	must(t, err)
	k, v := zeros(1, 1, 1, 8), zeros(1, 1, 1, 4)
	v.Data[2] = math.MaxFloat32/4 + 1e32
	mustFail(t, "large values", c.Append(k, v), ErrOption, "v has an element of size 8.507068e+37 in "+
		"token 0 of head 0, batch entry 0, want at most 8.5070587e+37 for I4")
	if c.Len() != 0 {
		t.Errorf("%d tokens after an error", c.Len())
	}
	v.Data[2] = math.MaxFloat32 / 4
	must(t, c.Append(k, v))

	config.ValueFormat = 9
	_, err = NewCache(config)
	mustFail(t, "unknown", err, ErrOption, "CacheConfig.ValueFormat is Format(9), want F16, BF16, "+
		"I8, I4, or 0 for Format")
	config.ValueFormat, config.ValuesInKeys = I4, true
	_, err = NewCache(config)
	mustFail(t, "latent", err, ErrOption, "CacheConfig.ValueFormat is I4 with ValuesInKeys, want 0 "+
		"or Format, I8")
	store := StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 4, Pages: 1, Format: I4, ValueFormat: -2}
	_, err = NewStore(store)
	mustFail(t, "store", err, ErrOption, "StoreConfig.ValueFormat is Format(-2), want F16, BF16, I8, "+
		"I4, or 0 for Format")

	mixed, err := formatPair{I8, F16}.filled(k, v)
	must(t, err)
	mustFail(t, "integers", mixed.Attend(zeros(1, 1, 1, 4), k, &Options{Integers: true}), ErrOption,
		"Integers is true over values in F16, want I8 or I4")

	_, err = PackMatrix(k, MatrixConfig{Format: I4})
	mustFail(t, "matrix", err, ErrOption, "MatrixConfig.Format is I4, want F32, F16, BF16 or I8: "+
		"weights of 4 bits are blocks, see PackBlocks")
}

// The file of a cache of two formats is refused by a reader of another ValueFormat.
func TestTwoFormatsFile(t *testing.T) {
	p := newProblem(random("file of two formats"), normal, shape{1, 2, 1, 1, 100, 12, 20})
	for _, f := range formatPairs {
		c, err := f.filled(p.k, p.v)
		must(t, err)
		file := cacheFileOf(t, c)
		config := c.Config()
		again, err := NewCache(config)
		must(t, err)
		_, err = again.Load(strings.NewReader(string(file)))
		must(t, err)
		mustEqualFiles(t, f.String(), cacheFileOf(t, again), file)
		if config.ValueFormat = BF16; f.values == BF16 {
			config.ValueFormat = F16
		}
		other, err := NewCache(config)
		must(t, err)
		_, err = other.Load(strings.NewReader(string(file)))
		mustFail(t, f.String(), err, ErrOption, fmt.Sprintf("the file's ValueFormat is %v, want the "+
			"cache's %v", f.values, config.ValueFormat))
	}
}

// States over sequences of rotated values merge as they are, and Finish rotates back once.
func TestTwoFormatsStates(t *testing.T) {
	const heads, lq, d, dv = 4, 3, 20, 24
	forEach(t, func(t *testing.T) {
		for _, f := range integerPairs {
			r := random("states of " + f.String())
			q := tensor(r, normal, 1, heads, lq, d)
			k, v := tensor(r, normal, 1, 2, Segment+100, d), tensor(r, normal, 1, 2, Segment+100, dv)
			all, err := f.filled(k, v)
			must(t, err)
			store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: d, ValueDim: dv, Pages: 40,
				Format: f.keys, ValueFormat: f.values})
			must(t, err)
			for _, opt := range []Options{{}, {Integers: true}, {Sinks: []float32{1, 2, 3, 4}}} {
				want := zeros(1, heads, lq, dv)
				must(t, all.Attend(want, q, &opt))
				whole, err := NewState(StateConfig{1, heads, lq, dv})
				must(t, err)
				for _, part := range [][2]int{{0, Segment}, {Segment, 100}} {
					s := store.NewSequence()
					must(t, s.Append(rowsOf(k, part[0], part[1]), rowsOf(v, part[0], part[1])))
					st, err := NewState(StateConfig{1, heads, lq, dv})
					must(t, err)
					must(t, st.UpdateSequence(q, s, &opt))
					must(t, whole.Merge(st))
					s.Release()
				}
				got := BHLD(nans(heads*lq*dv), 1, heads, lq, dv)
				must(t, whole.Finish(got, nil))
				mustEqualBits(t, fmt.Sprint(f, " output"), got.Data, want.Data)
			}
		}
	})
}

// A code says the level whose bounds a number is between, of its sign.
func TestCodes(t *testing.T) {
	for i := range 4 * 127 * 64 {
		x := float32(i-2*127*64) / 128
		want := math.Copysign(nearestLevel(math.Abs(float64(x))), float64(x))
		if got := kernel.Levels[kernel.CodeOf(x)]; float64(got) != want {
			t.Fatalf("the level of %v is %v, want %v", x, got, want)
		}
	}
	if code := kernel.CodeOf(float32(math.Copysign(0, -1))); kernel.Levels[code] != -5 {
		t.Errorf("the level of -0 is %v, want -5", kernel.Levels[code])
	}
}

// Groups of eight codes become four bytes, and one by one they are where they are looked up.
func TestCodesFold(t *testing.T) {
	r := random("codes")
	codes, folded := make([]byte, 48), make([]byte, 24)
	for i := range codes {
		codes[i] = byte(r.IntN(16))
	}
	kernel.FoldCodes(folded, codes)
	b := kernel.PanelLayout{Stride: 4}
	for i, want := range codes {
		at := kernel.PlaceOf(kernel.I4, &b, i, 0)
		if got := kernel.CodeAt(folded, at); got != want {
			t.Errorf("code %d is %d, want %d", i, got, want)
		}
		kernel.SetCode(folded, at, 0)
	}
	for i, e := range folded {
		if e != 0 {
			t.Errorf("byte %d is %d, want 0", i, e)
		}
	}
	kernel.PutCodes(folded, codes[:24], false)
	kernel.PutCodes(folded, codes[24:], true)
	for i := range folded {
		got, want := [2]byte{kernel.CodeAt(folded, 2*i), kernel.CodeAt(folded, 2*i+1)}, [2]byte{codes[i],
			codes[24+i]}
		if got != want {
			t.Errorf("byte %d has codes %d, want %d", i, got, want)
		}
	}
}
