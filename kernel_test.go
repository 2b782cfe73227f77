package attn

import (
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
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
