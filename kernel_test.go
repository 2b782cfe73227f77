package attn

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// passTests has every pass over slices.
var passTests = []kernelTest{
	compare("dot", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		c.Equal("dot", dot(a, b), dotGeneric(a, b))
	}),
	compare("addProducts", vectorDims, func(c *trial, n []int) {
		a, b := c.Input(n[0]), c.Input(n[0])
		s, sWant := c.Results(64)
		addProducts((*[64]float32)(s), a, b)
		addProductsGeneric((*[64]float32)(sWant), a, b)
	}),
	compare("maxOf", vectorDims, func(c *trial, n []int) {
		x := c.Input(n[0])
		c.Equal("max", maxOf(x), maxOfGeneric(x))
	}),
	compare("exp", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		if c.IntN(2) == 0 { // in place
			exp(got, got)
			expGeneric(want, want)
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		exp(got, x)
		expGeneric(want, x)
	}),
	compare("expSum", vectorDims, func(c *trial, n []int) {
		got, want := c.Results(n[0])
		top := c.Kind.Draw(c.Rand)
		if c.IntN(2) == 0 { // in place
			sum := expSum(got, got, top)
			c.Equal("sum", sum, expSumGeneric(want, want, top))
			return
		}
		x := c.InputOf(n[0], c.Exponents())
		sum := expSum(got, x, top)
		c.Equal("sum", sum, expSumGeneric(want, x, top))
	}),
	compare("sumExp", vectorDims, func(c *trial, n []int) {
		x, top := c.InputOf(n[0], c.Exponents()), c.Kind.Draw(c.Rand)
		c.Equal("sum", sumExp(x, top), sumExpGeneric(x, top))
	}),
}

// Passes over slices give the bits of the generic code, and touch nothing outside their operands.
func TestPassesEqualGeneric(t *testing.T) {
	equalGeneric(t, passTests, true)
}

// Passes over slices are split, too.
func TestSplitPassesEqualGeneric(t *testing.T) {
	splitVectors(t, func(c *trial, x []float32, top float32) {
		n, other := len(x), c.Input(len(x))
		y, yWant := c.Results(n)
		exp(y, x)
		expGeneric(yWant, x)
		c.Equal("expSum", expSum(y, x, top), expSumGeneric(yWant, x, top))
		c.Equal("expSum in place", expSum(y, y, 1), expSumGeneric(yWant, yWant, 1))
		c.Equal("sumExp", sumExp(x, top), sumExpGeneric(x, top))
		c.Equal("maxOf", maxOf(x), maxOfGeneric(x))
		c.Equal("dot", dot(x, other), dotGeneric(x, other))
	})
}

// Attention with a head dimension beyond what one call may take.
func TestLongHeads(t *testing.T) {
	p := newProblem(random("long heads"), normal, shape{1, 1, 1, 3, 5, kernel.CallInner + 9,
		2*kernel.CallInner + 8})
	forEach(t, func(t *testing.T) {
		got := p.solve(t, Attend)
		use(t, tuning.Generic)
		p.same(t, "generic", got, p.solve(t, Attend))
	})
}

// BenchmarkStopTheWorld measures how long the garbage collector waits for two
// goroutines that attend over 32k keys.
func BenchmarkStopTheWorld(b *testing.B) {
	p := newProblem(random("stop"), normal, shape{1, 1, 1, 64, 32 << 10, 128, 128})
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		dst, _, _ := p.results()
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Attend(dst, p.q, p.k, p.v, nil)
				}
			}
		})
	}
	before := pauses()
	for b.Loop() {
		runtime.GC()
	}
	after := pauses()
	close(stop)
	wait.Wait()
	b.ReportMetric(longestPause(before, after)*1e6, "longest-µs")
}

func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longestPause is the upper end of the last bucket that grew.
func longestPause(before, after *metrics.Float64Histogram) float64 {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > before.Counts[i] {
			return min(after.Buckets[i+1], math.MaxFloat64)
		}
	}
	return 0
}

// A machine that lacks an implementation that the run was made for must not
// pass for one that has tested it.
func TestRequiredImplementations(t *testing.T) {
	required := os.Getenv("ATTN_TEST_REQUIRE")
	if required == "" {
		required = tuning.Generic.String()
	}
	var have []string
	for _, i := range implementations() {
		have = append(have, i.String())
	}
	for _, name := range strings.Split(required, ",") {
		if !slices.Contains(have, name) {
			t.Errorf("implementation %s is required and was not tested: this machine runs %v", name, have)
		}
	}
	t.Logf("implementations: %v", have)
}

