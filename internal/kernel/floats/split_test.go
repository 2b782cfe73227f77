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

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The slowest CPU that the assembly is for, see kernel.go.
const (
	slowestHertz   = 1.5e9
	slowestLanes   = 4
	slowestRead    = 3 // cycles for 4 bytes: 2 GB/s
	longestSeconds = 100e-6
)

// What a kernel call may do at most takes no longer than 100 µs on the slowest CPU.
func TestAssemblyCallsAreShort(t *testing.T) {
	for _, c := range []struct {
		name   string
		cycles float64
	}{
		{"products", slowestFMA() * kernel.CallProducts / slowestLanes},
		{"masked products", 3 * slowestFMA() * kernel.CallMasked / slowestLanes},
		{"elements that few rows read", slowestRead * kernel.CallProducts / kernel.CallRows},
		// transposed and multiplied, and read; 8 touched beside 16
		{"keys in rows", kernel.CallInPlaceProducts * (3.0/slowestLanes + 1.5*slowestRead/inPlaceRows)},
		{"one chain of products", 4 * kernel.CallInner},
		{"elements packed", 2 * slowestRead * kernel.CallCopies},
		{"elements of a vector function", 8 * kernel.CallElements}, // exp of 4 lanes: 32 cycles
		{"the same, subnormal on Intel", 30 * kernel.CallElements}, // exp: 30, scale and merge: 22
		{"softcaps, subnormal on Intel", 150 * kernel.CallSoftcaps},
		{"merged sums", 32 * kernel.CallElements},
		{"bytes copied or searched", 2 * slowestRead * stop.Bytes / 4},
		{"biases of a tile", (slowestRead + 2) * maxTileRows * Block},
		{"softmax of rows", 16 * kernel.SoftmaxRows * Block},
	} {
		if s := c.cycles / slowestHertz; s > longestSeconds {
			t.Errorf("%s: %.0f µs, want at most %.0f", c.name, s*1e6, longestSeconds*1e6)
		}
	}
}

// Where calls are split does not change a bit.
func TestSplitCallsEqualGeneric(t *testing.T) {
	useTuning(t, with16Lanes(tuned))
	r := random("split")
	c := newTrial(t, r)
	for _, n := range [][3]int{{1, kernel.CallInner + 1, 64}, {2, 3*kernel.CallInner + 5, 17}, {13,
		700, 64},
		{7, kernel.CallInner, 3}, {48, kernel.InPlaceDim, 5}, {4, kernel.InPlaceDim, 64}, {4, 576,
			60}, {1, kernel.InPlaceDim, 64},
		{5, 600, 64}, {1, 1500, 64}, {5, 1000, 40}, {20, 1024, 50}, {40, kernel.CallInner, 64}} {
		c.Reset()
		rows, d, keys := n[0], n[1], n[2]
		panels := roundUp(keys, panel) / panel
		q, k := c.Input(rows*d), c.Input(keys*d)
		packed, packedWant := c.Results(panels * panel * d)
		packKeys(packed, k, d, keys, d)
		packKeysGeneric(packedWant, k, d, keys, d)
		s, sWant := c.Results(rows * Block)
		scorePrefetch(s, q, packedWant, rows, d, panels, nil)
		scoreGeneric(sWant, q, packedWant, rows, d, panels)
		if d <= kernel.InPlaceDim {
			inPlace, inPlaceWant := c.Results(rows * Block)
			scoreRows(inPlace, q, k, rows, d, d, keys, c.Anywhere())
			scoreRowsGeneric(inPlaceWant, q, k, rows, d, d, keys)
		}
		cols := d / 8 * 8
		v, vWant := c.Results(roundUp(cols, panel) * Block)
		packValues(v, k, d, keys, cols)
		packValuesGeneric(vWant, k, d, keys, cols)
		layout := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: panel, PanelStride: Block * panel}
		alpha := c.Factors(rows)
		weights := c.Weights(rows * Block)
		o, oWant := c.Results(rows * cols)
		accumulate(o, weights, vWant, alpha, rows, cols, Block, &layout)
		accumulateGeneric(oWant, weights, vWant, alpha, rows, cols, Block, &layout)
		accumulateMasked(o, weights, vWant, alpha, rows, cols, Block, &layout)
		accumulateMaskedGeneric(oWant, weights, vWant, alpha, rows, cols, Block, &layout)
		if c.Compare(); c.Text != "" {
			t.Fatalf("rows, d, keys %v, distribution %d: %s", n, c.Kind, c.Text)
		}
	}
}

