package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/reference"
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

// ratio is the error relative to the naive algorithm's. Where that one happens
// to be exact, as with a single key, errors of half an ULP still count as equal.
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

// within fails the test unless the errors are at most times those of the naive algorithm.
func (d *deviations) within(t *testing.T, times float64, what string) {
	t.Helper()
	for name, part := range map[string]*deviation{"output": &d.output, "LSE": &d.lse, "weights": &d.weights} {
		if r := part.ratio(); !(r <= times) {
			t.Errorf("%s: error is %.3g times that of naive float32, want at most %v\n%s", name, r, times, what)
		}
	}
}

// The error is at most twice that of the naive float32 algorithm, on every
// shape and with every option. Root mean squares of some hundred rows are compared, because the
// luck of single roundings would decide about single rows.
func TestAccuracy(t *testing.T) {
	shapes := []shape{
		{1, 1, 1, 16, 16, 64, 64}, {1, 1, 1, 1, 1, 1, 1}, {1, 2, 1, 100, 100, 64, 64}, {2, 2, 1, 128, 128, 64, 64},
		{1, 1, 4, 1, 1000, 128, 128}, {1, 1, 1, 50, 333, 128, 128}, {1, 1, 1, 77, 77, 80, 80}, {1, 1, 8, 1, 3000, 64, 64},
		{3, 1, 3, 7, 65, 3, 5}, {1, 1, 1, 20, 200, 256, 256}, {1, 1, 2, 4, 100, 576, 512}, {1, 1, 1, 23, 1025, 40, 24},
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
		p.opt.Causal, p.opt.Window = BottomRight, &Window{Left: 40, Right: -1}
	},
	"bias": func(p *problem, r *rand.Rand) {
		bias := tensor(r, normal, 1, p.q.H, p.q.L, p.k.L)
		p.opt.Bias = &bias
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

// All options in random compositions, against their definitions. Here
// accuracy is not the question: a single call decides, and random slopes and
// scales make scores that magnify each rounding.
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