func TestImplementationName(t *testing.T) {
	if got, want := Implementation(), tuned.ISA.String(); got != want {
		t.Errorf("Implementation() = %q, want %q", got, want)
	}
	if forced := os.Getenv("ATTN_ISA"); forced != "" && Implementation() != forced {
		t.Errorf("Implementation() = %q, want %q as ATTN_ISA says", Implementation(), forced)
	}
}

// FuzzAttend composes all options: strides, implementation and the way it is
// computed must not change a bit, and a row must not depend on its neighbours.
func FuzzAttend(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		p := problemOf(r, distribution(r.IntN(int(distributions))), fewRowsAndKeys(r))
		got := p.solve(t, Attend)
		one := selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1}
		part := p.part(one)
		part.same(t, "one row", part.solve(t, Attend), one.of(p, got))
		anyTuning(t, r)
		for _, way := range ways {
			p.same(t, way.name, p.solveStrided(t, r, operands, way.attend), got)
		}
		for _, i := range implementations()[1:] {
			switchTo(i)
			p.same(t, chosen.ISA.String(), got, p.solve(t, Attend))
		}
	})
}

// FuzzFormula compares attention with its formula in float64, softmax(QKᵀ/√D)V with any options:
// each output, log-sum-exp and weight differs by at most what its roundings can add up to.
func FuzzFormula(f *testing.F) {
	seedInputs(f)
	r := random(f.Name() + ", problems")
	for range 200 { // so that the normal test run tries all options
		f.Add(kerneltest.AnyBytes(r, 64))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Cleanup(func() { tuned = chosen })
		r := randomFrom(data)
		p := problemOf(r, []distribution{normal, coarse, zeroes}[r.IntN(3)], fewRowsAndKeys(r))
		for _, i := range implementations() {
			switchTo(i)
			p.mustBeTheFormula(t, p.solve(t, Attend))
		}
	})
}

// mustBeTheFormula fails the test unless a result is the definition's in float64, except for
// roundings.
func (p *problem) mustBeTheFormula(t *testing.T, got *result) {
	c := p.reference()
	want := c.Float64()
	within := func(what string, got float32, want, bound float64) {
		if d := math.Abs(float64(got) - want); d > bound || (d != d && float64(got) != want) {
			t.Helper()
			t.Fatalf("%s is %v, want %v ± %v: %s", what, got, want, bound, p.describe())
		}
	}
	for row := range c.B * c.H * c.Lq {
		b, h, i := row/c.Lq/c.H, row/c.Lq%c.H, row%c.Lq
		scores, relative := c.RoundingsOf(b, h, i)
		at := fmt.Sprintf(" of batch entry %d, head %d, query %d", b, h, i)
		within("LSE"+at, got.lse[row], want.LSE[row], scores)
		weights := want.Weights[row*c.Lk:][:c.Lk]
		for j, w := range weights {
			within(fmt.Sprint("weight ", j, at), got.weights[row*c.Lk+j], w, relative*w+flushed)
		}
		for x := range c.Dv {
			var size float64
			for j, w := range weights {
				size += (w + flushed) * math.Abs(float64(p.v.row(b, h*c.KVH/c.H, j)[x]))
			}
			within(fmt.Sprint("element ", x, at), got.o[row*c.Dv+x], want.O[row*c.Dv+x],
				relative*size+flushed)
		}
	}
}

// flushed is more than what is lost where weights below 2⁻¹²⁶ become zero.
const flushed = 0x1p-120

// Passes over slices: assembly against the generic code.

// fuzzKernel compares one kernel of kernel_test.go with its generic twin.
func fuzzKernel(f *testing.F, name string) {
	kerneltest.FuzzOneOf(f, passTests, name)
}

func FuzzDot(f *testing.F)         { fuzzKernel(f, "dot") }
func FuzzAddProducts(f *testing.F) { fuzzKernel(f, "addProducts") }
func FuzzMaxOf(f *testing.F)       { fuzzKernel(f, "maxOf") }
func FuzzExp(f *testing.F)         { fuzzKernel(f, "exp") }
func FuzzExpSum(f *testing.F)      { fuzzKernel(f, "expSum") }
func FuzzSumExp(f *testing.F)      { fuzzKernel(f, "sumExp") }
