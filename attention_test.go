package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/dev/reference"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// deviation sums squared errors against float64, of the library and of the
// naive float32 algorithm.
type deviation struct{ got, naive, exact float64 }

func (d *deviation) add(got []float32, naive, exact []float64) {
	square := func(a, b float64) float64 {
		if a == b {
			return 0 // infinities too
		}
		return (a - b) * (a - b)
	}
	for i, e := range exact {
		d.got += square(float64(got[i]), e)
		d.naive += square(naive[i], e)
		if !math.IsInf(e, 0) {
			d.exact += e * e
		}
	}
}

// ratio is the error relative to the naive algorithm's. The naive algorithm may happen
// to be exact, as with a single key; so errors of half an ULP count as equal.
func (d *deviation) ratio() float64 {
	if d.got == 0 {
		return 0
	}
	return math.Sqrt(d.got / max(d.naive, d.exact*0x1p-48))
}

// deviations of one or more calls of the same kind.
type deviations struct{ output, lse, weights deviation }

func (d *deviations) add(c *reference.Call, got *result) {
	exact, naive := c.Float64(), c.Naive()
	d.output.add(got.o, naive.O, exact.O)
	d.lse.add(got.lse, naive.LSE, exact.LSE)
	d.weights.add(got.weights, naive.Weights, exact.Weights)
}

// within fails the test unless the errors are at most times as large as the naive algorithm's.
func (d *deviations) within(t *testing.T, times float64, what string) {
	t.Helper()
	for name, part := range map[string]*deviation{"output": &d.output, "LSE": &d.lse,
		"weights": &d.weights} {
		if r := part.ratio(); !(r <= times) {
			t.Errorf("%s: error is %.3g times that of naive float32, want at most %v\n%s", name, r, times,
				what)
		}
	}
}

// The error is at most twice the naive float32 algorithm's, on every shape and with every option.
// Root mean squares of some hundred rows are compared, because a single row may be lucky with its
// roundings.
func TestAccuracy(t *testing.T) {
	shapes := []shape{
		{1, 1, 1, 16, 16, 64, 64}, {1, 1, 1, 1, 1, 1, 1}, {1, 2, 1, 100, 100, 64, 64},
		{2, 2, 1, 128, 128, 64, 64},
		{1, 1, 4, 1, 1000, 128, 128}, {1, 1, 1, 50, 333, 128, 128}, {1, 1, 1, 77, 77, 80, 80},
		{1, 1, 8, 1, 3000, 64, 64},
		{3, 1, 3, 7, 65, 3, 5}, {1, 1, 1, 20, 200, 256, 256}, {1, 1, 2, 4, 100, 576, 512},
		{1, 1, 1, 23, 1025, 40, 24},
	}
	forEach(t, func(t *testing.T) {
		for i, s := range shapes {
			if i%4 != 0 && budget(4) < 4 {
				continue
			}
			for name, option := range accuracyOptions {
				t.Run(fmt.Sprintf("%+v/%s", s, name), func(t *testing.T) {
					testAccuracy(t, s, option)
				})
			}
		}
	})
}

// accuracyOptions are the options that models use, each with usual values.
var accuracyOptions = map[string]func(p *problem, r *rand.Rand){
	"none":    func(*problem, *rand.Rand) {},
	"causal":  func(p *problem, _ *rand.Rand) { p.opt.Causal = BottomRight },
	"softcap": func(p *problem, _ *rand.Rand) { p.opt.Softcap = 20 },
	"window": func(p *problem, _ *rand.Rand) {
		p.opt.Causal, p.opt.Window = BottomRight, Window{Left: 41}
	},
	"bias": func(p *problem, r *rand.Rand) {
		bias := tensor(r, normal, 1, p.q.H, p.q.L, p.k.L)
		p.opt.Bias = bias
	},
	"slopes": func(p *problem, _ *rand.Rand) {
		p.opt.Causal, p.opt.Slopes = BottomRight, make([]float32, p.q.H)
		for h := range p.opt.Slopes {
			p.opt.Slopes[h] = float32(math.Exp2(-8 * float64(h+1) / float64(p.q.H)))
		}
	},
	"sinks": func(p *problem, r *rand.Rand) { p.opt.Sinks = tensor(r, normal, 1, 1, 1, p.q.H).Data },
}

