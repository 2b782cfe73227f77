package floats

import (
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Where calls are split does not change a bit.
func TestSplitCallsEqualGeneric(t *testing.T) {
	kerneltest.UseTuning(t, kerneltest.With16Lanes(*kerneltest.Tuned))
	r := kerneltest.Random("split")
	c := kerneltest.NewTrial(t, r)
	for _, n := range [][3]int{{1, kernel.CallInner + 1, 64}, {2, 3*kernel.CallInner + 5, 17}, {13,
		700, 64},
		{7, kernel.CallInner, 3}, {48, kernel.InPlaceDim, 5}, {4, kernel.InPlaceDim, 64}, {4, 576,
			60}, {1, kernel.InPlaceDim, 64},
		{5, 600, 64}, {1, 1500, 64}, {5, 1000, 40}, {20, 1024, 50}, {40, kernel.CallInner, 64}} {
		c.Reset()
		rows, d, keys := n[0], n[1], n[2]
		panels := kernel.RoundUp(keys, kernel.Panel) / kernel.Panel
		q, k := c.Input(rows*d), c.Input(keys*d)
		packed, packedWant := c.Results(panels * kernel.Panel * d)
		PackKeys(kerneltest.Tuned, packed, k, d, keys, d)
		packKeysGeneric(packedWant, k, d, keys, d)
		s, sWant := c.Results(rows * kernel.Block)
		Score(kerneltest.Tuned, s, q, packedWant, rows, d, panels, nil)
		scoreGeneric(sWant, q, packedWant, rows, d, panels)
		if d <= kernel.InPlaceDim {
			inPlace, inPlaceWant := c.Results(rows * kernel.Block)
			ScoreRows(kerneltest.Tuned.ISA, inPlace, q, KeyRows{k, d, keys}, rows, d, c.Anywhere())
			scoreRowsGeneric(inPlaceWant, q, k, rows, d, d, keys)
		}
		cols := d / 8 * 8
		v, vWant := c.Results(kernel.RoundUp(cols, kernel.Panel) * kernel.Block)
		PackValues(kerneltest.Tuned, v, k, d, keys, cols)
		packValuesGeneric(vWant, k, d, keys, cols)
		layout := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: kernel.Panel,
			PanelStride: kernel.Block * kernel.Panel}
		alpha := c.Factors(rows)
		weights := c.Weights(rows * kernel.Block)
		o, oWant := c.Results(rows * cols)
		Accumulate(kerneltest.Tuned, kerneltest.Sums(o, weights, alpha, rows, cols, kernel.Block),
			vWant, &layout)
		accumulateGeneric(kerneltest.Sums(oWant, weights, alpha, rows, cols, kernel.Block),
			vWant, &layout)
		AccumulateMasked(kerneltest.Tuned, kerneltest.Sums(o, weights, alpha, rows, cols, kernel.Block),
			vWant, &layout)
		accumulateMaskedGeneric(kerneltest.Sums(oWant, weights, alpha, rows, cols, kernel.Block),
			vWant, &layout)
		if c.Compare(); c.Text != "" {
			t.Fatalf("rows, d, keys %v, distribution %d: %s", n, c.Kind, c.Text)
		}
	}
}

// Masked values of more keys than a block has, of which one row and one panel count as too many,
// are not split for ever.
func TestSplitLongMaskedCalls(t *testing.T) {
	c := kerneltest.NewTrial(t, kerneltest.Random("long masked"))
	for _, rows := range []int{1, 2, 15, 17} {
		for _, cols := range []int{8, 16, 24} {
			c.Reset()
			a := c.NewAccumulation([]int{rows, kernel.CallInner, cols, 0})
			AccumulateMasked(kerneltest.Tuned,
				kerneltest.Sums(a.Got, a.P, a.Alpha, rows, a.OStride, a.PStride),
				a.V, &a.Layout)
			accumulateMaskedGeneric(kerneltest.Sums(a.Want, a.P, a.Alpha, rows, a.OStride, a.PStride),
				a.V, &a.Layout)
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d rows, %d columns: %s", rows, cols, c.Text)
			}
		}
	}
}