// Masked values of more keys than a block has, of which one row and one panel count as too many,
// are not split for ever.
func TestSplitLongMaskedCalls(t *testing.T) {
	c := newTrial(t, random("long masked"))
	for _, rows := range []int{1, 2, 15, 17} {
		for _, cols := range []int{8, 16, 24} {
			c.Reset()
			a := c.NewAccumulation([]int{rows, kernel.CallInner, cols, 0})
			accumulateMasked(a.Got, a.P, a.V, a.Alpha, rows, a.OStride, a.PStride, &a.Layout)
			accumulateMaskedGeneric(a.Want, a.P, a.V, a.Alpha, rows, a.OStride, a.PStride, &a.Layout)
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d rows, %d columns: %s", rows, cols, c.Text)
			}
		}
	}
}

func TestSplitVectorsEqualGeneric(t *testing.T) {
	splitVectors(t, func(c *trial, x []float32, top float32) {
		n := len(x)
		z, zWant := c.Results(n)
		c.Equal("allFinite", allFinite(x), allFiniteGeneric(x))
		scale(z, x, top)
		scaleGeneric(zWant, x, top)
		merge(z, x, 0.5, 0.25)
		mergeGeneric(zWant, x, 0.5, 0.25)
		softcap(z, 5, 0.5)
		softcapGeneric(zWant, 5, 0.5)
		y, yWant := c.Results(n)
		m, mWant, l, lWant := c.RunningState(n)
		m2, _, l2, _ := c.RunningState(n)
		mergeSums(m, l, m2, l2, y, z, f32.Log2E)
		mergeSumsGeneric(mWant, lWant, m2, l2, yWant, zWant, f32.Log2E)
	})
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

// splitVectors runs a comparison over vectors of more elements than a call takes.
func splitVectors(t *testing.T, run func(c *trial, x []float32, top float32)) {
	c := newTrial(t, random("split vectors"))
	for _, n := range []int{kernel.CallElements + 1, 2 * kernel.CallElements,
		2*kernel.CallElements + 17} {
		for kind := range distributions {
			if testing.Short() && kind > special {
				break
			}
			c.Reset()
			c.Kind = kind
			x := c.Input(n)
			run(c, x, c.Kind.Draw(c.Rand))
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d elements, distribution %d: %s", n, kind, c.Text)
			}
		}
	}
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

// BenchmarkLongestCall measures the largest calls that are not split.
func BenchmarkLongestCall(b *testing.B) {
	const d = kernel.CallProducts / Block / 12
	x := make([]float32, kernel.CallProducts)
	y := make([]float32, kernel.CallProducts)
	layout := kernel.PanelLayout{Keys: Block,
		Cols:   kernel.CallProducts / Block / minTileRows / panel * panel,
		Stride: panel, PanelStride: Block * panel}
	m := make([]float32, minTileRows)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"score", func() { scorePrefetch(y, x, x, 12, d, Block/panel, nil) }},
		{"score_rows", func() {
			scoreRows(y, x, x, inPlaceRows, kernel.CallInPlaceProducts/inPlaceRows/Block,
				kernel.CallInPlaceProducts/inPlaceRows/Block, Block, nil)
		}},
		{"accumulate", func() { accumulate(y, x, x, m, minTileRows, layout.Cols, Block, &layout) }},
		{"softmax", func() { softmax(y, m, m, m, nil, minTileRows, f32.Log2E) }},
		{"pack_keys", func() { packKeys(y, x, kernel.CallCopies/Block, Block, kernel.CallCopies/Block) }},
		{"pack_values", func() {
			packValues(y, x, kernel.CallCopies/Block, Block,
				kernel.CallCopies/Block)
		}},
		{"exp", func() { exp(y, x[:kernel.CallElements]) }},
		{"dot", func() { kerneltest.Used32 = dot(x[:kernel.CallElements], x) }},
		{"exp_sum", func() { kerneltest.Used32 = expSum(y, x[:kernel.CallElements], 0) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.call()
			}
		})
	}
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

// Rows that are normalized are split between rows, and long ones within.
func TestSplitNormalizeEqualsGeneric(t *testing.T) {
	c := newTrial(t, random("split normalize"))
	for _, size := range [][2]int{{3, kernel.CallElements/2 + 1}, {2, 2*kernel.CallElements + 5},
		{300, 99},
		{1, kernel.CallElements + 1}} {
		c.Reset()
		rows, n := size[0], size[1]
		l, o := c.Input(rows), c.Input(rows*(n+2))
		got, want := c.Results(rows * (n + 3))
		normalize(got, o, l, rows, n, n+3, n+2)
		normalizeGeneric(want, o, l, rows, n, n+3, n+2)
		if c.Compare(); c.Text != "" {
			t.Errorf("%d rows of %d: %s", rows, n, c.Text)
		}
	}
}