func testAccuracy(t *testing.T, s shape, option func(p *problem, r *rand.Rand)) {
	r := random(t.Name())
	var d deviations
	for rows := 0; rows < 20+budget(130); rows += s.b * s.kvh * s.group * s.lq {
		p := newProblem(r, normal, s)
		option(p, r)
		d.add(p.reference(), p.solve(t, Attend))
	}
	d.within(t, 2, "")
}

// All options in random compositions, against their definitions. The bound is loose,
// because it is for single calls, and random slopes and scales magnify each rounding.
func TestComposition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("composition")
		for range budget(400) {
			p := randomProblem(r, normal)
			var d deviations
			d.add(p.reference(), p.solve(t, Attend))
			if d.within(t, 40, p.describe()); t.Failed() {
				return
			}
		}
	})
}

// A mask that is true everywhere gives the bits of no mask.
func TestAllTrueMask(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("true")
		for range budget(150) {
			p := randomProblem(r, randomKind(r))
			p.opt.Mask = Mask{}
			want := p.solve(t, Attend)
			mask := BHLD(make([]bool, p.q.L*p.k.L), 1, 1, p.q.L, p.k.L)
			for i := range mask.Data {
				mask.Data[i] = true
			}
			p.opt.Mask = mask
			p.same(t, "all-true mask", p.solve(t, Attend), want)
		}
	})
}

// Rows without a visible key are zero with LSE −Inf, whatever hides the keys.
func TestEmptyRows(t *testing.T) {
	none := BHLD(make([]bool, 3*70), 1, 1, 3, 70)
	masked := zeros(1, 1, 3, 70)
	fillWith(masked.Data, negInf)
	cases := map[string]Options{
		"mask":    {Mask: none},
		"bias":    {Bias: masked},
		"keys":    {KeyLens: []int{0, 0}},
		"queries": {QueryLens: []int{0, 0}},
		"causal":  {Causal: TopLeft, Offset: -3},
		"window":  {Offset: 100, Window: Window{Left: 6}},
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

// Scores that overflow to −Inf weigh nothing. A row with only such scores
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
				t.Errorf("row %d is %v, want the only value that counts, %v", i, got.o[i*8:][:8],
					p.v.row(0, 0, 66))
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
		tiny.Fill(random("values"), p.v.Data)
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
			{0, 2, 2, 3, 4, 5, 6}, {2, 0, 2, 3, 4, 5, 6}, {2, 2, 0, 3, 4, 5, 6}, {2, 2, 2, 0, 4, 5, 6},
			{2, 2, 2, 3, 0, 5, 6},
		} {
			p := newProblem(random("empty"), normal, s)
			mustBeEmpty(t, fmt.Sprintf("%+v", s), p.solve(t, Attend))
		}
	})
}

// A window may begin after the last key: its rows are empty.
func TestWindowAfterTheKeys(t *testing.T) {
	dst := nans(100 * 8)
	x := make([]float32, 100*8)
	must(t, Attend(BHLD(dst, 1, 1, 100, 8), BHLD(x, 1, 1, 100, 8), BHLD(x, 1, 1, 10, 8),
		BHLD(x, 1, 1, 10, 8),
		&Options{Window: Window{Left: 3}, Offset: 20}))
	mustEqualBits(t, "output", dst, x)
}

// fewRowsAndKeys draws a shape, tiny in most cases, so that the fuzzer tries
// many compositions of options.
func fewRowsAndKeys(r *rand.Rand) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(4), 1 + r.IntN(8),
		1 + r.IntN(6), 1 + r.IntN(10)}
	switch draw := r.IntN(1024); {
	case draw == 0: // larger in all dimensions
		s = randomShape(r, moderate/30)
	case draw < 4: // several segments
		s.lk = Segment - 70 + r.IntN(Segment+200)
		s.b, s.kvh = 1, 1
	case draw < 50: // several blocks
		s.lk = length(r, 300)
	case draw < 100: // several tiles
		s.lq = length(r, 40)
	case draw < 150: // the dimensions of models
		s.d, s.dv = length(r, 99), length(r, 99)
	case draw < 160: // a whole block for the rows and columns of whole tiles
		s.lq, s.lk, s.dv = floats.MaximaRows+r.IntN(20), Block+r.IntN(2*Block), 4*panel+r.IntN(20)
	}
	return s
}