func TestSplitVectorsEqualGeneric(t *testing.T) {
	kerneltest.SplitVectors(t, func(c *kerneltest.Trial, x []float32, top float32) {
		n := len(x)
		z, zWant := c.Results(n)
		c.Equal("allFinite", AllFinite(kerneltest.Tuned.ISA, x), allFiniteGeneric(x))
		Scale(kerneltest.Tuned.ISA, z, x, top)
		scaleGeneric(zWant, x, top)
		Merge(kerneltest.Tuned.ISA, z, x, 0.5, 0.25)
		mergeGeneric(zWant, x, 0.5, 0.25)
		Softcap(kerneltest.Tuned.ISA, z, 5, 0.5)
		softcapGeneric(zWant, 5, 0.5)
		y, yWant := c.Results(n)
		m, mWant, l, lWant := c.RunningState(n)
		m2, _, l2, _ := c.RunningState(n)
		MergeSums(kerneltest.Tuned.ISA, m, l, m2, l2, y, z, f32.Log2E)
		mergeSumsGeneric(mWant, lWant, m2, l2, yWant, zWant, f32.Log2E)
	})
}

// BenchmarkLongestCall measures the largest calls that are not split.
func BenchmarkLongestCall(b *testing.B) {
	const d = kernel.CallProducts / kernel.Block / 12
	x := make([]float32, kernel.CallProducts)
	y := make([]float32, kernel.CallProducts)
	layout := kernel.PanelLayout{Keys: kernel.Block,
		Cols:   kernel.CallProducts / kernel.Block / tuning.MinTileRows / kernel.Panel * kernel.Panel,
		Stride: kernel.Panel, PanelStride: kernel.Block * kernel.Panel}
	m := make([]float32, tuning.MinTileRows)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"score", func() { Score(kerneltest.Tuned, y, x, x, 12, d, kernel.Block/kernel.Panel, nil) }},
		{"score_rows", func() {
			d := kernel.CallInPlaceProducts / kernel.InPlaceRows / kernel.Block
			ScoreRows(kerneltest.Tuned.ISA, y, x, KeyRows{x, d, kernel.Block}, kernel.InPlaceRows, d, nil)
		}},
		{"accumulate", func() {
			Accumulate(kerneltest.Tuned,
				kerneltest.Sums(y, x, m, tuning.MinTileRows, layout.Cols, kernel.Block),
				x, &layout)
		}},
		{"softmax", func() { Softmax(kerneltest.Tuned, y, m, m, m, nil, tuning.MinTileRows, f32.Log2E) }},
		{"pack_keys", func() {
			PackKeys(kerneltest.Tuned, y, x, kernel.CallCopies/kernel.Block, kernel.Block,
				kernel.CallCopies/kernel.Block)
		}},
		{"pack_values", func() {
			PackValues(kerneltest.Tuned, y, x, kernel.CallCopies/kernel.Block, kernel.Block,
				kernel.CallCopies/kernel.Block)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.call()
			}
		})
	}
}

// Rows that are normalized are split between rows, and long ones within.
func TestSplitNormalizeEqualsGeneric(t *testing.T) {
	c := kerneltest.NewTrial(t, kerneltest.Random("split normalize"))
	for _, size := range [][2]int{{3, kernel.CallElements/2 + 1}, {2, 2*kernel.CallElements + 5},
		{300, 99},
		{1, kernel.CallElements + 1}} {
		c.Reset()
		rows, n := size[0], size[1]
		l, o := c.Input(rows), c.Input(rows*(n+2))
		got, want := c.Results(rows * (n + 3))
		Normalize(kerneltest.Tuned.ISA, got, o, l, rows, n, n+3, n+2)
		normalizeGeneric(want, o, l, rows, n, n+3, n+2)
		if c.Compare(); c.Text != "" {
			t.Errorf("%d rows of %d: %s", rows, n, c.Text)
		}
	}
}

// What a split call prefetches changes nothing either.
func TestSplitScorePrefetches(t *testing.T) {
	const rows, d, panels = 48, 200, 4 // more than callProducts
	c := kerneltest.NewTrial(t, kerneltest.Random("split prefetch"))
	for range 4 {
		c.Reset()
		q, k := c.Input(rows*d), c.Input(panels*d*kernel.Panel)
		got, want := c.Results(rows * kernel.Block)
		Score(kerneltest.Tuned, got, q, k, rows, d, panels, c.Anywhere())
		scoreGeneric(want, q, k, rows, d, panels)
		if c.Compare(); c.Text != "" {
			t.Error(c.Text)
		}
	}
}