// What a split call prefetches changes nothing either.
func TestSplitScorePrefetches(t *testing.T) {
	const rows, d, panels = 48, 200, 4 // more than callProducts
	c := newTrial(t, random("split prefetch"))
	for range 4 {
		c.Reset()
		q, k := c.Input(rows*d), c.Input(panels*d*panel)
		got, want := c.Results(rows * Block)
		scorePrefetch(got, q, k, rows, d, panels, c.Anywhere())
		scoreGeneric(want, q, k, rows, d, panels)
		if c.Compare(); c.Text != "" {
			t.Error(c.Text)
		}
	}
}

// Full tiles give the same bits through whatever kernels they go.
func TestFullTilesEqualGeneric(t *testing.T) {
	forEach(t, func(t *testing.T) {
		if tuned.ISA == tuning.Generic {
			return // tiles go through the kernels of assembly only
		}
		c := newTrial(t, random("full tiles"))
		for range budget(400) {
			anyTuning(t, c.Rand)
			c.Reset()
			rows, d, cols := 1+c.IntN(tuned.TileRows), 1+c.IntN(2*maximaDim), 8*(1+c.IntN(12))
			if c.IntN(2) == 0 {
				rows = max(1, rows/maximaRows) * maximaRows
			}
			a := c.NewAccumulation([]int{rows, Block, cols, c.IntN(9)})
			q, k := c.Input(rows*d), c.Input(Block*d)
			s, sWant := c.Results(rows * Block)
			m, mWant, l, lWant := c.RunningState(rows)
			alpha, alphaWant := c.Results(rows)
			maxima, _ := c.Place(maxTileRows * kernel.MaximaLanes)
			unit := c.Unit()
			tile := fullTile{c: unit, s: &s[0], alpha: &alpha[0], maxima: &maxima[0], k: &k[0], v: &a.V[0],
				d: d, oStride: a.OStride, layout: &a.Layout, queue: c.Anywhere()}
			masked := tile.add(&q[0], &m[0], &l[0], &a.Got[0], rows)
			scoreGeneric(sWant, q, k, rows, d, Block/panel)
			c.Equal("masked", masked, softmaxGeneric(sWant, mWant, lWant, alphaWant, rows, unit))
			accumulateGeneric(a.Want, sWant, a.V, alphaWant, rows, a.OStride, Block, &a.Layout)
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d rows, %d dimensions, %d columns, distribution %d, %+v: %s", rows, d, cols, c.Kind,
					chooseKernels(rows, d, false), c.Text)
			}
		}
	})
}

// No choice is one that the implementation lacks, and each is made where its tuning wants it.
func TestChooseKernels(t *testing.T) {
	defer func() { tuned = chosen }() // rows here have only what is asked for
	for _, c := range []struct {
		row     tuning.Row
		rows, d int
		want    kernels
	}{
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 13, 64,
			kernels{lanes16: true, softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 12, 64, kernels{softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 2}, 2, 64, kernels{lanes16: true, softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt, MaximaInScore: true}, maximaRows,
			maximaDim, kernels{softmax16: true, maxima: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt}, 1, 64, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows, maximaDim,
			kernels{maxima: true}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows + 1, maximaDim, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, maximaRows, maximaDim - 1, kernels{}},
		{tuning.Row{ISA: tuning.AVX2, MinRows16: 2}, 96, 128, kernels{}},
		{tuning.Row{ISA: tuning.NEON, MaximaInScore: true}, 96, 128, kernels{}},
		{tuning.Row{ISA: tuning.Generic, MaximaInScore: true}, 96, 128, kernels{}},
	} {
		tuned = c.row
		if got := chooseKernels(c.rows, c.d, false); got != c.want {
			t.Errorf("%+v, %d rows, %d dimensions: %+v, want %+v", c.row, c.rows, c.d, got, c.want)
		}
	}
	tuned = tuning.Row{ISA: tuning.AVX512, MinRows16: 13, MinPacked16: 3}
	for rows, want := range map[int]bool{2: false, 3: true, 12: true} {
		if got := chooseKernels(rows, 64, true).lanes16; got != want {
			t.Errorf("%d rows over what the call has packed: 16 lanes %t", rows, got)
		}
	}
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