// Full tiles give the same bits through whatever kernels they go.
func TestFullTilesEqualGeneric(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		if kerneltest.Tuned.ISA == tuning.Generic {
			return // tiles go through the kernels of assembly only
		}
		c := kerneltest.NewTrial(t, kerneltest.Random("full tiles"))
		for range kerneltest.Budget(400) {
			kerneltest.AnyTuning(t, c.Rand)
			c.Reset()
			rows, d, cols := 1+c.IntN(kerneltest.Tuned.TileRows), 1+c.IntN(2*MaximaDim), 8*(1+c.IntN(12))
			if c.IntN(2) == 0 {
				rows = max(1, rows/MaximaRows) * MaximaRows
			}
			a := c.NewAccumulation([]int{rows, kernel.Block, cols, c.IntN(9)})
			q, k := c.Input(rows*d), c.Input(kernel.Block*d)
			s, sWant := c.Results(rows * kernel.Block)
			m, mWant, l, lWant := c.RunningState(rows)
			alpha, alphaWant := c.Results(rows)
			maxima, _ := c.Place(tuning.MaxTileRows * kernel.MaximaLanes)
			unit := c.Unit()
			tile := FullTile{C: unit, S: &s[0], Alpha: &alpha[0], Maxima: &maxima[0], K: &k[0], V: &a.V[0],
				D: d, OStride: a.OStride, Layout: &a.Layout, Queue: c.Anywhere()}
			masked := tile.Add(kerneltest.Tuned, &q[0], &m[0], &l[0], &a.Got[0], rows)
			scoreGeneric(sWant, q, k, rows, d, kernel.Block/kernel.Panel)
			c.Equal("masked", masked, softmaxGeneric(sWant, mWant, lWant, alphaWant, rows, unit))
			accumulateGeneric(kerneltest.Sums(a.Want, sWant, alphaWant, rows, a.OStride, kernel.Block),
				a.V, &a.Layout)
			if c.Compare(); c.Text != "" {
				t.Fatalf("%d rows, %d dimensions, %d columns, distribution %d, %+v: %s", rows, d, cols, c.Kind,
					Choose(kerneltest.Tuned, rows, d, false), c.Text)
			}
		}
	})
}

// No choice is one that the implementation lacks, and each is made where its tuning wants it.
func TestChooseKernels(t *testing.T) {
	defer func() { *kerneltest.Tuned = kerneltest.Chosen }() // rows here have only what is asked for
	for _, c := range []struct {
		row     tuning.Row
		rows, d int
		want    Variants
	}{
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 13, 64,
			Variants{Lanes16: true, Softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 13}, 12, 64, Variants{Softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: 2}, 2, 64, Variants{Lanes16: true, Softmax16: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt, MaximaInScore: true}, MaximaRows,
			MaximaDim, Variants{Softmax16: true, Maxima: true}},
		{tuning.Row{ISA: tuning.AVX512, MinRows16: math.MaxInt}, 1, 64, Variants{}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, MaximaRows, MaximaDim,
			Variants{Maxima: true}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, MaximaRows + 1, MaximaDim, Variants{}},
		{tuning.Row{ISA: tuning.AVX2, MaximaInScore: true}, MaximaRows, MaximaDim - 1, Variants{}},
		{tuning.Row{ISA: tuning.AVX2, MinRows16: 2}, 96, 128, Variants{}},
		{tuning.Row{ISA: tuning.NEON, MaximaInScore: true}, 96, 128, Variants{}},
		{tuning.Row{ISA: tuning.Generic, MaximaInScore: true}, 96, 128, Variants{}},
	} {
		*kerneltest.Tuned = c.row
		if got := Choose(kerneltest.Tuned, c.rows, c.d, false); got != c.want {
			t.Errorf("%+v, %d rows, %d dimensions: %+v, want %+v", c.row, c.rows, c.d, got, c.want)
		}
	}
	*kerneltest.Tuned = tuning.Row{ISA: tuning.AVX512, MinRows16: 13, MinPacked16: 3}
	for rows, want := range map[int]bool{2: false, 3: true, 12: true} {
		if got := Choose(kerneltest.Tuned, rows, 64, true).Lanes16; got != want {
			t.Errorf("%d rows over what the call has packed: 16 lanes %t", rows, got)
		}
	}
}
